/** Runs of playbooks: how many steps a second go through, and how long one step takes on an idle engine. */
import { Perdure, type PlaybookDocument, task } from "perdure";
import type { Bench, Row } from "./scenarios.ts";

const CONCURRENCY = 500;
const perSecond = (count: number, ms: number) => `${Math.round((count / ms) * 1_000).toLocaleString("en")}/s`;

const noop = task("noop", () => undefined);

function chain(steps: number): PlaybookDocument {
  const workflow = Array.from({ length: steps }, (_, i) => ({
    step: `s${i}`,
    type: "task",
    task: "noop",
    ...(i + 1 < steps ? { next: `s${i + 1}` } : {}),
  }));
  return { apiVersion: "perdure/v1", kind: "Playbook", metadata: { name: `chain-${steps}` }, workflow };
}

export async function runs({ open, scale, store }: Bench): Promise<Row[]> {
  return [
    await chains(await Perdure.open(open("runs-chain")), Math.round(1_000 * scale), store),
    await loop(await Perdure.open(open("runs-loop")), Math.round(10_000 * scale)),
    await idle(await Perdure.open(open("runs-idle")), store),
  ];
}

async function chains(perdure: Perdure, count: number, store: Bench["store"]): Promise<Row> {
  await using _closing = perdure;
  await using _worker = await perdure.work([noop], { concurrency: CONCURRENCY });
  const playbook = chain(10);
  const started = performance.now();
  const all = await Promise.all(Array.from({ length: count }, () => perdure.run(playbook)));
  await Promise.all(all.map((run) => run.result()));
  const figure = perSecond(count * 10, performance.now() - started);
  const aim = store === "sqlite" ? "≥ 5,000/s" : "≥ 3,000/s";
  return { what: `${count} runs × 10 task steps in a row, concurrency ${CONCURRENCY}`, figure, aim };
}

async function loop(perdure: Perdure, items: number): Promise<Row> {
  await using _closing = perdure;
  await using _worker = await perdure.work([noop], { concurrency: CONCURRENCY });
  const playbook = {
    ...{ apiVersion: "perdure/v1", kind: "Playbook", metadata: { name: "loop" }, parallel: CONCURRENCY },
    ...{ maxSteps: items + 100, workload: { items: Array.from({ length: items }, (_, i) => i) } },
    workflow: [
      {
        ...{ step: "each", type: "task", task: "noop" },
        loop: { in: "{{ workload.items }}", iterator: "item", concurrency: CONCURRENCY },
      },
    ],
  };
  const before = process.memoryUsage().rss;
  const started = performance.now();
  const run = await perdure.run(playbook);
  await run.result();
  const seconds = (performance.now() - started) / 1_000;
  const grown = (process.memoryUsage().rss - before) / 1_048_576;
  const figure = `${seconds.toFixed(1)} s, RSS +${grown.toFixed(0)} MB`;
  return { what: `a loop of ${items} items, concurrency ${CONCURRENCY}`, figure, aim: "≤ 3 s, ≤ 64 MB (SQLite)" };
}

async function idle(perdure: Perdure, store: Bench["store"]): Promise<Row> {
  await using _closing = perdure;
  await using _worker = await perdure.work([noop]);
  const steps = 20;
  const playbook = chain(steps);
  const times: number[] = [];
  for (let i = 0; i < 20; i++) {
    const started = performance.now();
    await (await perdure.run(playbook)).result();
    times.push((performance.now() - started) / steps);
  }
  times.sort((a, b) => a - b);
  const figure = `p50 ${(times[10] as number).toFixed(2)} ms a step`;
  return {
    what: `a chain of ${steps} steps on an idle engine`,
    figure,
    aim: store === "sqlite" ? "≤ 5 ms" : "≤ 10 ms",
  };
}
