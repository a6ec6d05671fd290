/** What must hold of the runs in a whole store, whatever was killed: the invariants of `runTroubles` for each run, with its events
 *  and its definition, and that every job of a step is named by one row. */
import { deepStrictEqual as equal, ok } from "node:assert/strict";
import type { JobEvent } from "../../src/core/job/event.ts";
import { type Playbook, RUN_KIND } from "../../src/core/playbook/playbook.ts";
import { runTroubles } from "../../src/core/run/invariants.ts";
import { isOpen, type RunRow, type StepRow } from "../../src/core/run/run.ts";
import { systemClock } from "../../src/lib/system-clock.ts";
import { allJobs, audit } from "../../src/store/conformance/audit.ts";
import { openStore } from "../../src/store/open.ts";
import type { History, JobRow, Store } from "../../src/store/store.ts";

const FAR = Number.MAX_SAFE_INTEGER;
const PAGE = 1_000;

/** All of it: jobs, attempts, counts, and runs. Not after a cancel of a run: it sends messages to itself, and the number of those
 *  is not recorded. */
export async function auditStore(store: Store): Promise<void> {
  await audit(store);
  await auditRuns(store);
}

/** Returns how many steps there are. */
export async function auditRuns(store: Store): Promise<number> {
  const jobs = await allJobs(store);
  const byId = new Map(jobs.map((job) => [job.id, job]));
  const named = new Map<string, string>();
  let made = 0;
  for (const job of jobs.filter(({ kind }) => kind === RUN_KIND)) {
    const steps = await auditRun(store, job, byId);
    made += steps.length;
    for (const { job: id, node } of steps) {
      if (id === null) continue;
      ok(!named.has(id), `${id} is the job of two steps: ${named.get(id)} and ${node}`);
      named.set(id, node);
    }
  }
  const orphans = jobs.filter(({ runId, id }) => runId !== null && !named.has(id));
  equal(
    orphans.map(({ id, runId }) => `${id} of ${runId}`),
    [],
    "every job of a step has its row",
  );
  return made;
}

async function auditRun(store: Store, job: JobRow, jobs: ReadonlyMap<string, JobRow>): Promise<StepRow[]> {
  const { runs } = store;
  const run = (await runs.row(job.id)) as RunRow;
  const [loaded] = await runs.load([job.id], FAR);
  const [body] = await runs.playbooks([run.playbook]);
  const { events } = (await store.history(job.id)) as History;
  const steps = await stepsOf(store, job.id);
  const states = new Map([...jobs.values()].flatMap(({ id, state, runId }) => (runId === job.id ? [[id, state]] : [])));
  const own = steps.flatMap((row) => (row.job === null || jobs.get(row.job)?.runId === job.id ? [row] : []));
  ok(own.length + independent(steps, jobs) === steps.length, `${job.id}: all jobs of its steps exist`);
  const troubles = runTroubles({
    ...{ run, job, unread: loaded?.messages ?? [], timers: loaded?.timers ?? [] },
    steps,
    ...(independent(steps, jobs) === 0 ? { jobs: states } : {}),
    events: events as JobEvent[],
    playbook: JSON.parse(body as string) as Playbook,
  });
  equal(troubles, []);
  const nobody = ["blocked", "succeeded", "failed", "cancelled"];
  ok(nobody.includes(job.state) && job.attempt === 0, `${job.id}: nobody claims a run`);
  if (run.phase !== "ended") return steps;
  equal(loaded?.messages ?? [], [], `${job.id}: a run that has ended has read everything (I2)`);
  equal(
    steps.filter(({ state }) => isOpen(state)),
    [],
    `${job.id}: no step is open (I4)`,
  );
  return steps;
}

/** Runs that were started with `wait: false`: jobs of nobody. */
function independent(steps: readonly StepRow[], jobs: ReadonlyMap<string, JobRow>): number {
  return steps.filter(({ job }) => job !== null && jobs.get(job)?.kind === RUN_KIND && jobs.get(job)?.runId === null)
    .length;
}

/** The store at an address, while the call lasts. */
export async function withStore<T>(url: string, call: (store: Store) => Promise<T>): Promise<T> {
  const store = await openStore({ url, clock: systemClock, random: Math.random, newSecret: () => "x".repeat(32) });
  try {
    return await call(store);
  } finally {
    await store.close();
  }
}

export async function stepsOf(store: Store, run: string): Promise<StepRow[]> {
  const steps: StepRow[] = [];
  for (;;) {
    const page = await store.runs.steps({ run, after: steps.at(-1)?.n ?? 0, limit: PAGE });
    steps.push(...page);
    if (page.length < PAGE) return steps;
  }
}

/** Every step of a run and of the runs below it, with its state and its result, in the order of their places. */
export async function shapeOf(store: Store, run: string, prefix = ""): Promise<string[]> {
  const steps = await stepsOf(store, run);
  const outputs = await store.runs.outputs(
    run,
    steps.map(({ n }) => n),
  );
  const results = new Map(outputs.map(({ step, result, failure }) => [step.n, result ?? failure?.message ?? "-"]));
  const lines: string[] = [];
  for (const { n, node, visit, item, try: times, state, job } of steps) {
    const place = `${prefix}${node}#${visit}${item < 0 ? "" : `[${item}]`}~${times}`;
    lines.push(`${place} ${state} ${results.get(n)}`);
    if (job === null) continue;
    const [below] = await store.jobs([job]);
    if (below?.kind === RUN_KIND) lines.push(...(await shapeOf(store, job, `${place}/`)));
  }
  return lines.sort();
}
