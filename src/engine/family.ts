/** Children of a running attempt: submitted under its lock, and looked at by it. For workers in this process, for those of a
 *  server, and for whoever shows a job's own token. */
import type { Child, ChildState, HeldParent } from "../core/child.ts";
import type { PerdureError } from "../core/errors.ts";
import { type ChildPage, childPage, namedPage, noChild } from "./child-states.ts";
import type { EngineParts } from "./engine.ts";
import { type AskingRun, runAgain } from "./run-again.ts";
import { type SubmitItem, submit } from "./submit.ts";

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
export async function awaitedPage(parts: EngineParts, run: AskingRun, ids: readonly string[]): Promise<ChildState[]> {
  const judged: Judged = new Set();
  await startAwaited(parts, run, ids, judged);
  return pageOf(parts, run, ids, judged);
}

/** All of them. */
export async function awaitedStates(parts: EngineParts, run: AskingRun, ids: readonly string[]): Promise<ChildState[]> {
  const judged: Judged = new Set();
  await startAwaited(parts, run, ids, judged);
  const all: ChildState[] = [];
  while (all.length < ids.length) {
    for (const child of await pageOf(parts, run, ids.slice(all.length), judged)) all.push(child);
  }
  return all;
}

/** Those of whom it is known whether they have a right to a new start. If they had, they got it, and how they end after that
 *  is for the parent to judge. */
type Judged = Set<string>;

/** Between the look that judges and the one that is shown a child may end. It is judged then, and read again. */
async function pageOf(
  parts: EngineParts,
  run: AskingRun,
  ids: readonly string[],
  judged: Judged,
): Promise<ChildState[]> {
  for (;;) {
    const page = await namedPage(parts.store, run.jobId, ids);
    const late = page.filter((child) => endedBadly(child) && !judged.has(child.id));
    if (late.length === 0) return page;
    const again = late.map(({ id }) => id);
    await startAwaited(parts, run, again, judged);
  }
}

/** One that was asked for again while it was still stopping gets its new start here: when it was submitted again, it had not
 *  ended. */
async function startAwaited(parts: EngineParts, run: AskingRun, ids: readonly string[], judged: Judged): Promise<void> {
  const found = await parts.store.facts(ids);
  const children = found.map((job, i) => (job?.parentId === run.jobId ? job : noChild(run.jobId, ids[i])));
  const badly = children.filter(endedBadly);
  await runAgain(parts, run, badly);
  for (const { id } of badly) judged.add(id);
}

function endedBadly({ state }: Pick<ChildState, "state">): boolean {
  return state === "failed" || state === "cancelled";
}
