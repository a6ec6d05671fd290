/** The door `perdure`: the library. */

export { type ExecResult, exec, type HttpResult, http } from "./core/builtin.ts";
export { type Child, type ChildEnd, type ChildOptions, type ChildState, WaitingError } from "./core/child.ts";
export { type Duration, duration } from "./core/duration.ts";
export { ConfigError, type ErrorCode, PerdureError } from "./core/errors.ts";
export type { EngineEvent, JobEvent, PerdureEvent } from "./core/event.ts";
export type { ExecInput, ExecLimits, StdinFile } from "./core/exec-input.ts";
export type { Explanation } from "./core/explain.ts";
export type {
  FeedOptions,
  JobHandle,
  JobOutputs,
  JobsFilter,
  LogPage,
  RedriveManyAnswer,
  RedriveManyOptions,
  ResultOptions,
  SkippedJob,
  SubmitManyAnswer,
  Uploaded,
} from "./core/face.ts";
export { type Failure, InvalidInputError, NonRetryableError, RetryAfterError } from "./core/failure.ts";
export type { HttpInput } from "./core/http-input.ts";
export type { FailReason, JobState, Usage } from "./core/job.ts";
export { JobFailedError } from "./core/job-failed-error.ts";
export type { JsonImage, NotJson } from "./core/json-type.ts";
export type { BackoffInput, PolicyFields, PolicyInput, PresetName, RuleInput } from "./core/policy.ts";
export type { RedriveChanges } from "./core/redrive.ts";
export type { ResourcesInput } from "./core/resources.ts";
export type { SchemaInput, SchemaOutput, StandardSchema } from "./core/schema.ts";
export type { SubmitEntry, SubmitOptions, TransactionClient } from "./core/submit-options.ts";
export {
  type AnyTask,
  type Handler,
  type ResultOf,
  type SubmitChild,
  type SubmitRest,
  type Task,
  type TaskContext,
  type TaskOptions,
  task,
} from "./core/task.ts";
export type { AttemptRow, BlobFile, JobInfo, QueueCounts, SessionRow } from "./core/views.ts";
export type { WorkerHealth } from "./core/work.ts";
export type { OutputChunk, StopOptions, WorkerHandle, WorkOptions } from "./core/work-options.ts";
export type { OpenOptions } from "./embedded/options.ts";
export { Perdure } from "./embedded/perdure.ts";
