/** What is measured. Each scenario gets fresh databases and returns rows of the table. */
import { type JobHandle, Perdure, type SubmitEntry, type Task, task } from "perdure";
import { cliStart } from "./cli-start.ts";
import { remoteDrain } from "./remote.ts";
import { runs } from "./runs.ts";

export interface Row {
  readonly what: string;
  readonly figure: string;
  readonly aim: string;
}

export interface Bench {
  readonly store: "sqlite" | "postgres";
  /** Options for a new, empty database. */
  open(name: string): { readonly url: string; readonly schema?: string };
  /** Of the usual number of jobs. */
  readonly scale: number;
  /** Keeps an old transaction open, as a report or a dump does, until the answer is called. */
  readonly longReader: (() => Promise<() => Promise<void>>) | null;
}

type Scenario = (bench: Bench) => Promise<Row[]>;

const CONCURRENCY = 500;

let handled = 0;
const noop = task("noop", (_input: { n: number }) => {
  handled += 1;
});
const failOnce = task(
  "fail-once",
  { retry: { maxAttempts: 2, backoff: { type: "none" } } },
  (_input: { n: number }, ctx) => {
    if (ctx.attempt === 1) throw new Error("first run fails");
    handled += 1;
  },
);

const entries = (task: Task<{ n: number }, unknown>, count: number, options = {}): SubmitEntry[] =>
  Array.from({ length: count }, (_, n) => ({ task, input: { n }, options }));

/** Submits jobs in lists of 1,000; all are stored when it resolves. */
async function fill(perdure: Perdure, task: Task<{ n: number }, unknown>, count: number, options = {}): Promise<void> {
  for (let done = 0; done < count; done += 1_000) {
    const answers = await perdure.submitMany(entries(task, Math.min(1_000, count - done), options));
    if (answers.some((answer) => !answer.ok)) throw new Error("a submit was refused");
  }
}

/** Until all are recorded as succeeded, not only run: the store is read when the last handler has run. */
async function untilEmpty(perdure: Perdure, count: number, before: number): Promise<void> {
  while (handled < count) await new Promise((resolve) => setTimeout(resolve, 5));
  for (;;) {
    const [queue] = await perdure.queues();
    if (queue?.counts.succeeded === before + count) return;
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

const perSecond = (count: number, ms: number) => `${Math.round((count / ms) * 1_000).toLocaleString("en")}/s`;
const quantile = (sorted: readonly number[], q: number) => sorted[Math.floor(sorted.length * q)] as number;

export const scenarios: Readonly<Record<string, Scenario>> = {
  async submit({ open, scale }) {
    await using perdure = await Perdure.open(open("submit"));
    const count = Math.round(300_000 * scale);
    const started = performance.now();
    await fill(perdure, noop, count);
    const figure = perSecond(count, performance.now() - started);
    return [{ what: "bulk submit, lists of 1,000", figure, aim: "≥ 60,000/s" }];
  },

  async single({ open, scale }) {
    await using perdure = await Perdure.open(open("single"));
    const count = Math.round(50_000 * scale);
    let left = count;
    const started = performance.now();
    const submitter = async () => {
      while (left-- > 0) await perdure.submit(noop, { n: left });
    };
    await Promise.all(Array.from({ length: 100 }, submitter));
    const figure = perSecond(count, performance.now() - started);
    return [{ what: "single submits, 100 at a time", figure, aim: "none set" }];
  },

  async drain({ open, scale }) {
    await using perdure = await Perdure.open(open("drain"));
    const count = Math.round(100_000 * scale);
    await fill(perdure, noop, count);
    const figure = perSecond(count, await timeDrain(perdure, noop, count));
    return [{ what: `drain of no-op jobs, concurrency ${CONCURRENCY}`, figure, aim: "≥ 30,000/s" }];
  },

  async "fail-once"({ open, scale }) {
    await using perdure = await Perdure.open(open("fail-once"));
    const count = Math.round(50_000 * scale);
    await fill(perdure, failOnce, count);
    const figure = perSecond(count, await timeDrain(perdure, failOnce, count));
    return [{ what: "jobs that fail once, then succeed", figure, aim: "≥ 12,000/s" }];
  },

  async latency({ open, scale, store }) {
    await using perdure = await Perdure.open(open("latency"));
    let startedAt = 0;
    const timed = task("timed", () => {
      startedAt = performance.now();
    });
    await using _worker = await perdure.work([timed]);
    const times: number[] = [];
    for (let i = 0; i < Math.max(200, 2_000 * scale); i++) {
      const before = performance.now();
      const job: JobHandle<void> = await perdure.submit(timed);
      await job.result();
      times.push(startedAt - before);
    }
    times.sort((a, b) => a - b);
    const figure = `p50 ${quantile(times, 0.5).toFixed(2)} ms, p99 ${quantile(times, 0.99).toFixed(2)} ms`;
    return [
      { what: "idle latency, submit → handler starts", figure, aim: store === "sqlite" ? "p50 < 1 ms" : "p50 ≤ 3 ms" },
    ];
  },

  /** Jobs that are due in the future, a few at a time, on an otherwise idle engine. */
  async due({ open, scale }) {
    await using perdure = await Perdure.open(open("due"));
    const late: number[] = [];
    let left = Math.round(2_000 * scale);
    let allRan: () => void = () => {};
    const all = new Promise<void>((resolve) => {
      allRan = resolve;
    });
    const timed = task("due", ({ at }: { at: number }) => {
      late.push(Date.now() - at);
      left -= 1;
      if (left === 0) allRan();
    });
    await using _worker = await perdure.work([timed], { concurrency: 50 });
    const now = Date.now();
    const jobs = Array.from({ length: left }, (_, i) => now + 1_500 + i * 3);
    await perdure.submitMany(jobs.map((at) => ({ task: timed, input: { at }, options: { runAt: at } })));
    await all;
    late.sort((a, b) => a - b);
    const figure = `p50 ${quantile(late, 0.5)} ms, p99 ${quantile(late, 0.99)} ms`;
    return [{ what: "a job due in the future, due → handler starts", figure, aim: "p99 ≤ 50 ms" }];
  },

  /** Every run leaves dead rows behind, and while somebody reads for long nothing can clear them away. */
  async dead({ open, scale, longReader }) {
    if (longReader === null) return [];
    await using perdure = await Perdure.open(open("dead"));
    await fill(perdure, noop, 1_000);
    await timeDrain(perdure, noop, 1_000);
    const before = await medianClaim(perdure);
    const release = await longReader();
    const count = Math.round(300_000 * scale);
    await fill(perdure, noop, count);
    await timeDrain(perdure, noop, count);
    const after = await medianClaim(perdure);
    await release();
    const figure = `${before.toFixed(2)} → ${after.toFixed(2)} ms, ${(after / before).toFixed(2)}×`;
    return [{ what: `submit + run + result, ${count / 1_000} k runs behind a long reader`, figure, aim: "< 2×" }];
  },

  async claim({ open, scale }) {
    const rows: Row[] = [];
    for (const [what, other, options] of [
      ["in backoff", false, { delay: "1h" }],
      ["of another kind", true, {}],
    ] as const) {
      const waiting = other ? task("other", (_input: { n: number }) => undefined) : noop;
      const medians: number[] = [];
      const many = Math.round(1_000_000 * scale);
      for (const count of [10_000, many]) {
        await using perdure = await Perdure.open(open(`claim-${other}-${count}`));
        await fill(perdure, waiting, count, options);
        medians.push(await medianClaim(perdure));
      }
      const [few = 0, much = 0] = medians;
      const figure = `${few.toFixed(2)} → ${much.toFixed(2)} ms, ${(much / few).toFixed(2)}×`;
      rows.push({ what: `submit + run + result, 10 k → ${many / 1_000} k waiting ${what}`, figure, aim: "≤ 1.2×" });
    }
    return rows;
  },

  runs,
  remote: remoteDrain,
  "cli-start": cliStart,
};

async function timeDrain(perdure: Perdure, task: Task<{ n: number }, unknown>, count: number): Promise<number> {
  handled = 0;
  const [earlier] = await perdure.queues();
  const ended = earlier?.counts.succeeded ?? 0;
  const started = performance.now();
  await using _worker = await perdure.work([task], { concurrency: CONCURRENCY });
  await untilEmpty(perdure, count, ended);
  return performance.now() - started;
}

/** One job at a time through a waiting worker, so that the cost of finding it among the others shows. */
async function medianClaim(perdure: Perdure): Promise<number> {
  const probe = task("noop", (_input: { n: number }) => undefined);
  await using _worker = await perdure.work([probe]);
  const times: number[] = [];
  for (let n = 0; n < 400; n++) {
    const before = performance.now();
    await (await perdure.submit(probe, { n })).result();
    times.push(performance.now() - before);
  }
  return quantile(
    times.sort((a, b) => a - b),
    0.5,
  );
}
