/** What goes into a decision about a run and what comes out of it. `advance` is pure: a caller loads what it needs, and calls it
 *  again until it has all of it. */
import type { Failure } from "../decision/failure.ts";
import type { Transition } from "../job/lifecycle.ts";
import type { Playbook, StepOptions } from "../playbook/playbook.ts";
import type { LoadedRun, RunProgress, StepRow, StepState, StoredOutput } from "./run.ts";

export interface AdvanceInput {
  readonly loaded: LoadedRun;
  /** The definition that the run is pinned to; after a redrive with another one, that one. */
  readonly playbook: Playbook;
  /** Of a redrive with another definition: the one until now; else null. */
  readonly before: Playbook | null;
  readonly now: number;
  readonly newJobId: () => string;
  readonly known: Known;
}

/** What was loaded so far. Outputs of steps that have ended never change, so they may come from a cache. */
export interface Known {
  readonly outputs: ReadonlyMap<number, StoredOutput>;
  /** Items of loops that have ended, by the row of the loop; null if they are too large together. */
  readonly items: ReadonlyMap<number, readonly StoredOutput[] | null>;
  /** Lists of loops, parsed. */
  readonly lists: ReadonlyMap<number, readonly unknown[]>;
  /** The parsed values of `ctx`; null while not loaded. */
  readonly variables: Readonly<Record<string, unknown>> | null;
  /** Sub-playbooks by the path in a step; null for one that does not exist. */
  readonly paths: ReadonlyMap<string, FoundPlaybook | null>;
  /** All rows that wait for a time, items included; null while not loaded. */
  readonly waiting: readonly StepRow[] | null;
}

export interface FoundPlaybook {
  readonly hash: string;
  readonly playbook: Playbook;
  /** Of its own sub-playbooks. */
  readonly pins: Readonly<Record<string, string>>;
}

/** What must be loaded before the decision can be made. */
export interface Needs {
  /** Rows, with what they returned if their job has ended. */
  readonly outputs: readonly number[];
  readonly items: readonly number[];
  readonly lists: readonly number[];
  readonly variables: boolean;
  readonly paths: readonly string[];
  readonly waiting: boolean;
}

export type AdvanceResult =
  | { readonly kind: "needs"; readonly needs: Needs }
  | { readonly kind: "plan"; readonly plan: AdvancePlan };

/** What must be written. The caller makes jobs of `jobs`, adds the run and the revision, and gives it to the store. */
export interface AdvancePlan {
  readonly transitions: readonly Transition[];
  readonly progress: RunProgress;
  /** The run's `{ inputs, workload }`, if it changed. */
  readonly data?: string;
  /** Of a redrive with another definition. */
  readonly playbook?: string;
  readonly pins?: Readonly<Record<string, string>>;
  readonly deadlineAt?: number | null;
  readonly result?: string | null;
  readonly failure?: Failure | null;
  readonly made: readonly PlannedStep[];
  readonly changed: readonly PlannedChange[];
  readonly jobs: readonly PlannedJob[];
  /** JSON by name. */
  readonly variables: Readonly<Record<string, string>>;
  readonly read: readonly number[];
  readonly send: readonly { readonly kind: "stop" | "continue"; readonly body: unknown }[];
  readonly timers: {
    readonly set: readonly { readonly n: number; readonly dueAt: number }[];
    readonly drop: readonly number[];
  };
  /** Open steps must be cancelled: at most 200 of them, before this is written. */
  readonly stop: boolean;
  /** Runs below that must be redriven before this is written. */
  readonly redrive: readonly string[];
}

export interface PlannedStep {
  readonly row: StepRow;
  /** JSON of a loop's list. */
  readonly items: string | null;
  /** JSON; only of a step without a job. */
  readonly result: string | null;
  /** Only of a step without a job. */
  readonly failure: Failure | null;
}

export interface PlannedChange {
  readonly n: number;
  readonly state: StepState;
  readonly endedAt: number | null;
  readonly result?: string | null;
  readonly failure?: Failure | null;
}

/** The job of a step. */
export interface PlannedJob {
  readonly id: string;
  readonly n: number;
  readonly kind: string;
  /** JSON. */
  readonly payload: string;
  /** `run name / step[item]`, for people. */
  readonly name: string;
  readonly options: StepOptions;
  /** Labels beside those of the options: a runtime, a connection. */
  readonly labels: Readonly<Record<string, string>>;
  /** False for an independent run (`wait: false`): it gets no parent. */
  readonly isChild: boolean;
  /** Of a run below: its definition and its data. */
  readonly run: {
    readonly hash: string;
    readonly pins: Readonly<Record<string, string>>;
    readonly data: string;
    readonly timeoutMs: number | null;
  } | null;
}
