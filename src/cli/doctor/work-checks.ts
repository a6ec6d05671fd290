/** Checks for stuck jobs: no worker for them, paused queues, silent workers. Of a long queue only the oldest jobs are read. */

import type { Perdure } from "../../core/api.ts";
import { showMs } from "../../core/duration.ts";
import { RESOURCE_PREFIX, resourcesIn, showResources } from "../../core/input/resources.ts";
import { laneName, serves } from "../../core/job/lane.ts";
import type { JobInfo, QueueCounts, SessionRow } from "../../core/job/views.ts";
import { workerState } from "../output/job-text.ts";
import { eachQueue, eachWorker } from "../target/pages.ts";
import { type CheckResult, note, ok, problem, warning } from "./finding.ts";

export type WorkReader = Pick<Perdure, "jobs" | "queues" | "workers" | "redriveMany">;

const STUCK_MS = 60_000;
/** Inputs may have a megabyte each. */
const PAGE = 100;
const PAGES = 10;
/** Names shown of a long list. */
const NAMED = 3;

export async function checkWorkers({ workers, jobs }: WorkReader, now: number): Promise<CheckResult[]> {
  // Read before the workers, so that a job of a worker that started meanwhile is not reported.
  const running: JobWithWorker[] = [];
  for await (const { id, worker } of oldest({ jobs }, "running")) running.push({ id, worker });
  const missing = new Set(running.map(({ worker }) => worker));
  const count = { alive: 0, draining: 0, silent: 0, ended: 0 };
  const quiet: CheckResult[] = [];
  for await (const worker of eachWorker({ workers })) {
    const state = workerState(worker, now);
    count[state] += 1;
    missing.delete(worker.id);
    if (worker.running > 0) quiet.push(...silent(worker, state, now));
  }
  const { alive, draining } = count;
  const found: CheckResult[] = [];
  if (alive > 0) found.push(ok(`${many(alive, "worker")} alive${draining > 0 ? `, ${draining} draining` : ""}`));
  else found.push(warning("no worker is alive", "start one with `perdure up` or `perdure worker`"));
  return [...found, ...quiet, ...orphans(running.filter((job) => missing.has(job.worker)))];
}

/** A running job, without its input. */
type JobWithWorker = Pick<JobInfo, "id" | "worker">;

/** Jobs running in sessions that do not exist, as after rows were deleted or a backup was restored in part. */
function orphans(jobs: readonly JobWithWorker[]): CheckResult[] {
  if (jobs.length === 0) return [];
  const named = jobs.slice(0, NAMED).map(({ id }) => id);
  const rest = jobs.length > NAMED ? `, and ${jobs.length - NAMED} more` : "";
  const message = `${many(jobs.length, "job")} in state running without a session: ${named.join(", ")}${rest}`;
  const advice =
    "a server, or the next engine on this data, requeues them as lost; without one, run `perdure up`, or cancel them with " +
    "`perdure cancel ID`";
  return [problem(message, advice)];
}

/** The oldest jobs in a state, a limited number. */
async function* oldest(
  { jobs }: Pick<WorkReader, "jobs">,
  state: "queued" | "running",
): AsyncGenerator<JobInfo, boolean> {
  let cursor: string | null = null;
  for (let page = 0; page < PAGES && (page === 0 || cursor !== null); page++) {
    const rest: { cursor?: string } = cursor === null ? {} : { cursor };
    const read: Awaited<ReturnType<WorkReader["jobs"]>> = await jobs({ state, order: "oldest", limit: PAGE, ...rest });
    yield* read.jobs;
    cursor = read.next;
  }
  return cursor !== null;
}

function silent({ id, name, running, renewedAt, endedAt }: SessionRow, state: string, now: number): CheckResult[] {
  if (state !== "silent" && state !== "ended") return [];
  const since = endedAt === null ? `silent for ${showMs(Math.max(0, now - renewedAt))}` : "not running any more";
  const advice = "a server, or the next engine on this data, requeues them; without one, run `perdure up`";
  return [warning(`${many(running, "job")} run by ${name} (${id}), which is ${since}`, advice)];
}

/** The first job waiting in a lane, without its input, and the number of jobs. */
interface WaitingJobs {
  readonly first: Pick<JobInfo, "id" | "namespace" | "kind" | "queue" | "labels" | "runAt">;
  count: number;
}

export async function checkQueues({ queues, workers, jobs }: WorkReader, now: number): Promise<CheckResult[]> {
  const due = new Map<string, WaitingJobs>();
  const late = new Map<string, WaitingJobs>();
  const waiting = oldest({ jobs }, "queued");
  let read = await waiting.next();
  for (; !read.done; read = await waiting.next()) {
    const { id, namespace, kind, queue, labels, runAt } = read.value;
    for (const [lanes, until] of [[due, now] as const, [late, now - STUCK_MS] as const]) {
      if (runAt > until) continue;
      const name = laneName(read.value);
      const known = lanes.get(name);
      if (known === undefined) lanes.set(name, { first: { id, namespace, kind, queue, labels, runAt }, count: 1 });
      else known.count += 1;
    }
  }
  const isMore = read.value;
  const hasLive = await dropServed(due, workers, now);
  // If no worker is alive, one may be about to start.
  const stuck = hasLive ? due : late;
  const found: CheckResult[] = [];
  let total = 0;
  for await (const queue of eachQueue({ queues })) {
    total += queue.due;
    if (!queue.paused) continue;
    if (queue.due > 0) found.push(standing(queue, now));
    for (const [name, { first }] of stuck) if (first.queue === queue.queue) stuck.delete(name);
  }
  for (const { first, count } of stuck.values()) found.push(unserved(first, count, isMore, now));
  if (found.length > 0) return found;
  if (total === 0) return [ok("no job is due")];
  return [ok(`${many(total, "job")} due; each has a worker or became due less than ${showMs(STUCK_MS)} ago`)];
}

/** Removes the lanes that a live worker serves. Returns whether there is a live worker. */
async function dropServed(
  lanes: Map<string, WaitingJobs>,
  workers: WorkReader["workers"],
  now: number,
): Promise<boolean> {
  let hasLive = false;
  for await (const worker of eachWorker({ workers })) {
    if (workerState(worker, now) !== "alive") continue;
    hasLive = true;
    for (const [name, { first }] of lanes) if (serves(worker, first)) lanes.delete(name);
    if (lanes.size === 0) break;
  }
  return hasLive;
}

function standing({ queue, due, pausedAt }: QueueCounts, now: number): CheckResult {
  const since = pausedAt === null ? "" : ` for ${showMs(Math.max(0, now - pausedAt))}`;
  return warning(
    `the queue ${queue} is paused${since}, with ${many(due, "job")} due`,
    `\`perdure queues resume ${queue}\` lets them start`,
  );
}

function unserved(
  { kind, queue, labels, runAt, id }: WaitingJobs["first"],
  count: number,
  isMore: boolean,
  now: number,
): CheckResult {
  const others = Object.entries(labels).filter(([name]) => !name.startsWith(RESOURCE_PREFIX));
  const needs = resourcesIn(labels);
  const pairs = [
    ...others.map(([name, value]) => `${name}=${value}`),
    ...(needs === null ? [] : [showResources(needs)]),
  ];
  const wanted = `kind ${kind} from queue ${queue}${pairs.length === 0 ? "" : ` with ${pairs.join(", ")}`}`;
  const many = `${isMore ? "at least " : ""}${count} ${count === 1 ? "job" : "jobs"}`;
  const found = runAt > now - STUCK_MS ? warning : problem;
  return found(
    `${many} due, the oldest ${showMs(now - runAt)} ago, and no live worker takes ${wanted}`,
    `start such a worker; see \`perdure explain ${id}\``,
  );
}

export async function checkDeadLetters({ redriveMany }: WorkReader): Promise<CheckResult[]> {
  const { jobs, skipped, more } = await redriveMany({}, { dryRun: true });
  const count = jobs.length + skipped.length;
  if (count === 0) return [ok("no dead letters")];
  const words = `${more ? "more than " : ""}${many(count, "dead letter")}: failed jobs that need attention`;
  return [note(words, "see `perdure ps --dead`; then `perdure redrive` or `perdure discard`")];
}

function many(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}
