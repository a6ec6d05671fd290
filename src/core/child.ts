/** Children, as their parent sees them. */
import type { Failure } from "./failure.ts";
import type { FailReason, JobState } from "./job.ts";
import type { SubmitEntry, SubmitOptions } from "./submit-options.ts";

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

export type ChildEnds<Children extends readonly Child<unknown>[]> = {
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
