/** Runs of playbooks in the port. A run is a job that no worker claims. Everything that it must react to is a row in its inbox,
 *  written in the transaction of what happened; `advance` writes what follows and deletes the rows that were read, if the run's
 *  job is still at the revision that was loaded. */
import type { Failure } from "../../core/decision/failure.ts";
import type { JobEventBody } from "../../core/job/event.ts";
import type { JobProgressFields } from "../../core/job/job.ts";
import type { PlannedChange, PlannedStep } from "../../core/run/plan.ts";
import type { LoadedRun, RunProgress, RunRow, StepRow, StepState, StoredOutput } from "../../core/run/run.ts";
import type { NewJob } from "./jobs.ts";

export interface RunStore {
  /** Runs with unread messages or due timers, the longest due first; and when the next timer is due. */
  due(query: DueRunsQuery): Promise<DueRuns>;
  /** Null for an id that is not a run, or of which nothing is unread or due. `known`: what the caller knows of a run whose job is at
   *  this revision. A store may ask for it instead of reading it again. */
  load(ids: readonly string[], now: number, known?: KnownRuns): Promise<(LoadedRun | null)[]>;
  /** Each is written as a whole, or not at all. */
  advance(writes: readonly AdvanceWrite[], now: number): Promise<AdvanceAnswer[]>;

  /** Outputs of steps that have ended, by row. */
  outputs(run: string, rows: readonly number[]): Promise<StoredOutput[]>;
  /** The latest try of each item of a loop that has ended, in the order of the list. `chars`: at most that many characters of
   *  results; above it the answer is null. */
  items(run: string, loop: number, chars: number): Promise<StoredOutput[] | null>;
  /** The list of a loop as JSON. */
  list(run: string, loop: number): Promise<string | null>;
  variables(run: string): Promise<Readonly<Record<string, string>>>;

  row(id: string): Promise<RunRow | null>;
  /** A page of steps in the order of `n`. */
  steps(query: StepsQuery): Promise<StepRow[]>;
  /** Jobs of open steps for which no cancel was requested, oldest first. `upTo`: of rows up to this one. */
  openJobs(run: string, limit: number, upTo?: number): Promise<string[]>;

  /** Stores definitions and the assets they name; those that exist already are kept. */
  savePlaybooks(bodies: readonly PlaybookBody[], assets: readonly Asset[], now: number): Promise<void>;
  /** The JSON of definitions, by hash; null for one that does not exist. */
  playbooks(hashes: readonly string[]): Promise<(string | null)[]>;
  asset(hash: string): Promise<Uint8Array | null>;

  /** Adds a version of a path; the same source as its latest version adds none. */
  push(entry: NewCatalogEntry): Promise<CatalogEntry>;
  /** Null as version: the latest. */
  catalogEntry(namespace: string, path: string, version: number | null): Promise<CatalogEntry | null>;
  /** The latest version of each path after `after`, by path. */
  catalog(query: {
    readonly namespace: string;
    readonly after: string | null;
    readonly limit: number;
  }): Promise<CatalogEntry[]>;
  versions(namespace: string, path: string): Promise<CatalogEntry[]>;
  /** All versions without one. Runs keep what they are pinned to. Returns how many were deleted. */
  remove(namespace: string, path: string, version: number | null): Promise<number>;
}

export type KnownRuns = (id: string, revision: number) => Pick<LoadedRun, "job" | "run"> | undefined;

export interface DueRunsQuery {
  readonly now: number;
  readonly limit: number;
  /** Messages that were written at this instant or later do not count: the engine that wrote them may be reading them. */
  readonly writtenBefore?: number;
}

export interface DueRuns {
  readonly runs: string[];
  readonly nextAt: number | null;
}

export interface AdvanceWrite {
  readonly run: string;
  /** The revision of the run's job that was loaded. */
  readonly revision: number;
  /** Events of the run's job, each with the state after it: `run.advanced`, and `run.ended` after it at the end. Empty for a run
   *  that had ended already: the messages are deleted, nothing else. */
  readonly transitions: readonly { readonly event: JobEventBody; readonly next: JobProgressFields }[];
  readonly progress: RunProgress;
  /** What changed, else absent. */
  readonly playbook?: string;
  readonly pins?: Readonly<Record<string, string>>;
  readonly data?: string;
  readonly deadlineAt?: number | null;
  readonly result?: string | null;
  readonly failure?: Failure | null;
  /** New rows, with the list of a loop or the result of a step without a job. */
  readonly made: readonly PlannedStep[];
  /** Rows that changed their state. */
  readonly changed: readonly PlannedChange[];
  /** Jobs of new rows. Their parent is the run. */
  readonly jobs: readonly NewJob[];
  /** JSON by name. */
  readonly variables: Readonly<Record<string, string>>;
  /** The messages that were read, by `no`: deleted. */
  readonly read: readonly number[];
  /** Messages to itself. */
  readonly send: readonly { readonly kind: "stop" | "continue"; readonly body: unknown }[];
  /** Timers to set and to delete, by row. */
  readonly timers: {
    readonly set: readonly { readonly n: number; readonly dueAt: number }[];
    readonly drop: readonly number[];
  };
}

/** moved: the run changed since it was loaded, so nothing was written; load it again. */
export type AdvanceAnswer = { readonly status: "written" | "moved" };

export interface StepsQuery {
  readonly run: string;
  /** The last `n` that was read; 0: from the first. */
  readonly after: number;
  readonly limit: number;
  readonly states?: readonly StepState[];
  readonly node?: string;
  /** False leaves items of loops out. */
  readonly items?: boolean;
}

export interface PlaybookBody {
  readonly hash: string;
  /** The compiled playbook as JSON. */
  readonly body: string;
}

export interface Asset {
  readonly hash: string;
  readonly body: Uint8Array;
}

export interface NewCatalogEntry {
  readonly namespace: string;
  readonly path: string;
  /** The hash of the definition, which was saved before. */
  readonly playbook: string;
  /** The text of the file. */
  readonly source: string;
  readonly at: number;
  readonly by: string | null;
}

export interface CatalogEntry extends NewCatalogEntry {
  readonly version: number;
}
