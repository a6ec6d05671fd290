/** Children as their parent sees them, with what they were given and what they gave. That may be two megabytes each, so few are
 *  read at a time, and a page ends when there is enough. */
import { type ChildState, givenKey } from "../core/child.ts";
import { PerdureError, show } from "../core/errors.ts";
import type { Failure } from "../core/failure.ts";
import { NO_INPUT } from "../core/work.ts";
import type { JobRow, Store } from "../store/store.ts";

/** About eight megabytes, as JSON. */
const ENOUGH = 8_000_000;
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
  } while (next !== null && weight < ENOUGH);
  return { children, next };
}

/** Those named, from the first on, until there is enough. All of them must be children of this job. */
export async function namedPage(store: Store, parentId: string, ids: readonly string[]): Promise<ChildState[]> {
  const children: ChildState[] = [];
  let limit = FEW;
  for (let weight = 0; children.length < ids.length && weight < ENOUGH; ) {
    const some = ids.slice(children.length, children.length + limit);
    const rows = await store.jobs(some);
    const own = rows.map((row, i) => (row?.parentId === parentId ? row : noChild(parentId, some[i])));
    const added = await addStates(store, own, children);
    weight += added;
    limit = nextLimit(limit, added);
  }
  return children;
}

function nextLimit(limit: number, added: number): number {
  return added < LIGHT ? Math.min(MOST, limit * 2) : FEW;
}

export function noChild(parentId: string, id: string | undefined): never {
  throw new PerdureError("job_not_found", `${show(id)} is no child of ${parentId}, or it was pruned`);
}

/** The answer is about how much text was added. */
async function addStates(store: Store, rows: readonly JobRow[], to: ChildState[]): Promise<number> {
  const badly = rows.filter(({ state }) => state === "failed" || state === "cancelled").map(({ id }) => id);
  const found = badly.length === 0 ? [] : await store.lastFailures(badly);
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
