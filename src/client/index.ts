/** The entry point `perdure/client`: for browsers, the edge, and programs that only submit and read jobs. */

export { SCOPES, type Scope } from "../core/access.ts";
export type { RedriveManyAnswer, RedriveManyOptions, SkippedJob } from "../core/api/commands.ts";
export type { FeedOptions } from "../core/api/events.ts";
export type { JobHandle, ResultOptions, SubmitManyAnswer } from "../core/api/jobs.ts";
export type { JobOutputs, LogPage, Uploaded } from "../core/api/outputs.ts";
export type {
  LocatedProblem,
  PlaybookDocument,
  PlaybookInfo,
  PlaybookInput,
  PlaybookSummary,
  PlaybookText,
  PlaybookVersion,
  PushOptions,
  ValidationAnswer,
} from "../core/api/playbooks.ts";
export type {
  RunHandle,
  RunInfo,
  RunOptions,
  RunRedriveOptions,
  RunStatus,
  RunsFilter,
  StepInfo,
  StepsPage,
} from "../core/api/runs.ts";
export { type Failure, InvalidInputError, NonRetryableError, RetryAfterError } from "../core/decision/failure.ts";
export { type Duration, duration } from "../core/duration.ts";
export { ConfigError, type ErrorCode, PerdureError } from "../core/errors.ts";
export type { Explanation } from "../core/explain/explain.ts";
export { type ExecResult, exec, type HttpResult, http } from "../core/input/builtin.ts";
export type { ExecInput, ExecLimits, StdinFile } from "../core/input/exec-input.ts";
export type { HttpInput } from "../core/input/http-input.ts";
export type { EngineEvent, JobEvent, PerdureEvent } from "../core/job/event.ts";
export type { FailReason, JobState, Usage } from "../core/job/job.ts";
export { JobFailedError } from "../core/job/job-end.ts";
export type { JobsFilter } from "../core/job/jobs-filter.ts";
export type { RedriveChanges } from "../core/job/redrive.ts";
export type { AttemptRow, BlobFile, JobInfo, QueueCounts, SessionRow } from "../core/job/views.ts";
export type { InputRule } from "../core/playbook/playbook.ts";
export type { BackoffInput, PolicyFields, PolicyInput, PresetName, RuleInput } from "../core/policy/policy.ts";
export type { RunPhase, StepState } from "../core/run/run.ts";
export type { SchemaInput, SchemaOutput, StandardSchema } from "../core/task/schema.ts";
export type { SubmitEntry, SubmitOptions } from "../core/task/task.ts";
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
} from "../core/task/task.ts";
export type { Admin, Identity, NewToken, ServerStatus, ServerVersion, StoreTrouble, TokenInfo } from "./admin.ts";
export type { PerdureClient } from "./client.ts";
export { type ConnectOptions, Perdure } from "./connect.ts";
