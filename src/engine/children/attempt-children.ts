/** Children of a running attempt: submitted under its lock, and read page by page as their parent sees them. A child
 *  may hold two megabytes, so few are read at a time and a page ends when it holds enough. */

import type { Failure } from "../../core/decision/failure.ts";
import { PerdureError, show } from "../../core/errors.ts";
import { type Child, type ChildState, givenKey, type HeldParent } from "../../core/task/task.ts";
import { NO_INPUT } from "../../core/worker-protocol.ts";
import type { JobRow, Store } from "../../store/store.ts";
import type { EngineParts } from "../parts.ts";
import { submit } from "../submit.ts";
import type { SubmitItem } from "../submit-item.ts";
import { type ParentAttempt, redriveChildren } from "./cascade.ts";

/** About eight megabytes, as JSON. */
const PAGE_CHARS = 8_000_000;
/** Rows per read: few, and more after small ones. The next ones may all have the maximum size, and a page must still fit into
 *  one reply. */
const FEW = 4;
const MOST = 20;
const LIGHT = 100_000;
/** Size of a child without payload and result, about. */
const FRAME = 300;

export interface ChildPage {
  readonly children: ChildState[];
  /** The cursor of the next page; null after the last. */
  readonly next: string | null;
}

/** The next children of a job, oldest first. */
export async function childPage(store: Store, parentId: string, from: string | null): Promise<ChildPage> {
  const children: ChildState[] = [];
  let weight = 0;
  let limit = FEW;
  let next = from;
  do {
    const cursor: { readonly cursor?: string } = next === null ? {} : { cursor: next };
    const page = await store.find({ parentId, order: "oldest", limit, ...cursor });
    const added = await addStates(store, page.jobs, children);
    weight += added;
    limit = nextLimit(limit, added);
    next = page.next;
  } while (next !== null && weight < PAGE_CHARS);
  return { children, next };
}

/** The named children, from the first on, until the page is full. All of them must be children of this job. */
async function namedPage(store: Store, parentId: string, ids: readonly string[]): Promise<ChildState[]> {
  const children: ChildState[] = [];
  let limit = FEW;
  for (let weight = 0; children.length < ids.length && weight < PAGE_CHARS; ) {
    const some = ids.slice(children.length, children.length + limit);
    const rows = await store.jobs(some);
    const own = rows.map((row, i) => (row?.parentId === parentId ? row : throwNotAChild(parentId, some[i])));
    const added = await addStates(store, own, children);
    weight += added;
    limit = nextLimit(limit, added);
  }
  return children;
}

function nextLimit(limit: number, added: number): number {
  return added < LIGHT ? Math.min(MOST, limit * 2) : FEW;
}

function throwNotAChild(parentId: string, id: string | undefined): never {
  throw new PerdureError("job_not_found", `${show(id)} is not a child of ${parentId}, or was pruned`);
}

/** Returns about how many characters were added. */
async function addStates(store: Store, rows: readonly JobRow[], to: ChildState[]): Promise<number> {
  const badly = rows.filter(({ state }) => state === "failed" || state === "cancelled").map(({ id }) => id);
  const found = badly.length === 0 ? [] : await store.children.failures(badly);
  const failures = new Map(badly.map((id, i) => [id, found[i] ?? null]));
  let weight = 0;
  for (const row of rows) {
    const failure = failures.get(row.id) ?? row.failure;
    to.push(stateOf(row, failure));
    const text = failure === null ? 0 : failure.message.length + (failure.stack?.length ?? 0);
    weight += FRAME + row.payload.length + (row.result?.length ?? 0) + text;
  }
  return weight;
}

function stateOf(row: JobRow, failure: Failure | null): ChildState {
  const { id, kind, key, parentId, state, reason } = row;
  const value = (text: string | null) =>
    text === null || text === NO_INPUT ? undefined : (JSON.parse(text) as unknown);
  return {
    ...{ id, kind, key: givenKey(parentId, key), state, reason, failure },
    ...{ payload: value(row.payload), result: state === "succeeded" ? value(row.result) : undefined },
  };
}

// Children of a running attempt, submitted and read by it: for workers in this process, workers of a server, and callers with a
// job's own token.

/** The parent of the item is the calling attempt. */
export async function submitChild(
  parts: EngineParts,
  { jobId, attempt, namespace }: Pick<HeldParent, "jobId" | "attempt" | "namespace">,
  item: SubmitItem,
): Promise<Child<unknown>> {
  const [answer] = await submit(parts, [{ ...item, namespace, parent: { id: jobId, attempt } }]);
  if (answer?.status !== "ok") throw (answer as { error: PerdureError }).error;
  const { id, created } = answer;
  return { id, created };
}

/** All children of a job, oldest first, for a handler in this process. */
export async function childStates({ store }: EngineParts, parentId: string): Promise<ChildState[]> {
  const all: ChildState[] = [];
  let next: string | null = null;
  do {
    const page: ChildPage = await childPage(store, parentId, next);
    for (const child of page.children) all.push(child);
    next = page.next;
  } while (next !== null);
  return all;
}

/** Children that an attempt waits for: a page of them, from the first on. */
export async function awaitedPage(
  parts: EngineParts,
  attempt: ParentAttempt,
  ids: readonly string[],
): Promise<ChildState[]> {
  const checked: CheckedChildren = new Set();
  await redriveAwaited(parts, attempt, ids, checked);
  return pageOf(parts, attempt, ids, checked);
}

/** All of them. */
export async function awaitedStates(
  parts: EngineParts,
  attempt: ParentAttempt,
  ids: readonly string[],
): Promise<ChildState[]> {
  const checked: CheckedChildren = new Set();
  await redriveAwaited(parts, attempt, ids, checked);
  const all: ChildState[] = [];
  while (all.length < ids.length) {
    for (const child of await pageOf(parts, attempt, ids.slice(all.length), checked)) all.push(child);
  }
  return all;
}

/** Ended children that were checked for a redrive, and redriven if they are due one. How they end after that is for the parent to
 *  handle. */
type CheckedChildren = Set<string>;

/** A child may end between the check and the read of the page. It is checked then, and read again. */
async function pageOf(
  parts: EngineParts,
  attempt: ParentAttempt,
  ids: readonly string[],
  checked: CheckedChildren,
): Promise<ChildState[]> {
  for (;;) {
    const page = await namedPage(parts.store, attempt.jobId, ids);
    const late = page.filter((child) => endedBadly(child) && !checked.has(child.id));
    if (late.length === 0) return page;
    const again = late.map(({ id }) => id);
    await redriveAwaited(parts, attempt, again, checked);
  }
}

/** A child that was submitted again while it was still stopping is redriven here: at its submit it had not ended. */
async function redriveAwaited(
  parts: EngineParts,
  attempt: ParentAttempt,
  ids: readonly string[],
  checked: CheckedChildren,
): Promise<void> {
  const found = await parts.store.facts(ids);
  const children = found.map((job, i) =>
    job?.parentId === attempt.jobId ? job : throwNotAChild(attempt.jobId, ids[i]),
  );
  const badly = children.filter(endedBadly);
  await redriveChildren(parts, attempt, badly);
  for (const { id } of badly) checked.add(id);
}

function endedBadly({ state }: Pick<ChildState, "state">): boolean {
  return state === "failed" || state === "cancelled";
}
