/** The parents of jobs that are to be stored: whether they may have children, and how deep they lie.
 *  Looked at before; whether a parent still lives, the store asks again under its lock. */
import { childKey } from "../core/child.ts";
import { ConfigError, PerdureError, show } from "../core/errors.ts";
import { isId } from "../lib/id.ts";
import type { EngineParts } from "./engine.ts";
import { LIMITS } from "./limits.ts";
import type { SubmitItem } from "./submit.ts";

/** What is to be known of the parents of these jobs; null if none of them is a child. */
export async function parentsOf({ store }: EngineParts, items: readonly SubmitItem[]): Promise<Parents | null> {
  const children = items.filter(({ parent }) => parent != null);
  if (children.length === 0) return null;
  const ids = [...new Set(children.map(({ parent }) => parent?.id ?? ""))].filter((id) => isId(id, "job"));
  const [rows, counts] = await Promise.all([store.facts(ids), store.childCounts(ids)]);
  const parents = new Map<string, ParentFacts>();
  rows.forEach((row, i) => {
    if (row === null) return;
    const { id, namespace, depth } = row;
    parents.set(id, { namespace, depth, room: LIMITS.children - (counts[i] ?? 0), known: new Set() });
  });
  // Where there is no room for all of them, those that are there already are no new ones.
  for (const item of children) {
    const { parent, key } = item;
    const facts = parents.get(parent?.id ?? "");
    if (facts === undefined || key == null || facts.room >= children.length) continue;
    const stored = storedKey(item) as string;
    const { jobs } = await store.find({ parentId: parent?.id ?? "", key: stored, limit: 1 });
    if (jobs.length > 0) facts.known.add(key);
  }
  return parents;
}

interface ParentFacts {
  readonly namespace: string;
  readonly depth: number;
  /** How many more children it may have. */
  room: number;
  /** Keys of children that it has. */
  readonly known: Set<string>;
}

export type Parents = ReadonlyMap<string, ParentFacts>;

export function parentFacts(
  parentId: string,
  { key, namespace }: { readonly key: string | null; readonly namespace: string },
  parents: Parents | null,
): ParentFacts {
  const above = parents?.get(parentId);
  // One of another namespace is not to be told from none, neither by its depth nor by its children.
  if (above === undefined || above.namespace !== namespace) {
    throw new PerdureError("parent_ended", `no job has the id ${show(parentId)}: it cannot have children`, {
      path: "parent",
    });
  }
  if (above.depth >= LIMITS.depth) {
    const allowed = `a job with fewer than ${LIMITS.depth} parents above it`;
    throw new ConfigError({ path: "parent", given: parentId, problem: "it lies too deep", allowed });
  }
  if (key !== null && above.known.has(key)) return above;
  above.room -= 1;
  if (above.room >= 0) return above;
  const allowed = `a job with fewer than ${LIMITS.children} children`;
  throw new ConfigError({ path: "parent", given: parentId, problem: "it has too many children", allowed });
}

/** The key under which a job is stored: unique in its namespace. */
export function storedKey({ key = null, parent, isWideKey }: Pick<SubmitItem, "key" | "parent" | "isWideKey">) {
  return key === null || parent == null || isWideKey === true ? key : childKey(parent.id, key);
}

/** Keys of children have their parent in front. A job with such a key that is no child would be found in a child's place. */
export function refuseChildKey(key: string): void {
  const slash = key.indexOf("/");
  if (slash < 0 || !isId(key.slice(0, slash), "job")) return;
  const allowed = "a key that does not begin with the id of a job and /: such keys are of the children of that job";
  throw new ConfigError({ path: "submit.key", given: key, allowed });
}

/** A child is stored under its parent's lock, and nobody knows how long a transaction of a stranger lasts: until then the
 *  parent's worker could neither renew nor report. */
export function refuseChild({ parent }: SubmitItem): void {
  if (parent == null) return;
  const allowed = "no parent: a child cannot be stored within a transaction of yours";
  throw new ConfigError({ path: "submit.parent", given: parent.id, allowed });
}
