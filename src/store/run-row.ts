/** Converts rows of runs and their steps, the same in every adapter. A row is an array. */
import type { Failure } from "../core/decision/failure.ts";
import {
  type Arrival,
  type RunPhase,
  type RunRow,
  type RunState,
  STEP_STATES,
  type StepRow,
  type StepState,
  type StoredOutput,
} from "../core/run/run.ts";
import { jsonOrNull, parseOrNull, STATE_CODES, toFailure } from "./stored-job.ts";

/** As `step.state` has them. */
export const STEP_CODES = Object.fromEntries(STEP_STATES.map((state, code) => [state, code])) as Record<
  StepState,
  number
>;

/** The phase of a run whose job is deleted, until the jobs of its steps are. */
export const PRUNED = "pruned";

/** More messages and timers than this are left for the next advance. */
export const MESSAGES = 500;

/** How much older than the oldest run a playbook must be to be deleted: its use is noted at the submit, once a minute. */
export const PLAYBOOK_MARGIN_MS = 3_600_000;

const NO_TOKENS: readonly Arrival[] = Object.freeze([]);

/** The columns of `toStep`, in order. */
export const STEP_COLUMN_NAMES: readonly string[] = [
  ...["n", "node", "visit", "item", "try", "state", "job", "due", "tokens", "at", "ended_at"],
];

export function toStep(r: readonly unknown[]): StepRow {
  const tokens = r[8] as string | null;
  return {
    n: r[0] as number,
    node: r[1] as string,
    visit: r[2] as number,
    item: r[3] as number,
    try: r[4] as number,
    state: STEP_STATES[r[5] as number] as StepState,
    job: r[6] as string | null,
    due: r[7] as number | null,
    tokens: tokens === null ? NO_TOKENS : (JSON.parse(tokens) as Arrival[]),
    at: r[9] as number,
    endedAt: r[10] as number | null,
  };
}

/** In the order of `STEP_COLUMN_NAMES`. */
export function stepValues(row: StepRow): (string | number | null)[] {
  const tokens = row.tokens.length === 0 ? null : JSON.stringify(row.tokens);
  const place = [row.n, row.node, row.visit, row.item, row.try, STEP_CODES[row.state]];
  return [...place, row.job, row.due, tokens, row.at, row.endedAt];
}

/** The columns of `toRun`, in order: of the run, the hash of its playbook, and of its data. */
export const RUN_COLUMNS =
  "p.hash, r.phase, r.open, r.made, r.state, r.deadline_at, r.origin, r.result, r.failure, d.pins, d.data";

export function toRun(r: readonly unknown[], id: string, namespace: string): RunRow {
  return {
    id,
    namespace,
    playbook: r[0] as string,
    phase: r[1] as RunPhase,
    open: r[2] as number,
    made: r[3] as number,
    state: JSON.parse(r[4] as string) as RunState,
    deadlineAt: r[5] as number | null,
    origin: r[6] as string | null,
    result: r[7] as string | null,
    failure: parseOrNull<Failure>(r[8] as string | null),
    pins: JSON.parse(r[9] as string) as Record<string, string>,
    data: r[10] as string,
  };
}

/** What an adapter reads of a step that has ended, beside its row: the state of its job, and what that left. */
export interface OutputFacts {
  /** The code of the state of its job; null without one. */
  readonly jobState: number | null;
  readonly attempt: number | null;
  /** Of the step itself. */
  readonly result: string | null;
  readonly failure: string | null;
  /** Of the run below; else of the last attempt. */
  readonly jobResult: string | null;
  readonly jobFailure: string | null;
}

/** A step without a job has its own result, and one that failed before its job was made its own failure. The state of the job
 *  decides, as the row of a step is still open in the advance that ends it. */
export function toOutput(step: StepRow, facts: OutputFacts): StoredOutput {
  const { jobState, jobResult, jobFailure } = facts;
  return {
    step,
    result: facts.result ?? (jobState === STATE_CODES.succeeded ? jobResult : null),
    failure: toFailure(facts.failure ?? (jobState === STATE_CODES.failed ? jobFailure : null)),
    attempt: facts.attempt ?? 0,
  };
}

/** JSON as stored, without what is not given. */
export function failureText(failure: Failure | null | undefined): string | null {
  return jsonOrNull(failure ?? null);
}
