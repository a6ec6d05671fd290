/** The door `perdure/worker`: tasks run for a server, on this or any other machine. */
export { type ExecResult, exec, type HttpResult, http } from "../core/builtin.ts";
export { type Duration, duration } from "../core/duration.ts";
export { ConfigError, type ErrorCode, PerdureError } from "../core/errors.ts";
export type { ExecInput, ExecLimits } from "../core/exec-input.ts";
export { type Failure, InvalidInputError, NonRetryableError, RetryAfterError } from "../core/failure.ts";
export type { HttpInput } from "../core/http-input.ts";
export type { SchemaInput, SchemaOutput, StandardSchema } from "../core/schema.ts";
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
export type { WorkerHealth } from "../core/work.ts";
export type { OutputChunk, StopOptions, WorkerHandle, WorkOptions } from "../core/work-options.ts";
export { type ConnectOptions, connectWorker } from "./connect-worker.ts";
