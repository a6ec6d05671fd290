/** What an engine is made of: its options, and the parts that its verbs share. Types alone, so that no verb imports another
 *  for them. */

import type { Mutable } from "../core/check.ts";
import type { Clock } from "../lib/clock.ts";
import type { FieldLog } from "../lib/log.ts";
import type { Blobs } from "../store/blobs.ts";
import type { EngineProcess, OpenSession, Store } from "../store/store.ts";
import type { Hub } from "./hub.ts";
import type { Retention } from "./limits.ts";
import type { EngineObserver } from "./observer.ts";
import type { StoreState } from "./store-state.ts";
import type { SubmitItem } from "./submit-item.ts";

export type Log = FieldLog;

export interface EngineOptions {
  readonly store: Store;
  readonly clock: Clock;
  /** From 0 to below 1. */
  readonly random: () => number;
  readonly newId: (prefix: string) => string;
  /** Who this engine is, in events. */
  readonly name: string;
  readonly log: Log;
  readonly leaseMs?: number;
  /** Looks for lost attempts more often than each second; never less often: each look is also its sign of life. */
  readonly reapEveryMs?: number;
  /** Whether a session's process can be proved to have ended. Then nobody need wait for its lease. */
  readonly isGone?: (session: OpenSession) => boolean;
  /** The process this engine is in: a job of a worker in it may have ended both. */
  readonly process?: EngineProcess;
  /** Whether the process of another engine has ended; null where that cannot be told. */
  readonly isOver?: (engine: EngineProcess) => boolean | null;
  readonly retention?: Retention;
  readonly keyWindowMs?: number;
  /** What attempts leave outside the store: tidied when a job ends without a worker, deleted with its rows, and read for the
   *  verdict of a command whose worker was lost. With the rest of the port, inputs can be uploaded there. */
  readonly outputs?: Pick<Blobs, "tidy" | "delete" | "get" | "list"> &
    Partial<Pick<Blobs, "write" | "inputs">> & {
      /** Copies what a lost attempt left on this host to where outputs are kept. */
      readonly keepAttempt?: (jobId: string, attempt: number) => Promise<unknown>;
    };
  /** Shared with whoever used the store before there was an engine. */
  readonly storeState?: StoreState;
  /** Told what this engine does. */
  readonly observer?: EngineObserver;
}

/** Where ends, waits and cancels of children are reported. */
export interface ChildSignals {
  /** These parents may continue: a child of theirs has ended, or they have just begun to wait. */
  mayGoOn(parents: Iterable<string>): void;
  /** A job was cancelled that may have children. */
  cancelled(): void;
}

/** What workers publish for their tasks, for submits by name. */
export interface PublishedDefaultsReader {
  fill(items: readonly Mutable<SubmitItem>[]): Promise<void>;
  forget(): void;
}

/** What the verbs share. */
export interface EngineParts extends EngineOptions {
  readonly hub: Hub;
  readonly leaseMs: number;
  readonly storeState: StoreState;
  /** Told of ends, waits and cancels. */
  readonly kin: ChildSignals;
  readonly defaults: PublishedDefaultsReader;
}
