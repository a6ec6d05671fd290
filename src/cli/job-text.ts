/** Words for jobs that several commands use. All of it may hold text of strangers: whoever prints it escapes it. */
import { showMs } from "../core/duration.ts";
import type { JobState } from "../core/job.ts";
import type { JobInfo } from "../core/views.ts";
import { storable } from "../lib/text.ts";
import type { SessionRow } from "../store/store.ts";
import { type Colour, type Painted, painted } from "./colour.ts";

const COLOURS: Readonly<Record<JobState, Colour | null>> = {
  queued: null,
  running: "cyan",
  blocked: "yellow",
  succeeded: "green",
  failed: "red",
  cancelled: "yellow",
};

/** The state and what a person would ask next: `failed (exhausted)`, `queued (in 3 min)`. */
export function stateWords(job: JobInfo, now: number, workers: ReadonlyMap<string, SessionRow>): Painted {
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

/** A reader settles nothing, so it says what the next engine will find: a run without a live worker. */
function isSilent({ worker }: JobInfo, now: number, workers: ReadonlyMap<string, SessionRow>): boolean {
  const session = worker === null ? undefined : workers.get(worker);
  return session !== undefined && (session.endedAt !== null || session.leaseEndsAt < now);
}

export function bySession(workers: readonly SessionRow[]): ReadonlyMap<string, SessionRow> {
  return new Map(workers.map((session) => [session.id, session]));
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
