/** Reads a job with its attempts, events and children for a view, with limits. Works on a server and on a local database. */

import type { JobHandle } from "../core/api/jobs.ts";
import type { RunInfo, StepInfo, StepsPage } from "../core/api/runs.ts";
import { PerdureError } from "../core/errors.ts";
import type { JobEvent } from "../core/job/event.ts";
import type { JobState } from "../core/job/job.ts";
import { attemptsAtSnapshot, eventsAtSnapshot } from "../core/job/snapshot.ts";
import type { AttemptRow, JobInfo } from "../core/job/views.ts";
import type { RunView, ViewChildren, ViewParts } from "./dialect.ts";

// The job may change while it is read; the view shows it as it was when reading began.

export async function readParts(
  handle: Pick<JobHandle<unknown>, "get" | "attempts" | "events">,
): Promise<Pick<ViewParts, "job" | "attempts" | "events">> {
  const job = await handle.get();
  if (job.revision > VIEWED_EVENTS) throw tooLong(job);
  const [attempts, events] = await Promise.all([attemptsOf(handle, job), eventsOf(handle)]);
  return { job, attempts: attemptsAtSnapshot(job, attempts), events: eventsAtSnapshot(job, events) };
}

/** A view is built in memory from all events, so their number is limited. */
export const VIEWED_EVENTS = 5_000;
/** The most recent attempts that a view shows, and the characters they may have together. */
const VIEWED_ATTEMPTS = 300;
const VIEWED_CHARS = 16_777_216;

export function tooLong({ id, revision }: Pick<JobInfo, "id" | "revision">): PerdureError {
  const message = `view: ${id} has ${revision} events, and a view shows up to ${VIEWED_EVENTS}; read events and attempts in pages instead`;
  return new PerdureError("invalid_request", message, { path: "view" });
}

async function attemptsOf(handle: Pick<JobHandle<unknown>, "attempts">, job: JobInfo): Promise<AttemptRow[]> {
  const found: AttemptRow[] = [];
  let chars = 0;
  for (let after = Math.max(0, job.attempt - VIEWED_ATTEMPTS); after < job.attempt && chars < VIEWED_CHARS; ) {
    const page = await handle.attempts({ after });
    // Servers of earlier versions have no pages and send all attempts.
    const next = page.filter(({ attempt }) => attempt > after);
    if (next.length === 0) break;
    for (const { result, log } of next) chars += (result?.length ?? 0) + (log?.length ?? 0);
    found.push(...next);
    after = next.at(-1)?.attempt as number;
  }
  return found;
}

async function eventsOf(handle: Pick<JobHandle<unknown>, "events">): Promise<JobEvent[]> {
  const events: JobEvent[] = [];
  // All events here belong to this job.
  for await (const event of handle.events()) events.push(event as JobEvent);
  return events;
}

// Runs: the events of a run are between those of its steps' jobs, so all of them are read.

/** The steps that the view of a run shows. */
export const VIEWED_STEPS = 1_000;

/** Where the parts of a run are read: on a server, or in this process. */
export interface RunReader {
  readonly run: () => Promise<RunInfo>;
  readonly events: () => Promise<readonly JobEvent[]>;
  readonly steps: (page: StepsPage) => Promise<readonly StepInfo[]>;
  readonly job: (id: string) => Promise<ViewParts>;
}

export async function readRunView(read: RunReader, only?: string): Promise<RunView> {
  const run = await read.run();
  const events = await read.events();
  const found: StepInfo[] = [];
  const which = only === undefined ? {} : { step: only };
  for (let after = 0; ; ) {
    const page = await read.steps({ ...which, after, limit: VIEWED_STEPS });
    found.push(...page);
    if (found.length > VIEWED_STEPS) throw tooManySteps(run);
    const last = page.at(-1);
    if (last === undefined || page.length < VIEWED_STEPS) break;
    after = last.n;
  }
  const steps: RunView["steps"][number][] = [];
  for (const step of found) steps.push({ step, parts: step.job === null ? null : await read.job(step.job) });
  return { run, events, steps, ...(only === undefined ? {} : { only }) };
}

function tooManySteps({ id, madeSteps }: RunInfo): PerdureError {
  const message = `view: ${id} has ${madeSteps} steps, and a view shows up to ${VIEWED_STEPS}; show one step with --step, or read steps and events in pages`;
  return new PerdureError("invalid_request", message, { path: "view" });
}

// Children are limited: a job may have ten thousand, and each may be large.

/** About two screens. */
const VIEWED_CHILDREN = 100;

/** A page of children, oldest first; `next` is null after the last. */
export type FindChildren = (filter: {
  readonly limit: number;
  readonly state?: readonly JobState[];
  readonly cursor?: string;
}) => Promise<{ readonly jobs: readonly JobInfo[]; readonly next: string | null }>;

const OTHERS: readonly JobState[] = ["queued", "running", "blocked", "cancelled", "succeeded"];

/** All children, oldest first. If there are too many: failed ones first, then the oldest others. */
export async function readChildren(find: FindChildren): Promise<ViewChildren> {
  const all = await upTo(find, VIEWED_CHILDREN);
  if (!all.more) return all;
  const failed = await upTo(find, VIEWED_CHILDREN, ["failed"]);
  const room = VIEWED_CHILDREN - failed.jobs.length;
  const others = room === 0 ? [] : (await upTo(find, room, OTHERS)).jobs;
  return { jobs: [...failed.jobs, ...others], more: true };
}

/** A page may be short although more follow: if jobs are large, or if few of many match. */
async function upTo(find: FindChildren, most: number, state?: readonly JobState[]): Promise<ViewChildren> {
  const jobs: JobInfo[] = [];
  let cursor: string | null = null;
  do {
    const page: Awaited<ReturnType<FindChildren>> = await find({
      limit: most - jobs.length,
      ...(state === undefined ? {} : { state }),
      ...(cursor === null ? {} : { cursor }),
    });
    jobs.push(...page.jobs);
    cursor = page.next;
  } while (cursor !== null && jobs.length < most);
  return { jobs, more: cursor !== null };
}
