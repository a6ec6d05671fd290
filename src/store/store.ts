/** The port between the engine and a database. All calls are asynchronous, and those that change jobs take lists; the pure
 *  functions of `core` go in, no transaction comes out. Each call is durable when its promise resolves, and items of one list
 *  are answered one by one: a bad item never fails its neighbours. Time is always an argument.
 *  Only `insert`, `claim`, `settle`, `amend` and `runs.advance` change a job: under its row's lock, checked on
 *  (job, attempt, state) or the revision, with one event in the same transaction. A change that ends a step of a run, or
 *  commands a run, also writes a message to that run.
 *  Each noun is a file in `port/`, and a file or two in each adapter. */
import type { Blobs } from "./blobs.ts";
import type { AttemptStore } from "./port/attempts.ts";
import type { ChildStore } from "./port/children.ts";
import type { EventStore } from "./port/events.ts";
import type { JobStore } from "./port/jobs.ts";
import type { QueueStore } from "./port/queues.ts";
import type { RunStore } from "./port/runs.ts";
import type { SessionStore } from "./port/sessions.ts";
import type { SettingStore } from "./port/settings.ts";
import type { TokenStore } from "./port/tokens.ts";
import type { UpkeepStore } from "./port/upkeep.ts";

export type { AttemptRow, LateReport, QueueCounts, SessionRow } from "../core/job/views.ts";
export type { TransactionClient } from "../core/task/task.ts";
export type { BeatTime, ClockMark, WallMark } from "./clock-mark.ts";
export type { LaneUse, LaneUseQuery, NewLane } from "./lane.ts";
export { ATTEMPT_LOG, ATTEMPTS_CHARS, ATTEMPTS_PAGE, LOG_PAGE, SESSIONS_PAGE } from "./pages.ts";
export type * from "./port/attempts.ts";
export type * from "./port/children.ts";
export type * from "./port/events.ts";
export type * from "./port/jobs.ts";
export type * from "./port/queues.ts";
export type * from "./port/runs.ts";
export type * from "./port/sessions.ts";
export type * from "./port/settings.ts";
export type * from "./port/tokens.ts";
export type * from "./port/upkeep.ts";

export interface Store extends JobStore, AttemptStore, UpkeepStore {
  readonly children: ChildStore;
  readonly runs: RunStore;
  readonly events: EventStore;
  readonly sessions: SessionStore;
  readonly queues: QueueStore;
  readonly tokens: TokenStore;
  readonly settings: SettingStore;
  /** Keeps what attempts leave in the database itself, if it can: several servers then share it without sharing a disk. */
  blobs?(): Blobs;

  /** Concurrent claims of one worker that are worth making: more than one if the database works beside our process. */
  readonly claimsAtOnce: number;
  /** How many jobs of a list it takes in one call, and whether it stores one list while the next is prepared. */
  readonly lists: { readonly together: number; readonly beside: boolean };
  /** Calls back when another process may have written. A hint: a missed one costs a poll interval, no job. */
  watch(listener: () => void): () => void;
  /** Why it takes no writes; null if it does. Missing in a store that cannot reopen its database. `cause` may have paths. */
  fault?(): { readonly kind: "disk" | "damaged"; readonly cause: string } | null;
  close(): Promise<void>;
}

/** Of the tables: the version found, 0 for none, and the one that this version of Perdure migrates to. */
export interface SchemaVersion {
  readonly found: number;
  readonly known: number;
}
