/** Invariants of runs, checked over the whole store after every test: those of `runTroubles`, and that every message was written
 *  once and is read once (I2), by the numbers in the events. */
import { deepStrictEqual as equal, ok } from "node:assert/strict";
import type { JobEvent } from "../../core/job/event.ts";
import { isTerminal, type JobState } from "../../core/job/job.ts";
import { RUN_KIND } from "../../core/playbook/playbook.ts";
import { runTroubles } from "../../core/run/invariants.ts";
import { isOpen, type RunRow, type RunState, type StepRow } from "../../core/run/run.ts";
import type { JobRow, RunStore, Store } from "../store.ts";
import { runsOf, sentByRun } from "./run-kit.ts";

const FAR = Number.MAX_SAFE_INTEGER;

export async function auditRuns(
  store: Store,
  jobs: readonly JobRow[],
  feed: ReadonlyMap<string, readonly JobEvent[]>,
): Promise<void> {
  const all = jobs.filter(({ kind }) => kind === RUN_KIND);
  if (all.length === 0) return;
  const byId = new Map(jobs.map((job) => [job.id, job]));
  for (const job of all) await auditRun(runsOf(store), job, byId, feed);
}

async function auditRun(
  runs: RunStore,
  job: JobRow,
  jobs: ReadonlyMap<string, JobRow>,
  feed: ReadonlyMap<string, readonly JobEvent[]>,
): Promise<void> {
  const run = await runs.row(job.id);
  if (run === null) return;
  const [loaded] = await runs.load([job.id], FAR);
  const steps = await allSteps(runs, job.id);
  const unread = loaded?.messages ?? [];
  ok(["blocked", "succeeded", "failed", "cancelled"].includes(job.state), `${job.id}: a run is never ${job.state}`);
  const states = new Map(steps.flatMap(({ job: id }) => (id === null ? [] : [[id, stateOf(jobs, id)] as const])));
  // Between the command to redrive a run and its advance, only the job knows of it.
  const isRedriven = run.phase === "ended" && unread.some(({ kind }) => kind === "redrive");
  const phase = isRedriven ? "forward" : run.phase;
  const counted = { ...run, phase, ...countsOf(steps), state: { ...run.state, ...aliveIn(steps) } };
  equal(runTroubles({ run: counted, job, steps, unread, timers: loaded?.timers ?? [], jobs: states }), []);

  const ended: string[] = [];
  let ends = 0;
  for (const step of steps) {
    const own = step.job === null ? undefined : jobs.get(step.job);
    if (own === undefined || own.runId !== job.id) continue;
    if (isTerminal(own.state) && isOpen(step.state)) ended.push(own.id);
    ends += own.chapter - (isTerminal(own.state) ? 0 : 1);
  }
  if (loaded?.hasMoreMessages === true) return;
  const refs = unread.flatMap(({ kind, ref }) => (kind === "ended" ? (ref ?? []) : []));
  equal([...refs].sort(), ended.sort(), `${job.id}: I2, each end that was not read has one message`);
  const events = feed.get(job.id) ?? [];
  const read = events.reduce((sum, { name, data }) => sum + (name === "run.advanced" ? data.messages : 0), 0);
  const asked = events.filter(({ name }) => ["job.submitted", "job.cancel_requested", "job.redriven"].includes(name));
  const sent = asked.length + ends + (sentByRun.get(job.id) ?? 0);
  equal(read + unread.length, sent, `${job.id}: I2, every message is read once`);
}

function stateOf(jobs: ReadonlyMap<string, JobRow>, id: string): JobState {
  return (jobs.get(id) as JobRow).state;
}

/** Advances that tests write by hand keep the number of rows, and no state. */
function countsOf(steps: readonly StepRow[]): Pick<RunRow, "open"> {
  return { open: steps.filter(({ state }) => state === "open" || state === "waiting").length };
}

function aliveIn(steps: readonly StepRow[]): Pick<RunState, "alive" | "waits"> {
  const alive = steps.filter(({ state, item }) => isOpen(state) && item === -1).length;
  return { alive: { 0: alive }, waits: steps.filter(({ state }) => state === "waiting").length };
}

async function allSteps(runs: RunStore, run: string): Promise<StepRow[]> {
  const steps: StepRow[] = [];
  for (;;) {
    const page = await runs.steps({ run, after: steps.at(-1)?.n ?? 0, limit: 1_000 });
    steps.push(...page);
    if (page.length < 1_000) return steps;
  }
}
