/** Short texts for jobs and workers that several commands print: states, failures, ids, labels. They may contain
 *  untrusted text; the printer escapes it. */

import type { Perdure } from "../../core/api.ts";
import { failureText } from "../../core/decision/failure.ts";
import { showMs } from "../../core/duration.ts";
import { shellWord } from "../../core/format.ts";
import { CPU_LABEL, MEMORY_LABEL, RESOURCE_PREFIX } from "../../core/input/resources.ts";
import type { JobState } from "../../core/job/job.ts";
import { oneLine } from "../../core/job/job-name.ts";
import type { JobInfo, SessionRow } from "../../core/job/views.ts";
import { RUN_KIND } from "../../core/playbook/playbook.ts";
import { storable } from "../../lib/text.ts";
import { eachWorker } from "../target/pages.ts";
import { type Colour, type ColouredText, painted } from "./terminal-text.ts";

const COLOURS: Readonly<Record<JobState, Colour | null>> = {
  queued: null,
  running: "cyan",
  blocked: "yellow",
  succeeded: "green",
  failed: "red",
  cancelled: "yellow",
};

/** The state with its main detail: `failed (exhausted)`, `queued (in 3 min)`. */
export function stateText(job: JobInfo, now: number, workers: ReadonlyMap<string, KnownWorker>): ColouredText {
  const notes: string[] = [];
  if (job.reason !== null) notes.push(job.reason);
  if (job.discardedAt !== null) notes.push("discarded");
  if (job.state === "queued" && job.runAt > now) notes.push(`in ${showMs(job.runAt - now)}`);
  // A run is blocked until it ends.
  const isRun = job.kind === RUN_KIND && job.state === "blocked";
  if ((job.state === "running" || isRun) && job.cancelRequestedAt !== null) notes.push("cancelling");
  if (job.state === "running") {
    if (isSilent(job, now, workers)) notes.push("worker silent");
  }
  const state = isRun ? "running" : job.state;
  return painted(COLOURS[state], notes.length === 0 ? state : `${state} (${notes.join(", ")})`);
}

/** A message may be very long. */
const MAX_FAILURE = 500;

/** Why a job failed or is being retried, on one line; empty while it runs, and if there is no reason. */
export function failureLine({ state, failure }: JobInfo): string {
  if ((state !== "failed" && state !== "queued") || failure == null) return "";
  const { message, line } = failure;
  if (line === undefined) return oneLine(message, MAX_FAILURE);
  // Cuts a long message, but keeps the line that decided.
  return oneLine(failureText({ message: oneLine(message, MAX_FAILURE / 2), line }), MAX_FAILURE);
}

/** A command that only reads settles nothing, so it shows what the next engine will find: an attempt without a live worker. */
function isSilent({ worker }: JobInfo, now: number, workers: ReadonlyMap<string, KnownWorker>): boolean {
  const session = worker === null ? undefined : workers.get(worker);
  return session !== undefined && (session.endedAt !== null || session.leaseEndsAt < now);
}

/** What lists of jobs show of a worker. Its kinds and queues may be long and are not kept. */
export type KnownWorker = Pick<SessionRow, "name" | "endedAt" | "leaseEndsAt">;

export async function bySession(perdure: Pick<Perdure, "workers">): Promise<ReadonlyMap<string, KnownWorker>> {
  const known = new Map<string, KnownWorker>();
  for await (const { id, name, endedAt, leaseEndsAt } of eachWorker(perdure))
    known.set(id, { name, endedAt, leaseEndsAt });
  return known;
}

/** Longer commands are cut in lists. */
const LONG = 500;

/** The command of a job of kind `exec`; empty for other kinds. */
export function commandLine({ kind, payload }: Pick<JobInfo, "kind" | "payload">): string {
  if (kind !== "exec" || typeof payload !== "object" || payload === null) return "";
  const { argv, command } = payload as { argv?: unknown; command?: unknown };
  const words = Array.isArray(argv) ? argv.map((word) => shellWord(String(word))).join(" ") : command;
  return typeof words === "string" ? storable(words, LONG) : "";
}

/** About a line; `perdure get` shows all of it. */
const SHORT_RESULT = 300;

export function shortResult({ result }: Pick<JobInfo, "result">): string | null {
  if (result === undefined) return null;
  return storable(typeof result === "string" ? result : JSON.stringify(result), SHORT_RESULT);
}

/** Time and a counter take this many characters of an id; the rest is random and differs only between processes. */
const USUAL = 14;

/** Ids cut to as many characters as distinguish these jobs, and usually all others. Every command accepts them
 *  (`job-reference.ts`). */
export function shortIds(jobs: readonly Pick<JobInfo, "id">[]): readonly string[] {
  const ids = jobs.map(({ id }) => id);
  const whole = "job_".length + 26;
  let length = "job_".length + USUAL;
  while (length < whole && new Set(ids.map((id) => id.slice(0, length))).size < ids.length) length += 1;
  return ids.map((id) => id.slice(0, length));
}

type WorkerState = "alive" | "silent" | "draining" | "ended";

/** Silent: its lease has expired without a renewal. */
export function workerState({ endedAt, leaseEndsAt, drainingAt }: SessionRow, now: number): WorkerState {
  if (endedAt !== null) return "ended";
  if (leaseEndsAt < now) return "silent";
  return drainingAt === null ? "alive" : "draining";
}

export const WORKER_COLOURS: Readonly<Record<WorkerState, Colour | null>> = {
  alive: "green",
  silent: "red",
  draining: "yellow",
  ended: "dim",
};

/** Cpus and memory as in the options, not as labels. The size of the host is not shown. */
export function labelsText(labels: SessionRow["labels"]): string {
  const words = Object.entries(labels).flatMap(([label, value]) => {
    if (label === CPU_LABEL) return [`cpu=${Number(value) / 1_000}`];
    if (label === MEMORY_LABEL) return [`memory=${aboutGigabytes(Number(value))}`];
    if (label.startsWith(RESOURCE_PREFIX)) return [];
    return [value === "" ? label : `${label}=${value}`];
  });
  return words.join(",");
}

function aboutGigabytes(bytes: number): string {
  return bytes < 2 ** 30 ? `${Math.round(bytes / 2 ** 20)}m` : `${Number((bytes / 2 ** 30).toFixed(1))}g`;
}
