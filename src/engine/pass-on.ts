/** Passes a cancel on to the children, level by level: those that were asked may be parents. Each list of children is asked
 *  under the lock of their parent. A parent that was given a new start meanwhile is cancelled no more, and its children stay
 *  as they are. */
import { type Command, decideCommand } from "../core/command.ts";
import type { AmendAnswer, DecideCommand, Reachable } from "../store/store.ts";
import type { EngineParts } from "./engine.ts";
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
    await cancelChildren(parts, value);
    await parts.store.cascaded(value);
  }
}

async function cancelChildren(parts: EngineParts, parentId: string): Promise<void> {
  const { store, clock, hub } = parts;
  const command: Command = { kind: "cancel", by: inNameOf(parentId) };
  let after: number | null = null;
  do {
    const page: Reachable = await store.reachable({ parentId, after, limit: BATCH });
    const now = clock.now();
    const decide: DecideCommand = (job, asked, parent) => {
      if (parent === null || parent.cancelRequestedAt !== null) return decideCommand(job, asked, now);
      return { kind: "noop", message: "its parent was given a new start" };
    };
    const commands = page.jobs.map((jobId) => ({ jobId, command }));
    if (commands.length === 0) return;
    for (const answer of await store.amend(commands, now, decide, parentId)) await tell(parts, answer);
    hub.written.fire();
    after = page.next;
  } while (after !== null);
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
