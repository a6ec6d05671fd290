/** Sessions in the port: one start of a worker each, with the lease on everything it holds. */
import type { SessionRow } from "../../core/job/views.ts";
import type { TaskOptions } from "../../core/task/task.ts";
import type { NewSession } from "../../core/worker-protocol.ts";

export interface SessionStore {
  /** False, and nothing is stored, if its owner has the maximum number of live sessions already. */
  open(session: NewSession, now: number): Promise<boolean>;
  /** Ends a session: it stopped in good order, or its process is known to have exited. What it still holds is lost, and is
   *  found by `expired` at once, also while reaping is held. */
  close(id: string, now: number, why?: "stopped" | "gone"): Promise<void>;
  /** Gives a session no more jobs; it learns this when it claims or renews. It keeps what it holds. */
  drain(id: string, now: number, by?: string | null): Promise<DrainAnswer>;
  /** Live sessions and those that ended recently, oldest first, in pages: after the last of a full page there may be more. */
  list(query?: SessionsQuery): Promise<SessionRow[]>;
  /** Those that have not ended, with only what is needed every second. */
  listOpen(): Promise<OpenSession[]>;
  /** One session; its number of running jobs is not counted. */
  get(id: string): Promise<SessionRow | null>;
  /** The worker names of these sessions. */
  names(ids: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** Attempts held by these sessions for which a cancel was requested. */
  cancelsFor(sessions: readonly string[]): Promise<{ readonly jobId: string; readonly attempt: number }[]>;
  /** What the newest session that serves this kind publishes for it, live sessions before ended ones; null if none publishes
   *  anything. Cheap: by an index, and at most the newest thousand are read. */
  taskDefaults(namespace: string, kind: string): Promise<PublishedDefaults | null>;
}

export type OpenSession = Pick<
  SessionRow,
  "id" | "namespace" | "host" | "pid" | "process" | "startedAt" | "drainingAt"
>;

export type DrainAnswer = "draining" | "ended" | "unknown";

export interface SessionsQuery {
  /** Null: all namespaces. */
  readonly namespace?: string | null;
  /** The last session that was read; null: start with the first. */
  readonly after?: string | null;
  /** At most SESSIONS_PAGE, the default. */
  readonly limit?: number;
  /** Excludes sessions that ended before this time; null: includes all. */
  readonly endedSince?: number | null;
}

/** Empty if the task has no defaults. */
export interface PublishedDefaults {
  readonly session: string;
  readonly worker: string;
  readonly options: TaskOptions;
}
