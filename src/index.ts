/** The door `perdure`: the library. */

export type { Duration } from "./core/duration.ts";
export { ConfigError, type ErrorCode, PerdureError } from "./core/errors.ts";
export type { EngineEvent, JobEvent, PerdureEvent } from "./core/event.ts";
export type { Explanation } from "./core/explain.ts";
export { type Failure, InvalidInputError, NonRetryableError, RetryAfterError } from "./core/failure.ts";
export type { FailReason, JobState, Usage } from "./core/job.ts";
export type { BackoffInput, PolicyFields, PolicyInput, PresetName, RuleInput } from "./core/policy.ts";
export { type AnyTask, type Handler, type Task, type TaskContext, type TaskOptions, task } from "./core/task.ts";
export { JobFailedError, JobHandle, type ResultOptions } from "./embedded/job-handle.ts";
export type { JobInfo } from "./embedded/job-info.ts";
export type { JobsFilter, OpenOptions, SubmitEntry, SubmitOptions, WorkOptions } from "./embedded/options.ts";
export { Perdure, type SubmitManyAnswer, type WorkerHandle } from "./embedded/perdure.ts";
export type { AttemptRow, QueueCounts, SessionRow, TransactionClient } from "./store/store.ts";
