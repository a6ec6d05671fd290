/** The door `perdure`: the library. */

export { type ExecResult, exec, type HttpResult, http } from "./core/builtin.ts";
export type { Duration } from "./core/duration.ts";
export { ConfigError, type ErrorCode, PerdureError } from "./core/errors.ts";
export type { EngineEvent, JobEvent, PerdureEvent } from "./core/event.ts";
export type { ExecInput, ExecLimits } from "./core/exec-input.ts";
export type { Explanation } from "./core/explain.ts";
export { type Failure, InvalidInputError, NonRetryableError, RetryAfterError } from "./core/failure.ts";
export type { HttpInput } from "./core/http-input.ts";
export type { FailReason, JobState, Usage } from "./core/job.ts";
export type { BackoffInput, PolicyFields, PolicyInput, PresetName, RuleInput } from "./core/policy.ts";
export { type AnyTask, type Handler, type Task, type TaskContext, type TaskOptions, task } from "./core/task.ts";
export { JobFailedError, JobHandle, type ResultOptions } from "./embedded/job-handle.ts";
export type { JobInfo } from "./embedded/job-info.ts";
export type { JobOutputs } from "./embedded/job-outputs.ts";
export type { JobsFilter, OpenOptions, SubmitEntry, SubmitOptions, WorkOptions } from "./embedded/options.ts";
export { Perdure, type SubmitManyAnswer } from "./embedded/perdure.ts";
export type { WorkerHandle } from "./embedded/start-worker.ts";
export type { BlobFile } from "./store/blobs.ts";
export type { AttemptRow, QueueCounts, SessionRow, TransactionClient } from "./store/store.ts";
export type { OutputChunk } from "./worker/exec/exec-executor.ts";
