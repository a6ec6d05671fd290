/** Words for jobs that several commands use. All of it may hold text of strangers: whoever prints it escapes it. */
import { showMs } from "../core/duration.ts";
import type { Perdure } from "../core/face.ts";
import { failureText } from "../core/failure-text.ts";
import type { JobState } from "../core/job.ts";
import { oneLine } from "../core/job-name.ts";
import type { JobInfo, SessionRow } from "../core/views.ts";
import { storable } from "../lib/text.ts";
import { type Colour, type Painted, painted } from "./colour.ts";
import { eachWorker } from "./pages.ts";

const COLOURS: Readonly<Record<JobState, Colour | null>> = {
  queued: null,
  running: "cyan",
  blocked: "yellow",
  succeeded: "green",
  failed: "red",
  cancelled: "yellow",
};

/** The state and what a person would ask next: `failed (exhausted)`, `queued (in 3 min)`. */
export function stateWords(job: JobInfo, now: number, workers: ReadonlyMap<string, KnownWorker>): Painted {
  const notes: string[] = [];
  if (job.reason !== null) notes.push(job.reason);
  if (job.discardedAt !== null) notes.push("discarded");
  if (job.state === "queued" && job.runAt > now) notes.push(`in ${showMs(job.runAt - now)}`);
  if (job.state === "running") {
    if (job.cancelRequestedAt !== null) notes.push("cancelling");
    if (isSilent(job, now, workers)) notes.push("worker silent");
  }
  return painted(COLOURS[job.state], notes.length === 0 ? job.state : `${job.state} (${notes.join(", ")})`);
}

/** A message may hold a whole page. */
const MAX_FAILURE = 500;

/** On one line, why a job failed or is being retried; empty while it runs again, and where there is nothing to add. */
export function failureLine({ state, failure }: JobInfo): string {
  if ((state !== "failed" && state !== "queued") || failure == null) return "";
  const { message, line } = failure;
  if (line === undefined) return oneLine(message, MAX_FAILURE);
  // A long message is cut, and not the line that decided.
  return oneLine(failureText({ message: oneLine(message, MAX_FAILURE / 2), line }), MAX_FAILURE);
}

/** A reader settles nothing, so it says what the next engine will find: a run without a live worker. */
function isSilent({ worker }: JobInfo, now: number, workers: ReadonlyMap<string, KnownWorker>): boolean {
  const session = worker === null ? undefined : workers.get(worker);
  return session !== undefined && (session.endedAt !== null || session.leaseEndsAt < now);
}

/** What lists of jobs show of workers. The kinds and queues they serve may be long, and are not kept. */
export type KnownWorker = Pick<SessionRow, "name" | "endedAt" | "leaseEndsAt">;

export async function bySession(perdure: Pick<Perdure, "workers">): Promise<ReadonlyMap<string, KnownWorker>> {
  const known = new Map<string, KnownWorker>();
  for await (const { id, name, endedAt, leaseEndsAt } of eachWorker(perdure))
    known.set(id, { name, endedAt, leaseEndsAt });
  return known;
}

/** Nobody reads more of a command in a list. */
const LONG = 500;

/** The command of a job of kind `exec`; empty for others, whose inputs are their own business. */
export function commandLine({ kind, payload }: Pick<JobInfo, "kind" | "payload">): string {
  if (kind !== "exec" || typeof payload !== "object" || payload === null) return "";
  const { argv, command } = payload as { argv?: unknown; command?: unknown };
  const words = Array.isArray(argv) ? argv.map((word) => shellWord(String(word))).join(" ") : command;
  return typeof words === "string" ? storable(words, LONG) : "";
}

/** A line or so of it; `perdure get` has the whole. */
const SHORT_RESULT = 300;

export function shortResult({ result }: Pick<JobInfo, "result">): string | null {
  if (result === undefined) return null;
  return storable(typeof result === "string" ? result : JSON.stringify(result), SHORT_RESULT);
}

/** Quoted as a shell would need it, so that the list shows where an argument ends. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
