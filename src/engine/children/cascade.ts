/** What a parent's cancel or redrive does to its children. A cancel is passed down level by level, each list of
 *  children under the lock of its parent; a child that has ended is skipped, those below it are not. A redriven
 *  parent that asks for its children again redrives those that failed or were cancelled before its redrive, by the
 *  order of events and never by clocks. */
import { type Command, decideCommand } from "../../core/job/command.ts";
import type { JobEvent } from "../../core/job/event.ts";
import { isTerminal, type Job } from "../../core/job/job.ts";
import type { AmendAnswer, DecideCommand, ParentNow, Reachable } from "../../store/store.ts";
import { endOrphans } from "../lost-attempts.ts";
import type { EngineParts } from "../parts.ts";
import { eachEvent } from "../read-job.ts";
import { tidyOutputs } from "../settle.ts";

// Passes a cancel on to the children, level by level: those that were asked may be parents. Each list of children is
// asked under the lock of their parent. A parent that was given a new start meanwhile is cancelled no more, and its
// children stay as they are. A child that has ended is asked nothing, but those below it are: it may have left
// children behind. It gets no event, and nothing is noted of it: until all below it are done, it is the cancelled job
// above that stays among the cascades.

const CASCADE_BATCH = 200;
/** Parents at a time: one with ten thousand children does not hold up the others. Few enough that claims and reports find
 *  connections of the store beside them. */
const PARENTS_AT_ONCE = 4;

/** All that are due. One that is still there after it was passed on is for the next time. */
export async function cascadeCancels(parts: EngineParts, isStopped: () => boolean): Promise<void> {
  const done = new Set<string>();
  for (;;) {
    const parents = (await parts.store.children.cascades(CASCADE_BATCH)).filter((id) => !done.has(id));
    if (parents.length === 0) return;
    for (const id of parents) done.add(id);
    const next = parents.values();
    const ends = await Promise.allSettled(
      Array.from({ length: PARENTS_AT_ONCE }, () => cascadeEach(parts, next, isStopped)),
    );
    for (const end of ends) if (end.status === "rejected") throw end.reason;
    if (isStopped()) return;
  }
}

async function cascadeEach(parts: EngineParts, parents: Iterator<string>, isStopped: () => boolean): Promise<void> {
  for (let { value, done } = parents.next(); done !== true && !isStopped(); { value, done } = parents.next()) {
    if (await cancelBelow(parts, value)) await parts.store.children.cascaded(value);
  }
}

/** False: somewhere below the cancel does not stand any more, because somebody was given a new start while we were at it. Then
 *  it is to be looked at again: whoever lives now is to be asked himself. */
async function cancelBelow(parts: EngineParts, parentId: string): Promise<boolean> {
  let isWhole = true;
  let after: number | null = null;
  do {
    const page: Reachable = await parts.store.children.reachable({ parentId, after, limit: CASCADE_BATCH });
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
  const command: Command = { kind: "cancel", by: actorOfParent(parentId) };
  const now = clock.now();
  let stands = true;
  const decide: DecideCommand = (job, asked, parent) => {
    stands = parent === null || parent.isCancelled;
    return stands ? decideCommand(job, asked, now) : { kind: "noop", message: "its parent was given a new start" };
  };
  const commands = ids.map((jobId) => ({ jobId, command }));
  const answers = await store.amend(commands, now, decide, parentId);
  for (const answer of answers) await notifyCancelled(parts, answer);
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
function actorOfParent(parentId: string): string {
  return `parent:${parentId}`;
}

async function notifyCancelled(parts: EngineParts, answer: AmendAnswer): Promise<void> {
  if (answer.status !== "applied") return;
  const { id, state, worker, attempt } = answer.job;
  if (state === "running" && worker !== null) parts.hub.cancelAsked(worker, id, attempt);
  else {
    parts.hub.ended(id);
    await tidyOutputs(parts, id);
  }
}

// A parent that was given a new start asks for its children again. Those that ended badly before that get a new start
// too; what has succeeded is not done twice, and what ends badly in this chapter of the parent is for the parent to
// judge. It is not known by times: clocks may step back. A child that was cancelled with its parent may take its time
// to end, so that one counts as ended before, whenever it ends.

/** The run that asks. */
export interface ParentAttempt {
  readonly jobId: string;
  readonly attempt: number;
}

/** Children at a time. */
const REDRIVES_AT_ONCE = 4;

/** Gives a new start to those of these children, ended badly, that have a right to one; they may have had it from somebody
 *  else meanwhile. False: the parent is in its first chapter, and none has. */
export async function redriveChildren(
  parts: EngineParts,
  run: ParentAttempt,
  children: readonly Pick<Job, "id" | "chapter">[],
): Promise<boolean> {
  if (children.length === 0) return false;
  const [parent] = await parts.store.facts([run.jobId]);
  if (parent == null || parent.chapter === 1) return false;
  const begin = (await endingOf(parts, parent.id))?.begunAt ?? 0;
  for (let i = 0; i < children.length; i += REDRIVES_AT_ONCE) {
    const some = children.slice(i, i + REDRIVES_AT_ONCE);
    await Promise.all(some.map((child) => redriveChild(parts, { run, begin }, child)));
  }
  return true;
}

interface ParentChapter {
  readonly run: ParentAttempt;
  /** Where in the sequence of all events the parent's chapter began. */
  readonly begin: number;
}

/** Under the parent's lock: one that is cancelled, or has ended, starts nothing that nobody would cancel. */
async function redriveChild(
  parts: EngineParts,
  { run, begin }: ParentChapter,
  { id, chapter }: Pick<Job, "id" | "chapter">,
): Promise<void> {
  const ending = await endingOf(parts, id);
  if (ending === null || (!wasCancelledBy(ending, run.jobId) && ending.endedAt > begin)) return;
  const { store, clock, hub } = parts;
  const now = clock.now();
  const command = { kind: "redrive", chapter, by: actorOfParent(run.jobId) } as const;
  const [answer] = await store.amend(
    [{ jobId: id, command }],
    now,
    (job, asked, parent, budgets) =>
      isAsking(parent, run)
        ? decideCommand(job, asked, now, budgets)
        : { kind: "noop", message: "its parent has ended" },
    run.jobId,
  );
  if (answer?.status !== "applied") return;
  hub.ready.fire();
  hub.written.fire();
}

function isAsking(parent: ParentNow | null, { attempt }: ParentAttempt): boolean {
  return parent?.state === "running" && parent.attempt === attempt && parent.cancelRequestedAt === null;
}

/** What the events of a job tell of its end. */
interface ChapterEnding {
  readonly cancel: JobEvent | null;
  /** Where the chapter began, in the sequence of all events. */
  readonly begunAt: number;
  readonly endedAt: number;
}

async function endingOf({ store }: EngineParts, id: string): Promise<ChapterEnding | null> {
  const [job] = await store.facts([id]);
  if (job == null) return null;
  let ending: ChapterEnding = { cancel: null, begunAt: 0, endedAt: 0 };
  for await (const event of eachEvent(store, job)) {
    const { name, seq } = event;
    if (name === "job.cancelled" || name === "job.cancel_requested") ending = { ...ending, cancel: event };
    if (name === "job.redriven" || name === "job.submitted") ending = { ...ending, begunAt: seq };
    if (name !== "job.discarded") ending = { ...ending, endedAt: seq };
  }
  return ending;
}

/** Whether its last cancel came with that of its parent. That one was taken back, or nobody would ask. */
function wasCancelledBy({ cancel, begunAt }: ChapterEnding, parentId: string): boolean {
  if (cancel === null || cancel.seq < begunAt) return false;
  return (cancel.data as { readonly by?: string | null }).by === actorOfParent(parentId);
}
