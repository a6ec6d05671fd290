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

// Children as their parent sees them, with what they were given and what they gave. That may be two megabytes each,
// so few are read at a time, and a page ends when there is enough.

/** About eight megabytes, as JSON. */
const PAGE_CHARS = 8_000_000;
/** Rows that are read at a time: few, and more after light ones. The next may all be as heavy as can be, and a page must still
 *  fit into one reply. */
const FEW = 4;
const MOST = 20;
const LIGHT = 100_000;
/** Of a child without its bodies, about. */
const FRAME = 300;

export interface ChildPage {
  readonly children: ChildState[];
  /** The place to go on from; null after the last. */
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

/** Those named, from the first on, until there is enough. All of them must be children of this job. */
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
  throw new PerdureError("job_not_found", `${show(id)} is no child of ${parentId}, or it was pruned`);
}

/** The answer is about how much text was added. */
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

// Children of a running attempt: submitted under its lock, and looked at by it. For workers in this process, for
// those of a server, and for whoever shows a job's own token.

/** The item without its parent: that is the one who asks. */
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

/** All children of a job, oldest first: for a handler in this process, which asked for all of them. */
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

/** Children whose ends a run waits for: as many as make a page, from the first on. */
export async function awaitedPage(
  parts: EngineParts,
  run: ParentAttempt,
  ids: readonly string[],
): Promise<ChildState[]> {
  const judged: CheckedChildren = new Set();
  await redriveAwaited(parts, run, ids, judged);
  return pageOf(parts, run, ids, judged);
}

/** All of them. */
export async function awaitedStates(
  parts: EngineParts,
  run: ParentAttempt,
  ids: readonly string[],
): Promise<ChildState[]> {
  const judged: CheckedChildren = new Set();
  await redriveAwaited(parts, run, ids, judged);
  const all: ChildState[] = [];
  while (all.length < ids.length) {
    for (const child of await pageOf(parts, run, ids.slice(all.length), judged)) all.push(child);
  }
  return all;
}

/** Those of whom it is known whether they have a right to a new start. If they had, they got it, and how they end after that
 *  is for the parent to judge. */
type CheckedChildren = Set<string>;

/** Between the look that judges and the one that is shown a child may end. It is judged then, and read again. */
async function pageOf(
  parts: EngineParts,
  run: ParentAttempt,
  ids: readonly string[],
  judged: CheckedChildren,
): Promise<ChildState[]> {
  for (;;) {
    const page = await namedPage(parts.store, run.jobId, ids);
    const late = page.filter((child) => endedBadly(child) && !judged.has(child.id));
    if (late.length === 0) return page;
    const again = late.map(({ id }) => id);
    await redriveAwaited(parts, run, again, judged);
  }
}

/** One that was asked for again while it was still stopping gets its new start here: when it was submitted again, it had not
 *  ended. */
async function redriveAwaited(
  parts: EngineParts,
  run: ParentAttempt,
  ids: readonly string[],
  judged: CheckedChildren,
): Promise<void> {
  const found = await parts.store.facts(ids);
  const children = found.map((job, i) => (job?.parentId === run.jobId ? job : throwNotAChild(run.jobId, ids[i])));
  const badly = children.filter(endedBadly);
  await redriveChildren(parts, run, badly);
  for (const { id } of badly) judged.add(id);
}

function endedBadly({ state }: Pick<ChildState, "state">): boolean {
  return state === "failed" || state === "cancelled";
}
