/** A task: the definition that jobs of its kind run. The types of its input and result follow from the handler. */

import type { Child, ChildEnds, ChildOptions, ChildState } from "./child.ts";
import type { Duration } from "./duration.ts";
import { ConfigError } from "./errors.ts";
import type { Failure } from "./failure.ts";
import type { Usage } from "./job.ts";
import type { PolicyInput } from "./policy.ts";

/** What a handler gets beside its input. */
export interface TaskContext {
  readonly jobId: string;
  /** 1-based. With the job's id it is the fencing token for side effects: the pair never comes twice. */
  readonly attempt: number;
  /** Aborted on cancel, timeout, shutdown, and when the attempt is lost to another worker. */
  readonly signal: AbortSignal;
  /** How the attempt before this one failed; null for the first, and after a lost worker. */
  readonly previous: Failure | null;
  readonly kind: string;
  readonly queue: string;
  readonly tags: readonly string[];
  /** Keeps a line with the attempt. */
  log(message: string, fields?: Readonly<Record<string, unknown>>): void;
  /** Tells how far it is; any JSON value up to 4 KiB. */
  progress(value: unknown): void;
  /** Adds to what this attempt has cost. */
  usage(spent: Partial<Usage>): void;
  /** Submits a job as a child of this one. A later run of this job that submits with the same key, or without one as the
   *  same call by its number, finds the child that is there. */
  submit: SubmitChild;
  /** The ends of these children, in order. While one of them has not ended it throws, and with it this run ends: nothing is
   *  charged, the slot is free, and when all have ended the handler is called again, from the top. */
  waitFor<const Children extends readonly Child<unknown>[]>(children: Children): Promise<ChildEnds<Children>>;
  /** All children of this job, oldest first. */
  children(): Promise<ChildState[]>;
}

export interface SubmitChild {
  <Input, Output>(
    task: Task<Input, Output>,
    ...rest: undefined extends Input
      ? [input?: NoInfer<Input>, options?: ChildOptions]
      : [input: NoInfer<Input>, options?: ChildOptions]
  ): Promise<Child<Output>>;
  (kind: string, input?: unknown, options?: ChildOptions): Promise<Child<unknown>>;
}

/** Defaults for jobs of this kind; `submit` may override each. */
export interface TaskOptions {
  readonly retry?: PolicyInput;
  readonly timeout?: Duration;
  readonly queue?: string;
  readonly priority?: number;
  readonly expireIn?: Duration;
}

export type Handler<Input, Output> = (input: Input, ctx: TaskContext) => Output | Promise<Output>;

export interface Task<Input, Output> {
  readonly kind: string;
  readonly options: TaskOptions;
  readonly handler: Handler<Input, Output>;
}

/** Any task, whatever its types: for lists of them. */
export type AnyTask = Task<never, unknown>;

export function isTask(value: unknown): value is AnyTask {
  const { kind, options, handler } = (value ?? {}) as Partial<AnyTask>;
  return typeof kind === "string" && typeof options === "object" && typeof handler === "function";
}

export function task<Input, Output>(kind: string, handler: Handler<Input, Output>): Task<Input, Output>;
export function task<Input, Output>(
  kind: string,
  options: TaskOptions,
  handler: Handler<Input, Output>,
): Task<Input, Output>;
export function task<Input, Output>(
  kind: string,
  second: TaskOptions | Handler<Input, Output>,
  third?: Handler<Input, Output>,
): Task<Input, Output> {
  const handler = typeof second === "function" ? second : third;
  const options = typeof second === "function" ? {} : second;
  if (typeof kind !== "string" || kind === "") {
    throw new ConfigError({ path: "task", given: kind, allowed: 'a name, as in task("resize-image", handler)' });
  }
  if (typeof handler !== "function") {
    throw new ConfigError({ path: `task ${kind}`, given: handler, allowed: "a handler function as the last argument" });
  }
  return Object.freeze({ kind, options, handler });
}
