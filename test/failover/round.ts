/** One round of failover under load: submits with keys at a steady rate, workers, a crash, a promotion. Records every
 *  acknowledged submit and checks on the new primary that each exists and has ended once. */
import { setTimeout as pass } from "node:timers/promises";
import { Perdure, task } from "../../src/index.ts";
import { ask, until } from "../postgres/client.ts";
import type { Move, Pair } from "./pair.ts";

export interface Round {
  readonly move: Move;
  readonly submitted: number;
  readonly acknowledged: number;
  /** Submits that were answered with an error, by code. */
  readonly refused: Readonly<Record<string, number>>;
  readonly promotedMs: number;
  /** From the crash to the first newly acknowledged submit, and to the first started job. */
  readonly submitMs: number;
  readonly runMs: number;
  /** Violations; empty when all is well. */
  readonly wrong: readonly string[];
}

export interface RoundOptions {
  readonly schema: string;
  readonly move: Move;
  readonly perSecond: number;
  /** How long the load continues before the crash, and after the new primary has accepted the first submit. */
  readonly beforeMs: number;
  readonly afterMs: number;
}

const TICK_MS = 10;
/** Limits concurrent calls: beyond this no more are started until some have their answer. */
const MAX_UNDER_WAY = 2_000;
const KEPT = { succeeded: false, failed: false, cancelled: false } as const;

export async function failoverRound(pair: Pair, options: RoundOptions): Promise<Round> {
  const { schema, move, perSecond, beforeMs, afterMs } = options;
  const url = `${pair.url}?schema=${schema}`;
  const quiet = () => {};
  const [submitter, runner] = await Promise.all([open(url, quiet), open(url, quiet)]);
  const runs: number[] = [];
  const job = task("job", () => void runs.push(performance.now()));
  await runner.work([job], { concurrency: 100 });
  const load = startLoad(submitter, perSecond);
  await pass(beforeMs);
  const { crashedAt, promotedAt } = await pair.failOver(move);
  const first = (times: readonly number[]) => times.find((at) => at > crashedAt);
  await until("submits are acknowledged and jobs run again", async () => {
    return first(load.times) !== undefined && first(runs) !== undefined;
  });
  await pass(afterMs);
  await load.stop();
  await until("everything has ended", async () => (await runner.queues()).every(({ counts }) => isOver(counts)));
  await Promise.all([submitter.close(), runner.close()]);
  return {
    ...{ move, submitted: load.submitted(), acknowledged: load.acknowledged.size, refused: load.refused },
    promotedMs: promotedAt - crashedAt,
    submitMs: (first(load.times) as number) - crashedAt,
    runMs: (first(runs) as number) - crashedAt,
    wrong: await look(pair.direct, schema, load.acknowledged),
  };
}

function open(url: string, logger: () => void): Promise<Perdure> {
  return Perdure.open({ url, lease: "5s", retention: KEPT, logger });
}

function isOver({ queued, running }: { readonly queued: number; readonly running: number }): boolean {
  return queued + running === 0;
}

function startLoad(perdure: Perdure, perSecond: number) {
  const acknowledged = new Map<string, string>();
  const refused: Record<string, number> = {};
  const times: number[] = [];
  const underWay = new Set<Promise<void>>();
  const began = performance.now();
  let next = 0;

  async function submit(key: string): Promise<void> {
    try {
      const { id } = await perdure.submit("job", { key }, { key });
      acknowledged.set(key, id);
      times.push(performance.now());
    } catch (error) {
      const { code = "none" } = error as { code?: string };
      refused[code] = (refused[code] ?? 0) + 1;
    }
  }

  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - began) / 1_000) * perSecond);
    // Submits that could not be started in time are not made up for.
    for (let left = Math.min(due - next, perSecond / 10); left > 0 && underWay.size < MAX_UNDER_WAY; left--) {
      const one = submit(`key-${next++}`).finally(() => underWay.delete(one));
      underWay.add(one);
    }
    if (underWay.size >= MAX_UNDER_WAY) next = Math.max(next, due);
  }, TICK_MS);
  return {
    ...{ acknowledged, refused, times, submitted: () => acknowledged.size + sum(Object.values(refused)) },
    async stop(): Promise<void> {
      clearInterval(timer);
      await Promise.all(underWay);
    },
  };
}

function sum(list: readonly number[]): number {
  return list.reduce((a, b) => a + b, 0);
}

/** Queries the current primary directly. */
async function look(url: string, schema: string, acknowledged: ReadonlyMap<string, string>): Promise<string[]> {
  const wrong: string[] = [];
  const rows = await ask<{ key: string; id: string; state: number }>(
    url,
    `SELECT b.key, b.id, j.state FROM ${schema}.submission b LEFT JOIN ${schema}.job j ON j.no = b.job`,
  );
  const ids = new Map(rows.map(({ key, id }) => [key, id]));
  if (ids.size !== rows.length) wrong.push(`${rows.length - ids.size} keys have two jobs`);
  const lost = [...acknowledged].filter(([key, id]) => ids.get(key) !== id);
  if (lost.length > 0) wrong.push(`${lost.length} acknowledged jobs are missing, such as ${lost[0]}`);
  const unfinished = rows.filter(({ state }) => state !== 3).length;
  if (unfinished > 0) wrong.push(`${unfinished} jobs have not succeeded`);
  const questions = {
    "jobs without exactly one success": `SELECT b.job FROM ${schema}.submission b LEFT JOIN ${schema}.attempt a
       ON a.job = b.job AND a.outcome = 'completed' GROUP BY b.job HAVING count(a.job) <> 1`,
    "jobs whose history does not match": `SELECT j.no FROM ${schema}.job j LEFT JOIN ${schema}.event e ON e.job = j.no
       GROUP BY j.no, j.revision HAVING count(*) <> j.revision OR max(e.n) <> j.revision
       OR count(*) FILTER (WHERE e.name = 'attempt.succeeded') <> 1`,
    "workers or attempts that were reported as lost": `SELECT FROM ${schema}.event WHERE name IN ('attempt.lost', 'worker.lost')`,
  };
  for (const [what, sql] of Object.entries(questions)) {
    const found = await ask(url, sql);
    if (found.length > 0) wrong.push(`${found.length} ${what}`);
  }
  return wrong;
}
