/** Tasks: the definition that jobs of a kind run, the entries of a submit, and the children of a job. The options of a submit
 *  are in `submit-options.ts`. */

import type { Failure } from "../decision/failure.ts";
import { ConfigError } from "../errors.ts";
import type { FailReason, JobState, Usage } from "../job/job.ts";
import type { JsonCheck, JsonImage } from "./json-type.ts";
import type { SchemaInput, SchemaOutput, StandardSchema } from "./schema.ts";
import type { SubmitOptions, TaskValues } from "./submit-options.ts";

export type { SubmitOptions, TransactionClient } from "./submit-options.ts";

/** One of the jobs that `submitMany` stores.
 *  @example
 *  const entries: SubmitEntry[] = urls.map((url) => ({ task: resize, input: { url } }));
 *  await perdure.submitMany(entries); */
export interface SubmitEntry {
  readonly task: AnyTask | string;
  readonly input?: unknown;
  readonly options?: Omit<SubmitOptions, "client">;
}

// Children, as their parent sees them.

/** A key names a child among those of its parent.
 *  @example
 *  const options: ChildOptions = { key: "page-1", priority: 2 };
 *  await ctx.submit(resize, { url }, options); */
export type ChildOptions = Omit<SubmitOptions, "client" | "parent">;

/** A job that a handler has submitted, by its id and the type of its result.
 *  @example
 *  const child: Child<{ width: number }> = await ctx.submit(resize, { url }); */
export interface Child<Output> {
  readonly id: string;
  /** False when an earlier run had submitted it. */
  readonly created: boolean;
  /** Never there: it carries the type of the result. */
  readonly output?: Output;
}

/** A child as it is now, whether it has ended or not.
 *  @example
 *  const open: ChildState[] = (await ctx.children()).filter(({ state }) => state === "queued"); */
export interface ChildState {
  readonly id: string;
  readonly kind: string;
  /** As it was submitted: without the parent in front. */
  readonly key: string | null;
  readonly state: JobState;
  readonly reason: FailReason | null;
  /** How its last attempt failed, for one that failed, was cancelled, or is being retried. */
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

/** An attempt that a worker holds, as far as its children are concerned. */
export interface HeldParent {
  readonly jobId: string;
  readonly attempt: number;
  readonly namespace: string;
  readonly session: string;
  /** Its lease. */
  readonly token: string;
}

/** How a worker submits and sees the children of an attempt in its hands. */
export interface Family {
  submit(parent: HeldParent, entry: SubmitEntry): Promise<Child<unknown>>;
  /** In the order asked for. Throws `job_not_found` for one that is no child of this parent. */
  look(parent: HeldParent, ids: readonly string[]): Promise<ChildState[]>;
  list(parent: HeldParent): Promise<ChildState[]>;
}

/** The submit key of a child: unique among those of its parent. */
export function childKey(parentId: string, key: string): string {
  return `${parentId}/${key}`;
}

/** The key as it was given; null for a job that is no child, or has none. */
export function givenKey(parentId: string | null, key: string | null): string | null {
  if (parentId === null || key === null) return key;
  return key.startsWith(`${parentId}/`) ? key.slice(parentId.length + 1) : key;
}

/** Children that a run may wait for at a time. */
export const MAX_WAITS_FOR = 1_000;

/** Thrown by `waitFor` to end the run. Whatever the handler makes of it, the run has begun to wait.
 *  @example
 *  try {
 *    await ctx.waitFor([child]);
 *  } catch (error) {
 *    if (error instanceof WaitingError) throw error; // not a failure: the handler is called again later
 *  } */
export class WaitingError extends Error {
  constructor() {
    super("this run ends here, and goes on when its children have ended");
    this.name = "WaitingError";
  }
}

// A task: the definition that jobs of its kind run. The types of its input and result follow from the handler.

/** What a handler gets beside its input.
 *  @example
 *  const fetchPage = async (url: string, { signal, log, attempt }: TaskContext) => {
 *    log(`attempt ${attempt}`);
 *    return (await fetch(url, { signal })).text();
 *  }; */
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

/** Submits a child of the job whose handler it belongs to.
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
  /** Checks the input, at submit and before the handler, which receives what the schema makes of it. Any library that follows
   *  Standard Schema: zod, valibot, arktype, TypeBox with an adapter. */
  readonly schema?: Schema;
}

/** What a task does: gets the input and a context, returns the result.
 *  @example
 *  const handler: Handler<{ url: string }, number> = async ({ url }, ctx) => (await fetch(url, ctx)).status; */
export type Handler<Input, Output> = (input: Input, ctx: TaskContext) => Output | Promise<Output>;

/** What `submit` takes, what `result()` resolves to, and what the handler receives: something else than was submitted only
 *  where a schema makes it so.
 *  @example
 *  const resize: Task<{ url: string }, { width: number }> = task("resize", (input: { url: string }) => ({
 *    width: input.url.length,
 *  })); */
export interface Task<Input, Output, Received = Input> {
  readonly kind: string;
  readonly options: TaskOptions;
  readonly handler: Handler<Received, unknown>;
  /** Never there: it carries the types. */
  readonly types?: { readonly input: (input: Input) => void; readonly output: Output };
}

/** What a schema takes and gives; without one, what the handler says. */
type SubmittedInput<Schema, Input> = Schema extends StandardSchema ? SchemaInput<Schema> : Input;
type ReceivedInput<Schema, Input> = Schema extends StandardSchema ? SchemaOutput<Schema> : Input;

/** Any task, whatever its types: for lists of them.
 *  @example
 *  const tasks: AnyTask[] = [resize, exec];
 *  await perdure.work(tasks); */
export type AnyTask = Task<never, unknown, never>;

/** What follows the task in a call of `submit`: the input may be left out only where the handler takes none.
 *  @example
 *  type Rest = SubmitRest<typeof resize, SubmitOptions>; // [input: { url: string }, options?: SubmitOptions] */
export type SubmitRest<T, Options> =
  T extends Task<infer Input, unknown, never>
    ? [Input] extends [never]
      ? [input?: unknown, options?: Options | undefined] // any task: nothing is known of its input
      : undefined extends Input
        ? [input?: Input, options?: Options | undefined]
        : [input: Input, options?: Options | undefined]
    : [input?: unknown, options?: Options | undefined];

/** What `result()` of a task's job resolves to; of a kind by its name, unknown.
 *  @example
 *  type Size = ResultOf<typeof resize>; // { width: number } */
export type ResultOf<T> = T extends Task<never, infer Output, never> ? Output : unknown;

export function isTask(value: unknown): value is AnyTask {
  const { kind, options, handler } = (value ?? {}) as Partial<AnyTask>;
  return typeof kind === "string" && typeof options === "object" && typeof handler === "function";
}

/** Makes a task: the name of its kind, options, and a handler, from which the types of input and result follow.
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
