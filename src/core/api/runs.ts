/** Runs in the library's API: starting, following and repairing them. Instants are milliseconds since 1970 (UTC), as in all
 *  views. */

import { asInteger, asList, asOneOf, asText, checkOptions } from "../check.ts";
import type { Failure } from "../decision/failure.ts";
import { type Duration, toMs } from "../duration.ts";
import type { Explanation } from "../explain/explain.ts";
import type { PerdureEvent } from "../job/event.ts";
import type { FailReason, JobState } from "../job/job.ts";
import { JOBS_FILTER } from "../job/jobs-filter.ts";
import type { StepType } from "../playbook/playbook.ts";
import { GRAPH_FORMATS, type GraphFormat } from "../run/graph-format.ts";
import { type RunPhase, STEP_STATES, type StepState } from "../run/run.ts";
import { SUBMIT_OPTIONS } from "../task/submit-options.ts";
import type { FeedOptions } from "./events.ts";
import type { ResultOptions } from "./jobs.ts";
import type { PlaybookInput } from "./playbooks.ts";

export interface RunsApi {
  /** Starts a run of a playbook with this input; it is durable when the promise resolves. Throws `invalid_playbook` with all
   *  problems, `playbook_not_found`, or `invalid_config` for an input that the playbook does not accept. */
  run<Output = unknown>(
    playbook: PlaybookInput,
    input?: Readonly<Record<string, unknown>>,
    options?: RunOptions,
  ): Promise<RunHandle<Output>>;
  /** A handle on a run by its id. Throws `job_not_found` for the id of another job, too. */
  runHandle<Output = unknown>(id: string): Promise<RunHandle<Output>>;
  /** Matching runs of this namespace, newest first, a page at a time: pass `next` as `cursor` for the page after. Runs that are
   *  steps of other runs are found by `parent`. */
  runs(filter?: RunsFilter): Promise<{ runs: RunInfo[]; next: string | null }>;
  /** The steps of a run in the order in which they were made, a page at a time: pass the `n` of the last one as `after`. */
  steps(id: string, page?: StepsPage): Promise<StepInfo[]>;
  /** Repeats what failed, was cancelled or never ended, in the same run; what succeeded stays. Throws `wrong_state` unless the run
   *  has failed or was cancelled. */
  redriveRun(id: string, options?: RunRedriveOptions): Promise<RunInfo>;
  /** The steps of a run with their states and the arcs that were taken, as text for a terminal, Mermaid, or JSON. */
  runGraph(id: string, format?: GraphFormat): Promise<string>;
}

/** The options of a run.
 *  @example
 *  const options: RunOptions = { key: "orders-2026-11-20", tags: ["nightly"], timeout: "2h" };
 *  await perdure.run("shop/orders", { city: "Oslo" }, options); */
export interface RunOptions {
  /** At most one run per key: a second start with the same playbook and input returns the first. */
  key?: string;
  /** For display and `runs({ name })`. Default: the name of the playbook. */
  name?: string;
  tags?: readonly string[];
  /** Of its steps, where they have none of their own: 0 (first) to 9; default 5. */
  priority?: number;
  /** Of its steps, where they have none of their own. */
  queue?: string;
  /** Labels that a worker of its steps must have, beside those of the playbook. */
  labels?: Readonly<Record<string, string>>;
  /** Of the whole run, waits included; instead of the playbook's. */
  timeout?: Duration;
  /** Texts that are stored and shown with it; the engine never reads them. */
  annotations?: Readonly<Record<string, string>>;
}

/** A run that was started or found: its id, and the calls on this run alone.
 *  @example
 *  const run: RunHandle<{ total: number }> = await perdure.run("shop/orders", { city: "Oslo" });
 *  console.log(run.id, (await run.result()).total); */
export interface RunHandle<Output> {
  readonly id: string;
  /** `result()` belongs to this chapter, also when the run is redriven later. */
  readonly chapter: number;
  /** False when `run` found it by its key. */
  readonly created: boolean;
  /** Waits for the end of the run. Throws `JobFailedError`, or an error with the code `job_cancelled` or `result_timeout`. */
  result(options?: ResultOptions): Promise<Output>;
  get(): Promise<RunInfo>;
  steps(page?: StepsPage): Promise<StepInfo[]>;
  /** Requests the end of the run: open steps are cancelled, and steps of `finally` run. */
  cancel(): Promise<RunInfo>;
  /** As `redriveRun`. */
  redrive(options?: RunRedriveOptions): Promise<RunInfo>;
  /** The events of the run so far, and with `follow` those to come. Those of its steps belong to their jobs. */
  events(options?: Omit<FeedOptions, "jobId">): AsyncGenerator<PerdureEvent, void, void>;
  explain(): Promise<Explanation>;
}

export const RUN_STATUSES = ["running", "succeeded", "failed", "cancelled"] as const;
/** The state of a run as people see it. Its job is `blocked` while the run is running.
 *  @example
 *  const ended: RunStatus[] = ["succeeded", "failed", "cancelled"]; */
export type RunStatus = (typeof RUN_STATUSES)[number];

/** A run as the API returns it.
 *  @example
 *  const { state, openSteps, madeSteps }: RunInfo = await run.get(); */
export interface RunInfo {
  readonly id: string;
  readonly namespace: string;
  /** For people: its own name, else that of its playbook. */
  readonly name: string;
  /** What it is pinned to. */
  readonly playbook: {
    readonly name: string;
    readonly path: string | null;
    /** Of the catalog; null for a playbook that was given as a text. */
    readonly version: number | null;
    /** SHA-256 of the compiled definition. */
    readonly hash: string;
  };
  readonly state: RunStatus;
  readonly phase: RunPhase;
  /** Why it failed; null in every other state. */
  readonly reason: FailReason | null;
  /** Of a run that failed: the failure of the step that failed first with nothing to handle it. */
  readonly failure: Failure | null;
  /** The name of that step. */
  readonly failedStep: string | null;
  /** Steps whose jobs have not ended, or that wait for a time; items of loops included. */
  readonly openSteps: number;
  /** Steps made so far: items of loops and repeated visits included. */
  readonly madeSteps: number;
  /** 1, plus 1 for each redrive. */
  readonly chapter: number;
  readonly key: string | null;
  readonly tags: readonly string[];
  readonly queue: string;
  readonly priority: number;
  readonly annotations: Readonly<Record<string, string>>;
  /** The run that this is a step of; null for one that was started by itself. */
  readonly parentId: string | null;
  readonly input: Readonly<Record<string, unknown>>;
  /** The filled workload; null until the run has begun. */
  readonly workload: Readonly<Record<string, unknown>> | null;
  /** Undefined until it has succeeded. */
  readonly result: unknown;
  readonly submittedAt: number;
  readonly finishedAt: number | null;
  /** When its timeout ends it; null without one. */
  readonly deadlineAt: number | null;
  readonly cancelRequestedAt: number | null;
}

/** Which runs are meant. All given fields must match.
 *  @example
 *  const filter: RunsFilter = { state: "failed", playbook: "shop/*", limit: 50 };
 *  const { runs, next } = await perdure.runs(filter); */
export interface RunsFilter {
  state?: RunStatus | readonly RunStatus[];
  /** Only runs of this path, or of paths that match a pattern with `*` and `?`; of a playbook without a path, its name. */
  playbook?: string;
  name?: string;
  tag?: string;
  key?: string;
  reason?: FailReason | readonly FailReason[];
  /** Only runs that are steps of this run. */
  parent?: string;
  submittedAfter?: Date | number;
  submittedBefore?: Date | number;
  order?: "newest" | "oldest";
  /** At most this many in a page: up to 1000; default 100. */
  limit?: number;
  cursor?: string;
}

/** Which steps of a run to read.
 *  @example
 *  const page: StepsPage = { states: ["failed"], limit: 50 };
 *  for (const { step, failure } of await perdure.steps(run.id, page)) console.log(step, failure?.message); */
export interface StepsPage {
  /** The `n` of the last step already read; 0 for all. */
  readonly after?: number;
  /** At most this many: up to 1000; default 100. */
  readonly limit?: number;
  readonly states?: readonly StepState[];
  /** Only steps of this name. */
  readonly step?: string;
  /** False leaves items of loops out. */
  readonly items?: boolean;
  /** Also reads the output of each step that has ended; then a page holds about 8 MB and may be short. Default: false. */
  readonly outputs?: boolean;
}

/** A step of a run: each visit, each item of a loop and each try after a redrive has its own.
 *  @example
 *  const steps: StepInfo[] = await run.steps();
 *  for (const { step, state, attempt } of steps) console.log(step, state, attempt); */
export interface StepInfo {
  /** Counts the steps of the run from 1. */
  readonly n: number;
  /** Its name in the playbook. */
  readonly step: string;
  /** Null for a step that only routes. */
  readonly type: StepType | null;
  readonly visit: number;
  /** The index of a loop's item; null for the step itself. */
  readonly item: number | null;
  readonly try: number;
  readonly state: StepState;
  /** Null for a step without a job: it routes, waits for a time, or is a loop. */
  readonly job: string | null;
  readonly jobState: JobState | null;
  /** Attempts of its job so far. */
  readonly attempt: number;
  readonly maxAttempts: number | null;
  /** When its job may start next; null unless it is queued. */
  readonly nextRunAt: number | null;
  /** Why its job failed. */
  readonly reason: FailReason | null;
  readonly failure: Failure | null;
  /** When its wait for a time ends. */
  readonly waitsUntil: number | null;
  readonly startedAt: number;
  readonly endedAt: number | null;
  /** With `outputs`, of a step that has ended; else absent. */
  readonly output?: unknown;
}

/** What a redrive of a run changes. Without anything, what failed, was cancelled or never ended is repeated.
 *  @example
 *  const options: RunRedriveOptions = { from: "charge", workload: { currency: "NOK" } };
 *  await run.redrive(options); */
export interface RunRedriveOptions {
  /** These steps are repeated, with everything that they can reach. */
  from?: string | readonly string[];
  /** Steps that are taken as done, by name, with their outputs. */
  skip?: Readonly<Record<string, unknown>>;
  /** Values that replace parts of the filled input of repeated steps: `{ step: "fetch", path: "data.url", value: "…" }`. */
  set?: readonly { readonly step: string; readonly path: string; readonly value: unknown }[];
  /** Merged over the workload. */
  workload?: Readonly<Record<string, unknown>>;
  /** Pins the latest version of its path in the catalog. Throws `playbook_incompatible` where it does not fit. */
  latest?: boolean;
  /** Pins another definition. */
  playbook?: PlaybookInput;
}

// Checks of options, the same in this process and in a client.

export const RUN_OPTION_NAMES = [
  "key",
  "name",
  "tags",
  "priority",
  "queue",
  "labels",
  "timeout",
  "annotations",
] as const satisfies readonly (keyof RunOptions)[];

/** Checks the options; the timeout in milliseconds. */
export function checkRunOptions(options: RunOptions): Omit<RunOptions, "timeout"> & { readonly timeoutMs?: number } {
  checkOptions(options, RUN_OPTION_NAMES, "run");
  const { timeout, ...rest } = options;
  for (const [name, value] of Object.entries(rest) as [Exclude<keyof RunOptions, "timeout">, unknown][]) {
    if (value !== undefined) SUBMIT_OPTIONS[name].check(value, `run.${name}`);
  }
  return timeout === undefined ? rest : { ...rest, timeoutMs: toMs(timeout, "run.timeout") };
}

const asMany = (value: unknown): readonly unknown[] => (Array.isArray(value) ? (value as unknown[]) : [value]);

const RUN_FILTER_NAMES = [
  "state",
  "playbook",
  "name",
  "tag",
  "key",
  "reason",
  "parent",
  "submittedAfter",
  "submittedBefore",
  "order",
  "limit",
  "cursor",
] as const satisfies readonly (keyof RunsFilter)[];

/** Checks a filter, field by field. */
export function checkRunsFilter(filter: RunsFilter): RunsFilter {
  checkOptions(filter, RUN_FILTER_NAMES, "runs");
  const { state, playbook, ...rest } = filter;
  if (state !== undefined) asList(asMany(state), "runs.state", (one, at) => asOneOf(one, RUN_STATUSES, at), 4);
  if (playbook !== undefined) JOBS_FILTER.action.check(playbook, "runs.playbook");
  for (const [name, value] of Object.entries(rest) as [keyof typeof rest, unknown][]) {
    if (value !== undefined) JOBS_FILTER[name].check(value, `runs.${name}`);
  }
  return filter;
}

export function checkGraphFormat(format: unknown): GraphFormat {
  return asOneOf(format, GRAPH_FORMATS, "runGraph.format");
}

const STEPS_PAGE_NAMES = ["after", "limit", "states", "step", "items", "outputs"] as const;
export const MAX_STEPS_PAGE = 1_000;
const STEPS_PAGE = 100;

/** Checks a page and fills in its defaults. */
export function checkStepsPage(page: StepsPage): StepsPage & { readonly after: number; readonly limit: number } {
  checkOptions(page, STEPS_PAGE_NAMES, "steps");
  const { after = 0, limit = STEPS_PAGE, states, step } = page;
  asInteger(after, "steps.after", { min: 0 });
  asInteger(limit, "steps.limit", { min: 1, max: MAX_STEPS_PAGE });
  if (states !== undefined)
    asList(states, "steps.states", (one, at) => asOneOf(one, STEP_STATES, at), STEP_STATES.length);
  if (step !== undefined) asText(step, "steps.step", 100);
  return { ...page, after, limit };
}
