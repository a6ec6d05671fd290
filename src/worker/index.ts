/** The entry point `perdure/worker`: run tasks for a server, on this or any other machine. */

export { type Failure, InvalidInputError, NonRetryableError, RetryAfterError } from "../core/decision/failure.ts";
export { type Duration, duration } from "../core/duration.ts";
export { ConfigError, type ErrorCode, PerdureError } from "../core/errors.ts";
export { type ExecResult, exec, type HttpResult, http, type PostgresResult, postgres } from "../core/input/builtin.ts";
export type { ExecInput, ExecLimits } from "../core/input/exec-input.ts";
export type { HttpInput } from "../core/input/http-input.ts";
export type { PostgresInput, PostgresStatement } from "../core/input/postgres-input.ts";
export type { SchemaInput, SchemaOutput, StandardSchema } from "../core/task/schema.ts";
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
export type { OutputChunk, StopOptions, WorkerHandle, WorkOptions } from "../core/task/work-options.ts";
export type { WorkerHealth } from "../core/worker-protocol.ts";
export { type ConnectOptions, connectWorker } from "./connect-worker.ts";
