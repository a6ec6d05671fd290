/** Tasks: the definition that jobs of a kind run, the entries of a submit, and the children of a job. The options of a submit
 *  are in `submit-options.ts`. */

import type { Failure } from "../decision/failure.ts";
import { ConfigError } from "../errors.ts";
import type { FailReason, JobState, Usage } from "../job/job.ts";
import type { JsonCheck, JsonImage } from "./json-type.ts";
import type { SchemaInput, SchemaOutput, StandardSchema } from "./schema.ts";
import type { SubmitOptions, TaskValues } from "./submit-options.ts";

export type { SubmitOptions, TransactionClient } from "./submit-options.ts";

/** One job of `submitMany`.
 *  @example
 *  const entries: SubmitEntry[] = urls.map((url) => ({ task: resize, input: { url } }));
 *  await perdure.submitMany(entries); */
export interface SubmitEntry {
  readonly task: AnyTask | string;
  readonly input?: unknown;
  readonly options?: Omit<SubmitOptions, "client">;
}

/** Options of a child. Its key is unique among the children of its parent.
 *  @example
 *  const options: ChildOptions = { key: "page-1", priority: 2 };
 *  await ctx.submit(resize, { url }, options); */
export type ChildOptions = Omit<SubmitOptions, "client" | "parent">;

/** A child that a handler has submitted: its id, with the type of its result.
 *  @example
 *  const child: Child<{ width: number }> = await ctx.submit(resize, { url }); */
export interface Child<Output> {
  readonly id: string;
  /** False if an earlier attempt submitted it. */
  readonly created: boolean;
  /** Not set; only the type of the result. */
  readonly output?: Output;
}

/** The current state of a child.
 *  @example
 *  const open: ChildState[] = (await ctx.children()).filter(({ state }) => state === "queued"); */
export interface ChildState {
  readonly id: string;
  readonly kind: string;
  /** As submitted, without the prefix of the parent. */
  readonly key: string | null;
  readonly state: JobState;
  readonly reason: FailReason | null;
  /** How its last attempt failed, if it failed, was cancelled or is being retried. */
  readonly failure: Failure | null;
  readonly payload: unknown;
  /** Undefined until it has succeeded. */
  readonly result: unknown;
}

/** A child that has ended.
 *  @example
 *  const [end]: readonly ChildEnd<unknown>[] = await ctx.waitFor([child]);
 *  if (end?.state === "failed") throw new NonRetryableError(`child ${end.id} failed: ${end.reason}`); */
export interface ChildEnd<Output> extends ChildState {
  readonly state: "succeeded" | "failed" | "cancelled";
  readonly result: Output | undefined;
}

type ChildEnds<Children extends readonly Child<unknown>[]> = {
  readonly [K in keyof Children]: Children[K] extends Child<infer Output> ? ChildEnd<Output> : never;
};

/** An attempt that a worker holds, for calls about its children. */
export interface HeldParent {
  readonly jobId: string;
  readonly attempt: number;
  readonly namespace: string;
  readonly session: string;
  /** Its lease. */
  readonly token: string;
}

/** Submits and reads the children of an attempt that a worker holds. */
export interface Family {
  submit(parent: HeldParent, entry: SubmitEntry): Promise<Child<unknown>>;
  /** In the order of `ids`. Throws `job_not_found` for a job that is not a child of this parent. */
  look(parent: HeldParent, ids: readonly string[]): Promise<ChildState[]>;
  list(parent: HeldParent): Promise<ChildState[]>;
}

/** The stored key of a child, unique among all jobs. */
export function childKey(parentId: string, key: string): string {
  return `${parentId}/${key}`;
}

/** The key as submitted; null without a key. */
export function givenKey(parentId: string | null, key: string | null): string | null {
  if (parentId === null || key === null) return key;
  return key.startsWith(`${parentId}/`) ? key.slice(parentId.length + 1) : key;
}

/** The limit of children that an attempt may wait for. */
export const MAX_WAITS_FOR = 1_000;

/** Thrown by `waitFor` to end the attempt. The job waits even if the handler catches it.
 *  @example
 *  try {
 *    await ctx.waitFor([child]);
 *  } catch (error) {
 *    if (error instanceof WaitingError) throw error; // not a failure: the handler is called again later
 *  } */
export class WaitingError extends Error {
  constructor() {
    super("this attempt ends here; the job runs again when its children have ended");
    this.name = "WaitingError";
  }
}

/** The second argument of a handler.
 *  @example
 *  const fetchPage = async (url: string, { signal, log, attempt }: TaskContext) => {
 *    log(`attempt ${attempt}`);
 *    return (await fetch(url, { signal })).text();
 *  }; */
export interface TaskContext {
  readonly jobId: string;
  /** From 1. With the job's id it is a fencing token for side effects: the pair is unique. */
  readonly attempt: number;
  /** Aborted on cancel, timeout and shutdown, and when the attempt is lost. */
  readonly signal: AbortSignal;
  /** The failure of the previous attempt; null for the first, and after a lost worker. */
  readonly previous: Failure | null;
  readonly kind: string;
  readonly queue: string;
  readonly tags: readonly string[];
  /** Writes a line to the log of the attempt. */
  log(message: string, fields?: Readonly<Record<string, unknown>>): void;
  /** Reports the progress: any JSON value up to 4 KiB. */
  progress(value: unknown): void;
  /** Adds to the usage of this attempt. */
  usage(spent: Partial<Usage>): void;
  /** Submits a child of this job. A later attempt that submits with the same key, or as the same call by number without a key,
   *  gets the existing child. */
  submit: SubmitChild;
  /** The ends of these children, in order. If one of them has not ended, it throws and ends this attempt, which does not count:
   *  the slot is free, and when all have ended, the handler is called again from the start. */
  waitFor<const Children extends readonly Child<unknown>[]>(children: Children): Promise<ChildEnds<Children>>;
  /** All children of this job, oldest first. */
  children(): Promise<ChildState[]>;
}

/** Submits a child of the job.
 *  @example
 *  const child = await ctx.submit(resize, { url: "https://example.com/a.png" }, { key: "thumbnail" }); */
export type SubmitChild = <T extends AnyTask | string>(
  task: T,
  ...rest: SubmitRest<T, ChildOptions>
) => Promise<Child<ResultOf<T>>>;

/** Defaults for jobs of this kind; `submit` may override each.
 *  @example
 *  const options: TaskOptions = { retry: { maxAttempts: 3 }, timeout: "2m", queue: "images" }; */
export interface TaskOptions<Schema extends StandardSchema | undefined = StandardSchema | undefined>
  extends TaskValues {
  /** Checks the input at submit and before the handler, which receives the output of the schema. Any library that follows
   *  Standard Schema: zod, valibot, arktype, TypeBox with an adapter. */
  readonly schema?: Schema;
}

/** The function of a task: takes the input and a context, returns the result.
 *  @example
 *  const handler: Handler<{ url: string }, number> = async ({ url }, ctx) => (await fetch(url, ctx)).status; */
export type Handler<Input, Output> = (input: Input, ctx: TaskContext) => Output | Promise<Output>;

/** A task with the types of its input (`submit`), its result (`result()`) and what its handler receives, which differs from the
 *  input only with a schema that transforms it.
 *  @example
 *  const resize: Task<{ url: string }, { width: number }> = task("resize", (input: { url: string }) => ({
 *    width: input.url.length,
 *  })); */
export interface Task<Input, Output, Received = Input> {
  readonly kind: string;
  readonly options: TaskOptions;
  readonly handler: Handler<Received, unknown>;
  /** Not set; only types. */
  readonly types?: { readonly input: (input: Input) => void; readonly output: Output };
}

/** The types of the schema; without one, those of the handler. */
type SubmittedInput<Schema, Input> = Schema extends StandardSchema ? SchemaInput<Schema> : Input;
type ReceivedInput<Schema, Input> = Schema extends StandardSchema ? SchemaOutput<Schema> : Input;

/** Any task, for lists.
 *  @example
 *  const tasks: AnyTask[] = [resize, exec];
 *  await perdure.work(tasks); */
export type AnyTask = Task<never, unknown, never>;

/** The arguments of `submit` after the task: the input may be left out only where the handler takes none.
 *  @example
 *  type Rest = SubmitRest<typeof resize, SubmitOptions>; // [input: { url: string }, options?: SubmitOptions] */
export type SubmitRest<T, Options> =
  T extends Task<infer Input, unknown, never>
    ? [Input] extends [never]
      ? [input?: unknown, options?: Options | undefined] // AnyTask: the type of its input is not known
      : undefined extends Input
        ? [input?: Input, options?: Options | undefined]
        : [input: Input, options?: Options | undefined]
    : [input?: unknown, options?: Options | undefined];

/** The type of `result()` for a task; unknown for the name of a kind.
 *  @example
 *  type Size = ResultOf<typeof resize>; // { width: number } */
export type ResultOf<T> = T extends Task<never, infer Output, never> ? Output : unknown;

export function isTask(value: unknown): value is AnyTask {
  const { kind, options, handler } = (value ?? {}) as Partial<AnyTask>;
  return typeof kind === "string" && typeof options === "object" && typeof handler === "function";
}

/** Creates a task from the name of its kind, options and a handler. The types of input and result are those of the handler.
 *  @example
 *  const resize = task("resize", { retry: 3, timeout: "2m" }, async (input: { url: string; width?: number }, ctx) => {
 *    ctx.log(`attempt ${ctx.attempt}`);
 *    return { width: input.width ?? 640 };
 *  }); */
export function task<Input, Output>(
  kind: string,
  handler: Handler<Input, Output> & JsonCheck<Input, Output>,
): Task<Input, JsonImage<Output>>;
export function task<Input, Output, Schema extends StandardSchema | undefined = undefined>(
  kind: string,
  options: TaskOptions<Schema>,
  handler: Handler<ReceivedInput<Schema, Input>, Output> & JsonCheck<SubmittedInput<Schema, Input>, Output>,
): Task<SubmittedInput<Schema, Input>, JsonImage<Output>, ReceivedInput<Schema, Input>>;
export function task(
  kind: string,
  second: TaskOptions | Handler<never, unknown>,
  third?: Handler<never, unknown>,
): AnyTask {
  const handler = typeof second === "function" ? second : third;
  const options = typeof second === "function" ? {} : second;
  if (typeof kind !== "string" || kind === "") {
    throw new ConfigError({ path: "task", given: kind, allowed: 'a name, as in task("resize-image", handler)' });
  }
  if (typeof second === "function" && third !== undefined) {
    const problem = "has an argument after the handler";
    const fix = `put options before it, as in task("${kind}", { retry: 3 }, handler)`;
    throw new ConfigError({ path: `task ${kind}`, given: third, problem, fix });
  }
  if (typeof handler !== "function") {
    const problem = "has no handler";
    throw new ConfigError({
      path: `task ${kind}`,
      given: handler,
      problem,
      fix: "pass a function as the last argument",
    });
  }
  const { schema } = options;
  if (schema !== undefined && typeof schema?.["~standard"]?.validate !== "function") {
    const allowed = "a schema that follows Standard Schema, such as one of zod, valibot or arktype";
    throw new ConfigError({ path: `task ${kind}.schema`, given: schema, allowed });
  }
  return Object.freeze({ kind, options, handler });
}
