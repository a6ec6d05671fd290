/** Passes a cancel on to the children, level by level: those that were asked may be parents. Each list of children is asked
 *  under the lock of their parent. A parent that was given a new start meanwhile is cancelled no more, and its children stay
 *  as they are.
 *
 *  A child that has ended is asked nothing, but those below it are: it may have left children behind. It gets no event, and
 *  nothing is noted of it: until all below it are done, it is the cancelled job above that stays among the cascades. */
import { type Command, decideCommand } from "../core/command.ts";
import { isTerminal } from "../core/job.ts";
import type { AmendAnswer, DecideCommand, Reachable } from "../store/store.ts";
import type { EngineParts } from "./engine.ts";
import { endOrphans } from "./orphan.ts";
import { tidy } from "./tidy.ts";

const BATCH = 200;
/** Parents at a time: one with ten thousand children does not hold up the others. Few enough that claims and reports find
 *  connections of the store beside them. */
const AT_ONCE = 4;

/** All that are due. One that is still there after it was passed on is for the next time. */
export async function passOnCancels(parts: EngineParts, isStopped: () => boolean): Promise<void> {
  const done = new Set<string>();
  for (;;) {
    const parents = (await parts.store.cascades(BATCH)).filter((id) => !done.has(id));
    if (parents.length === 0) return;
    for (const id of parents) done.add(id);
    const next = parents.values();
    const ends = await Promise.allSettled(Array.from({ length: AT_ONCE }, () => passOnEach(parts, next, isStopped)));
    for (const end of ends) if (end.status === "rejected") throw end.reason;
    if (isStopped()) return;
  }
}

async function passOnEach(parts: EngineParts, parents: Iterator<string>, isStopped: () => boolean): Promise<void> {
  for (let { value, done } = parents.next(); done !== true && !isStopped(); { value, done } = parents.next()) {
    if (await cancelBelow(parts, value)) await parts.store.cascaded(value);
  }
}

/** False: somewhere below the cancel does not stand any more, because somebody was given a new start while we were at it. Then
 *  it is to be looked at again: whoever lives now is to be asked himself. */
async function cancelBelow(parts: EngineParts, parentId: string): Promise<boolean> {
  let isWhole = true;
  let after: number | null = null;
  do {
    const page: Reachable = await parts.store.reachable({ parentId, after, limit: BATCH });
    const over = page.jobs.filter(({ isOver }) => isOver).map(({ jobId }) => jobId);
    const living = page.jobs.filter(({ isOver }) => !isOver).map(({ jobId }) => jobId);
    const late = living.length === 0 ? [] : await cancelAll(parts, parentId, living);
    if (late === null) return false;
    // One after the other: what is kept in memory is a page of each generation.
    for (const id of [...over, ...late]) if (!(await cancelBelow(parts, id))) isWhole = false;
    after = page.next;
  } while (after !== null);
  return isWhole;
}

/** The answer is those that had ended before they could be asked; null where the cancel does not stand any more. */
async function cancelAll(parts: EngineParts, parentId: string, ids: readonly string[]): Promise<string[] | null> {
  const { store, clock, hub } = parts;
  const command: Command = { kind: "cancel", by: inNameOf(parentId) };
  const now = clock.now();
  let stands = true;
  const decide: DecideCommand = (job, asked, parent) => {
    stands = parent === null || parent.isCancelled;
    return stands ? decideCommand(job, asked, now) : { kind: "noop", message: "its parent was given a new start" };
  };
  const commands = ids.map((jobId) => ({ jobId, command }));
  const answers = await store.amend(commands, now, decide, parentId);
  for (const answer of answers) await tell(parts, answer);
  hub.written.fire();
  await endOrphans(
    parts,
    answers.flatMap((answer) => (answer.status === "applied" ? [answer.job] : [])),
  );
  return stands ? answers.flatMap(endedBefore) : null;
}

function endedBefore(answer: AmendAnswer): string[] {
  return answer.status === "noop" && isTerminal(answer.job.state) ? [answer.job.id] : [];
}

/** Who asked, in the events of a child that was cancelled with its parent, or started anew for it. */
export function inNameOf(parentId: string): string {
  return `parent:${parentId}`;
}

async function tell(parts: EngineParts, answer: AmendAnswer): Promise<void> {
  if (answer.status !== "applied") return;
  const { id, state, worker, attempt } = answer.job;
  if (state === "running" && worker !== null) parts.hub.cancelAsked(worker, id, attempt);
  else {
    parts.hub.ended(id);
    await tidy(parts, id);
  }
}
