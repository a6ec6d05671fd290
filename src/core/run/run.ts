/** A run: one execution of a playbook, as plain data. Its job has the kind `playbook` and is `blocked` until it ends; the rest is
 *  in a row of its own, in rows for its steps, and in its unread messages. `applyChange` (fold.ts) makes the next state from the
 *  changes in an event, for stores and for tests. */
import type { Failure } from "../decision/failure.ts";
import type { FailReason, Job, JobState } from "../job/job.ts";

/** forward: steps start. stopping: nothing new starts, and open steps end. failing: the steps of `onFailure` run. finally: those
 *  of `finally` run.
 *  @example
 *  const isLive = (phase: RunPhase) => phase !== "ended"; */
export type RunPhase = "forward" | "stopping" | "failing" | "finally" | "ended";

export const STEP_STATES = [
  "open",
  "waiting",
  "looping",
  "succeeded",
  "skipped",
  "handled",
  "failed",
  "cancelled",
] as const;
/** The state of a step of a run. open: its job has not ended. waiting: for a time. looping: its items run. handled: it failed, and
 *  an arc or `on_error: continue` deals with it. failed: nothing does.
 *  @example
 *  const ended: StepState[] = ["succeeded", "skipped", "handled", "failed", "cancelled"]; */
export type StepState = (typeof STEP_STATES)[number];

export function isOpen(state: StepState): boolean {
  return state === "open" || state === "waiting" || state === "looping";
}

/** A step of a run: one row for each (node, visit, item, try), with at most one job, ever. */
export interface StepRow {
  /** Counts the steps of a run from 1, in the order in which they were made. */
  readonly n: number;
  /** The name of the step in the playbook. */
  readonly node: string;
  /** 1, and more in a cycle. */
  readonly visit: number;
  /** The index of a loop's item; -1 for the step itself. */
  readonly item: number;
  /** 1, and more after redrives of the run. */
  readonly try: number;
  readonly state: StepState;
  readonly job: string | null;
  /** When a wait for a time ends. */
  readonly due: number | null;
  /** The arcs by which it was reached; empty for the first step and for items. */
  readonly tokens: readonly Arrival[];
  readonly at: number;
  readonly endedAt: number | null;
}

/** An arc that was taken: the row of the step that ended, the index of its arc, and the index of its step. [0, -1, -1] is the
 *  start of the run. */
export type Arrival = readonly [from: number, arc: number, step: number];

/** What the fold of a run's events rebuilds, beside its step rows. Its size depends on the playbook, not on the number of steps. */
export interface RunProgress {
  readonly phase: RunPhase;
  /** Steps that are open or waiting, items included, loops themselves not. */
  readonly open: number;
  /** Steps made so far: the highest `n`. */
  readonly made: number;
  readonly state: RunState;
}

/** Records by the index of a step, where nothing else is stated. */
export interface RunState {
  readonly visits: Readonly<Record<string, number>>;
  /** Rows that are open, waiting or looping, without items. */
  readonly alive: Readonly<Record<string, number>>;
  /** The row of the latest visit that has ended. */
  readonly latest: Readonly<Record<string, number>>;
  /** Arrivals that wait: for a join, or for a free place. */
  readonly pending: Readonly<Record<string, readonly Arrival[]>>;
  /** By `INDEX:VISIT`. */
  readonly loops: Readonly<Record<string, LoopCursor>>;
  /** Of `open`, those that wait for a time. */
  readonly waits: number;
  /** Rows that ended while nothing new was started, or that had to take an arc and found none: their arcs were not evaluated, and
   *  are after a redrive. */
  readonly unrouted: readonly number[];
  /** Rows that failed or were cancelled, with nothing that handles them: a redrive repeats them. Without items. */
  readonly broken: readonly number[];
  /** After a redrive: the try of visits that are repeated, and the last visit that is. */
  readonly tries: Readonly<Record<string, readonly [attempt: number, until: number]>>;
  /** After a redrive: values that replace parts of the filled input of a step, until it has ended. */
  readonly edits: Readonly<Record<string, readonly InputEdit[]>>;
  /** Characters of the values of `ctx`, by name. */
  readonly ctx: Readonly<Record<string, number>>;
  /** Rows that do not count towards `maxSteps`: of handlers, and repeated ones. */
  readonly extra: number;
  /** Why the run must end; null while it goes forward, or fails only at its end (`failureMode: continue`). */
  readonly end: RunEndCause | null;
  /** The next of `onFailure` or `finally` to run. */
  readonly handler: number;
  /** The row that ended last in the phase forward, other than of a step that only routes; 0 for none. */
  readonly last: number;
}

/** A value and its place in the filled input of a step: `data.url`. */
export interface InputEdit {
  readonly path: string;
  readonly value: unknown;
}

export interface LoopCursor {
  /** The row of the loop. */
  readonly n: number;
  readonly total: number;
  /** The next item to start. */
  readonly next: number;
  /** Items to start again, after a redrive, before `next`. */
  readonly again: readonly number[];
  /** The try of the items of `again`. */
  readonly try: number;
  readonly open: number;
  readonly succeeded: number;
  /** Items that failed or were cancelled, by index. At most as many as the list has. */
  readonly failed: readonly number[];
  /** No more items start. */
  readonly stopped: boolean;
  /** The row has ended, and a redrive may continue it. */
  readonly isOver: boolean;
}

/** Why a run ends other than by success. */
export interface RunEndCause {
  readonly state: "failed" | "cancelled";
  readonly reason: FailReason | null;
  readonly message: string | null;
  /** The row of the first step that failed unhandled, and the name of the step; null if none did. */
  readonly step: number | null;
  readonly node: string | null;
  /** Open steps are cancelled. */
  readonly cancel: boolean;
  /** No handlers run, or run on: a second cancel. */
  readonly skipsHandlers: boolean;
}

/** One change within an advance. Its event lists them in order. */
export type RunChange =
  /** A branch arrives at a step, by index, other than by a `route`: at the start, and after a redrive. */
  | { readonly do: "arrive"; readonly to: number; readonly by: Arrival }
  /** A step starts with all that arrived at it; with `by`, with these only. */
  | {
      readonly do: "start";
      readonly n: number;
      readonly step: number;
      readonly visit: number;
      readonly item?: number;
      readonly try?: number;
      readonly job?: string;
      readonly due?: number;
      /** A loop with this many items. */
      readonly items?: number;
      readonly by?: readonly Arrival[];
    }
  /** Of an item with `item`. */
  | {
      readonly do: "end";
      readonly n: number;
      readonly step: number;
      readonly visit: number;
      readonly item?: number;
      readonly state: StepState;
      /** The failure in one line, or why it was skipped. */
      readonly why?: string;
      /** False for a step that only routes. */
      readonly output?: false;
      /** It waited for a time. */
      readonly wait?: true;
      /** Its arcs are not evaluated now. */
      readonly unrouted?: true;
    }
  /** The arcs of a step were evaluated: which are taken, the steps they lead to, and those whose condition has an error. */
  | {
      readonly do: "route";
      readonly n: number;
      readonly step: number;
      readonly taken: readonly number[];
      readonly to: readonly number[];
      readonly errors?: Readonly<Record<string, string>>;
    }
  /** A later arrival at a step with `join: any` or a number, which has started already. */
  | { readonly do: "absorb"; readonly to: number; readonly by: Arrival }
  /** No more items of a loop start. */
  | { readonly do: "stopLoop"; readonly step: number; readonly visit: number }
  | { readonly do: "fail"; readonly cause: RunEndCause }
  | { readonly do: "phase"; readonly phase: RunPhase }
  /** The next handler of the phase. */
  | { readonly do: "handler" }
  /** Values of `ctx` were written, with this many characters of JSON. */
  | { readonly do: "set"; readonly names: readonly string[]; readonly chars: readonly number[] }
  /** After a redrive: the run goes forward again; broken rows are forgotten, to be started again. */
  | { readonly do: "resume" }
  /** After a redrive: visits from this one on are repeated. */
  | { readonly do: "rewind"; readonly step: number; readonly visit: number; readonly try: number }
  /** After a redrive: the items of a loop that start again, and the row of the loop is open again. */
  | {
      readonly do: "reloop";
      readonly n: number;
      readonly step: number;
      readonly visit: number;
      readonly items: readonly number[];
      readonly try: number;
    }
  /** After a redrive: the run below is redriven, and its row is open again. */
  | { readonly do: "reopen"; readonly n: number; readonly step: number }
  /** After a redrive `from` a step: all visits of these steps are repeated, and these rows are not routed. */
  | {
      readonly do: "forget";
      readonly steps: readonly number[];
      readonly rows: readonly number[];
      readonly try: number;
    }
  /** After a redrive: values for the input of a step. */
  | { readonly do: "edit"; readonly step: number; readonly edits: readonly InputEdit[] }
  /** After a redrive with another definition: the names of the steps so far, and the index that each has now, or -1. */
  | { readonly do: "remap"; readonly names: readonly string[]; readonly to: readonly number[] };

/** What a redrive of a run changes. Without anything, what failed, was cancelled or never ended is repeated. */
export interface RunRedrive {
  /** These steps are repeated with everything that they can reach. */
  readonly from?: readonly string[];
  /** These steps are taken as done, with this output. */
  readonly skip?: readonly { readonly step: string; readonly output: unknown }[];
  /** Values that replace parts of the filled inputs of repeated steps, by step and path. */
  readonly set?: readonly { readonly step: string; readonly path: string; readonly value: unknown }[];
  /** Values that are merged over the workload. */
  readonly workload?: Readonly<Record<string, unknown>>;
  /** The hash of another definition. */
  readonly playbook?: string;
  readonly pins?: Readonly<Record<string, string>>;
}

/** A message to a run: a row of its inbox. It is written in the transaction of what happened, and read once. */
export interface RunMessage {
  readonly no: number;
  readonly kind: RunMessageKind;
  /** Of `ended`: the job. */
  readonly ref: string | null;
  readonly at: number;
  readonly body: unknown;
}

/** start: the run begins. ended: the job of a step ended. cancel, redrive: an operator asks. stop: to itself, cancel more open
 *  steps. continue: to itself, there is more to do. */
export type RunMessageKind = "start" | "ended" | "cancel" | "redrive" | "stop" | "continue";

/** How the job of a step ended. */
export interface StepEnd {
  readonly state: JobState;
  readonly reason: FailReason | null;
  readonly failure: Failure | null;
}

/** A timer of a run that is due. `n`: the row of the wait; 0 is the run's own timeout. */
export interface DueTimer {
  readonly n: number;
  readonly dueAt: number;
}

/** The row of a run. */
export interface RunRow extends RunProgress {
  readonly id: string;
  readonly namespace: string;
  /** The hash of its definition. */
  readonly playbook: string;
  /** Hashes of the sub-playbooks that were known at the submit, by path. */
  readonly pins: Readonly<Record<string, string>>;
  /** JSON of `{ inputs, workload }`; `workload` is null until the start. */
  readonly data: string;
  readonly deadlineAt: number | null;
  readonly result: string | null;
  readonly failure: Failure | null;
  /** The run it was made from, or null. */
  readonly origin: string | null;
}

/** The details of a new job that is a run: `NewJob.run`. Its job is inserted as `blocked`, with the message `start`. */
export interface NewRun {
  readonly playbook: string;
  readonly pins: Readonly<Record<string, string>>;
  readonly data: string;
  readonly deadlineAt: number | null;
  readonly origin: string | null;
  readonly progress: RunProgress;
}

/** A run as an advance sees it. */
export interface LoadedRun {
  readonly job: Job;
  readonly run: RunRow;
  /** Unread, oldest first, at most 500. */
  readonly messages: readonly RunMessage[];
  readonly hasMoreMessages: boolean;
  readonly timers: readonly DueTimer[];
  /** The rows that the messages and timers are about, and the rows of the loops of these. */
  readonly steps: readonly StepRow[];
  /** How the jobs in messages of the kind `ended` ended, by job. */
  readonly ends: Readonly<Record<string, StepEnd>>;
}

/** What templates can read of a step that has ended, as it is stored. */
export interface StoredOutput {
  readonly step: StepRow;
  /** JSON of the job's result, or of the step without a job. */
  readonly result: string | null;
  readonly failure: Failure | null;
  readonly attempt: number;
}
