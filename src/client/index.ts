/** The door `perdure/client`: for browsers, the edge, and whoever only submits jobs and looks at them. */

export { SCOPES, type Scope } from "../core/access.ts";
export { type ExecResult, exec, type HttpResult, http } from "../core/builtin.ts";
export { type Duration, duration } from "../core/duration.ts";
export { ConfigError, type ErrorCode, PerdureError } from "../core/errors.ts";
export type { EngineEvent, JobEvent, PerdureEvent } from "../core/event.ts";
export type { ExecInput, ExecLimits, StdinFile } from "../core/exec-input.ts";
export type { Explanation } from "../core/explain.ts";
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
} from "../core/face.ts";
export { type Failure, InvalidInputError, NonRetryableError, RetryAfterError } from "../core/failure.ts";
export type { HttpInput } from "../core/http-input.ts";
export type { FailReason, JobState, Usage } from "../core/job.ts";
export { JobFailedError } from "../core/job-failed-error.ts";
export type { BackoffInput, PolicyFields, PolicyInput, PresetName, RuleInput } from "../core/policy.ts";
export type { RedriveChanges } from "../core/redrive.ts";
export type { SchemaInput, SchemaOutput, StandardSchema } from "../core/schema.ts";
export type { SubmitEntry, SubmitOptions } from "../core/submit-options.ts";
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
} from "../core/task.ts";
export type { AttemptRow, BlobFile, JobInfo, QueueCounts, SessionRow } from "../core/views.ts";
export type { Admin, Identity, NewToken, ServerStatus, ServerVersion, StoreTrouble, TokenInfo } from "./admin.ts";
export type { PerdureClient } from "./client.ts";
export { type ConnectOptions, Perdure } from "./connect.ts";
