/** The options of an engine, and the parts that its files share. Types only, so that those files need not import each other. */

import type { LocatedProblem } from "../core/api/playbooks.ts";
import type { Mutable } from "../core/check.ts";
import type { ReadPlaybook } from "../core/playbook/problem.ts";
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
  /** Searches for lost attempts more often than every second; never less often: each round is also the engine's beat. */
  readonly reapEveryMs?: number;
  /** Whether a session's process is proven to have ended. Then its lease need not expire first. */
  readonly isGone?: (session: OpenSession) => boolean;
  /** The process this engine is in: a job of a worker in it may have killed both. */
  readonly process?: EngineProcess;
  /** Whether the process of another engine has ended; null if that is unknown. */
  readonly isOver?: (engine: EngineProcess) => boolean | null;
  readonly retention?: Retention;
  readonly keyWindowMs?: number;
  /** What attempts leave outside the store: tidied when a job ends without a worker, deleted with its rows, and read for the
   *  verdict of a command whose worker was lost. With `write` and `inputs`, inputs can be uploaded there. */
  readonly outputs?: Pick<Blobs, "tidy" | "delete" | "get" | "list"> &
    Partial<Pick<Blobs, "write" | "inputs">> & {
      /** Copies what a lost attempt left on this host to where outputs are kept. */
      readonly keepAttempt?: (jobId: string, attempt: number) => Promise<unknown>;
    };
  /** Shared with users of the store from before the engine was created. */
  readonly storeState?: StoreState;
  /** Called with what this engine does. */
  readonly observer?: EngineObserver;
  /** Reads playbooks of any format; without it, none can be started from a text. */
  readonly readPlaybook?: PlaybookReader;
}

/** Never throws for a mistake in the text. `file` is for messages. */
export type PlaybookReader = (
  given: { readonly source: string; readonly file?: string } | { readonly document: object },
) => PlaybookReading;

/** A playbook that was read, with the places of its problems. */
export interface PlaybookReading extends Omit<ReadPlaybook, "problems"> {
  readonly problems: readonly LocatedProblem[];
}

/** Where ends, waits and cancels of children are reported. */
export interface ChildSignals {
  /** These parents may continue: a child of theirs has ended, or they have just begun to wait. */
  mayContinue(parents: Iterable<string>): void;
  /** A job was cancelled that may have children. */
  cancelled(): void;
}

/** Where it is reported that something happened to runs. */
export interface RunSignals {
  /** A step of theirs has ended, or a command was given to them. */
  mayGoOn(runs: Iterable<string>): void;
}

/** What workers publish for their tasks, for submits by name. */
export interface PublishedDefaultsReader {
  fill(items: readonly Mutable<SubmitItem>[]): Promise<void>;
  forget(): void;
}

/** What the files of the engine share. */
export interface EngineParts extends EngineOptions {
  readonly hub: Hub;
  readonly leaseMs: number;
  readonly storeState: StoreState;
  readonly childSignals: ChildSignals;
  readonly runSignals: RunSignals;
  readonly defaults: PublishedDefaultsReader;
}
