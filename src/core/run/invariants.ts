/** What must hold for a run after every advance, whatever happened before: for tests of advances and of stores, which check all
 *  runs of a database with it. It reads everything about one run, so it is not for use in production. */
import type { JobEventBody } from "../job/event.ts";
import { isTerminal, type Job, type JobState } from "../job/job.ts";
import { PLAYBOOK_LIMITS, type Playbook } from "../playbook/playbook.ts";
import { foldRun } from "./fold.ts";
import { isOpen, type RunMessage, type RunRow, type StepRow } from "./run.ts";

export interface WholeRun {
  readonly run: RunRow;
  /** Its own job. */
  readonly job: Pick<Job, "id" | "state">;
  /** All rows, in the order of `n`. */
  readonly steps: readonly StepRow[];
  readonly unread: readonly Pick<RunMessage, "kind" | "ref">[];
  readonly timers: readonly { readonly n: number; readonly dueAt: number }[];
  /** The events of its job, oldest first: with the playbook, rows are compared with their fold. */
  readonly events?: readonly (JobEventBody & { readonly at: number })[];
  readonly playbook?: Playbook;
  /** The states of the jobs of its steps, by id. */
  readonly jobs?: ReadonlyMap<string, JobState>;
}

/** Everything that is wrong, as sentences; empty for a sound run. */
export function runTroubles(whole: WholeRun): string[] {
  const troubles = [
    ...repeated(whole.steps),
    ...counted(whole),
    ...(whole.run.phase === "ended" ? ofEnded(whole) : ofLive(whole)),
    ...ofJobs(whole),
    ...ofEvents(whole),
  ];
  return troubles.map((trouble) => `${whole.run.id}: ${trouble}`);
}

/** I1: at most one job for each (node, visit, item, try), ever. */
function repeated(steps: readonly StepRow[]): string[] {
  const places = new Set<string>();
  const jobs = new Set<string>();
  const troubles: string[] = [];
  for (const [index, row] of steps.entries()) {
    const place = `${row.node} visit ${row.visit} item ${row.item} try ${row.try}`;
    if (places.has(place)) troubles.push(`two rows of ${place}`);
    if (row.job !== null && jobs.has(row.job)) troubles.push(`two rows with the job ${row.job}`);
    if (row.n !== index + 1) troubles.push(`row ${row.n} is number ${index + 1}`);
    if (isOpen(row.state) !== (row.endedAt === null))
      troubles.push(`row ${row.n} is ${row.state}, ended at ${row.endedAt}`);
    places.add(place);
    if (row.job !== null) jobs.add(row.job);
  }
  return troubles;
}

/** I10, and the counts in the row of the run. */
function counted({ run, steps, playbook }: WholeRun): string[] {
  const troubles: string[] = [];
  const open = steps.filter(({ state }) => state === "open" || state === "waiting").length;
  const waits = steps.filter(({ state }) => state === "waiting").length;
  const alive = steps.filter(({ state, item }) => isOpen(state) && item === -1).length;
  const inState = Object.values(run.state.alive).reduce((sum, count) => sum + count, 0);
  if (run.open !== open) troubles.push(`${open} steps are open, and its row has ${run.open}`);
  if (run.state.waits !== waits) troubles.push(`${waits} steps wait, and its row has ${run.state.waits}`);
  if (run.made !== steps.length) troubles.push(`it made ${steps.length} steps, and its row has ${run.made}`);
  if (inState !== alive) troubles.push(`${alive} steps are alive, and its state has ${inState}`);
  const max = playbook?.maxSteps ?? PLAYBOOK_LIMITS.highestMaxSteps;
  if (run.made - run.state.extra > max) troubles.push(`it made ${run.made} steps, with maxSteps ${max}`);
  return troubles;
}

/** I4. */
function ofEnded({ run, job, steps }: WholeRun): string[] {
  const open = steps.filter(({ state }) => isOpen(state)).map(({ n }) => `it has ended, and row ${n} has not`);
  if (!isTerminal(job.state) && run.phase === "ended") open.push(`it has ended, and its job is ${job.state}`);
  return open;
}

/** I5. The timer of the run itself does not count: a run that waits for nothing but its timeout hangs. */
function ofLive({ run, job, steps, unread, timers }: WholeRun): string[] {
  const troubles: string[] = [];
  if (isTerminal(job.state)) troubles.push(`its job is ${job.state}, and the run is in the phase ${run.phase}`);
  const hasOpen = steps.some(({ state }) => state === "open" || state === "waiting");
  if (!hasOpen && unread.length === 0) troubles.push("it is live, and waits for nothing");
  const due = new Set(timers.map(({ n }) => n));
  for (const { n, state } of steps)
    if (state === "waiting" && !due.has(n)) troubles.push(`row ${n} waits without a timer`);
  return troubles;
}

/** I2: the end of a job is a message until the row of its step has it. */
function ofJobs({ steps, unread, jobs }: WholeRun): string[] {
  if (jobs === undefined) return [];
  const refs = new Set(unread.map(({ ref }) => ref));
  const troubles: string[] = [];
  for (const { n, job, state } of steps) {
    if (job === null) continue;
    const now = jobs.get(job);
    if (now === undefined) troubles.push(`row ${n} has the job ${job}, which does not exist`);
    else if (state === "open" && isTerminal(now) && !refs.has(job)) {
      troubles.push(`the job ${job} of row ${n} is ${now}, without a message`);
    } else if (!isOpen(state) && !isTerminal(now)) troubles.push(`row ${n} is ${state}, and its job ${job} is ${now}`);
  }
  return troubles;
}

/** I3. */
function ofEvents({ run, steps, events, playbook }: WholeRun): string[] {
  if (events === undefined || playbook === undefined) return [];
  const folded = foldRun(events, playbook);
  const troubles: string[] = [];
  const { phase, open, made, state } = run;
  if (sorted({ phase, open, made, state }) !== sorted(folded.progress)) {
    troubles.push(`its row is ${sorted({ phase, open, made, state })}, and its events give ${sorted(folded.progress)}`);
  }
  for (const [index, row] of steps.entries()) {
    const other = folded.steps[index];
    if (sorted(row) !== sorted(other))
      troubles.push(`row ${row.n} is ${sorted(row)}, and its events give ${sorted(other)}`);
  }
  if (folded.steps.length > steps.length) troubles.push(`${folded.steps.length - steps.length} rows are missing`);
  return troubles;
}

/** JSON with keys in order: stores may return them in another one. */
function sorted(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) =>
    typeof each === "object" && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1)))
      : each,
  ) as string;
}
