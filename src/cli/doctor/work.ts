/** Work that does not go on: nobody to run it, queues that stand still, workers that went silent. Of long queues the oldest
 *  jobs are looked at, and those say enough. */
import { showMs } from "../../core/duration.ts";
import type { Perdure } from "../../core/face.ts";
import { RESOURCE_PREFIX, resourcesIn, showResources } from "../../core/resources.ts";
import type { JobInfo, QueueCounts, SessionRow } from "../../core/views.ts";
import { laneName, serves } from "../../store/lane.ts";
import { workerState } from "../worker-text.ts";
import { type Found, note, ok, problem, warning } from "./finding.ts";

export type Looked = Pick<Perdure, "jobs" | "queues" | "workers" | "redriveMany">;

const STUCK_MS = 60_000;
/** Inputs may have a megabyte each. */
const PAGE = 100;
const PAGES = 10;
/** Of a list that may be long. */
const NAMED = 3;

export async function checkWorkers({ workers, jobs }: Looked, now: number): Promise<Found[]> {
  // Before the workers: a job of one that started meanwhile is no orphan.
  const running: JobInfo[] = [];
  for await (const job of oldest({ jobs }, "running")) running.push(job);
  const all = (await workers()).map((worker) => ({ worker, state: workerState(worker, now) }));
  const count = (state: string) => all.filter((each) => each.state === state).length;
  const [alive, draining] = [count("alive"), count("draining")];
  const found: Found[] = [];
  if (alive > 0) found.push(ok(`${many(alive, "worker")} alive${draining > 0 ? `, ${draining} draining` : ""}`));
  else found.push(warning("no worker is alive", "start one with `perdure up` or `perdure worker`"));
  for (const { worker, state } of all) if (worker.running > 0) found.push(...silent(worker, state, now));
  const known = new Set(all.map(({ worker }) => worker.id));
  found.push(...orphans(running.filter((job) => job.worker === null || !known.has(job.worker))));
  return found;
}

/** Running, as their rows say, in sessions that do not exist: as after rows were deleted, or a backup was restored in part. */
function orphans(jobs: readonly JobInfo[]): Found[] {
  if (jobs.length === 0) return [];
  const named = jobs.slice(0, NAMED).map(({ id }) => id);
  const rest = jobs.length > NAMED ? `, and ${jobs.length - NAMED} more` : "";
  const message = `${many(jobs.length, "job")} in state running without a session: ${named.join(", ")}${rest}`;
  const advice =
    "a server, or the next engine on this data, requeues them as lost; without one, run `perdure up`, or end them with " +
    "`perdure cancel ID`";
  return [problem(message, advice)];
}

/** The oldest jobs in a state, a bounded number of them. */
async function* oldest({ jobs }: Pick<Looked, "jobs">, state: "queued" | "running"): AsyncGenerator<JobInfo, boolean> {
  let cursor: string | null = null;
  for (let page = 0; page < PAGES && (page === 0 || cursor !== null); page++) {
    const rest: { cursor?: string } = cursor === null ? {} : { cursor };
    const read: Awaited<ReturnType<Looked["jobs"]>> = await jobs({ state, order: "oldest", limit: PAGE, ...rest });
    yield* read.jobs;
    cursor = read.next;
  }
  return cursor !== null;
}

function silent({ id, name, running, renewedAt, endedAt }: SessionRow, state: string, now: number): Found[] {
  if (state !== "silent" && state !== "ended") return [];
  const since = endedAt === null ? `silent for ${showMs(Math.max(0, now - renewedAt))}` : "gone";
  const advice = "a server, or the next engine on this data, gives them to others; without one, run `perdure up`";
  return [warning(`${many(running, "job")} run by ${name} (${id}), which is ${since}`, advice)];
}

export async function checkQueues({ queues, workers, jobs }: Looked, now: number): Promise<Found[]> {
  const [all, sessions] = [await queues(), await workers()];
  const paused = all.filter((queue) => queue.paused && queue.due > 0).map((queue) => standing(queue, now));
  const isPaused = new Set(all.filter((queue) => queue.paused).map(({ queue }) => queue));
  const live = sessions.filter((worker) => workerState(worker, now) === "alive");
  const stuck = new Map<string, { readonly first: JobInfo; count: number }>();
  const waiting = oldest({ jobs }, "queued");
  let read = await waiting.next();
  for (; !read.done; read = await waiting.next()) {
    const job = read.value;
    // Where no worker is alive, one may be about to start.
    if (job.runAt > (live.length === 0 ? now - STUCK_MS : now) || isPaused.has(job.queue)) continue;
    if (live.some((session) => serves(session, job))) continue;
    const name = laneName(job);
    const known = stuck.get(name);
    if (known === undefined) stuck.set(name, { first: job, count: 1 });
    else known.count += 1;
  }
  const isMore = read.value;
  const found = [...paused, ...[...stuck.values()].map(({ first, count }) => unserved(first, count, isMore, now))];
  const due = all.reduce((sum, queue) => sum + queue.due, 0);
  if (found.length > 0) return found;
  if (due === 0) return [ok("nothing waits that is due")];
  return [ok(`${many(due, "job")} due, none for ${showMs(STUCK_MS)} without a worker`)];
}

function standing({ queue, due, pausedAt }: QueueCounts, now: number): Found {
  const since = pausedAt === null ? "" : ` for ${showMs(Math.max(0, now - pausedAt))}`;
  return warning(
    `the queue ${queue} is paused${since}, with ${many(due, "job")} due`,
    `\`perdure queues resume ${queue}\` lets them start`,
  );
}

function unserved({ kind, queue, labels, runAt, id }: JobInfo, count: number, isMore: boolean, now: number): Found {
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
    `${many} due for up to ${showMs(now - runAt)}, and no live worker takes ${wanted}`,
    `start a worker that does; \`perdure explain ${id}\` shows more`,
  );
}

export async function checkDeadLetters({ redriveMany }: Looked): Promise<Found[]> {
  const { jobs, skipped, more } = await redriveMany({}, { dryRun: true });
  const count = jobs.length + skipped.length;
  if (count === 0) return [ok("no dead letters")];
  const words = `${more ? "more than " : ""}${many(count, "failed job")} for a person to look at`;
  return [note(words, "see `perdure ps --dead`; then `perdure redrive` or `perdure discard`")];
}

function many(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}
