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

// Passes a cancel on to the children, level by level, since they may be parents too. Each list of children is cancelled under
// the lock of their parent. If the parent was redriven meanwhile, its cancel no longer applies and its children stay as they
// are. A child that has ended gets no cancel and no event, but its children do. Until all of them are done, the cancelled job
// at the top stays in the list of cascades.

const CASCADE_BATCH = 200;
/** Concurrent parents: one with ten thousand children does not delay the others. Few enough that claims and reports still
 *  get connections of the store. */
const PARENTS_AT_ONCE = 4;

/** All that are due. A cascade that remains after its pass is done by the next call. */
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

/** False: somewhere below, the cancel no longer applies, because a job was redriven meanwhile. Then it must be checked again:
 *  that job is live now and needs a cancel of its own. */
async function cancelBelow(parts: EngineParts, parentId: string): Promise<boolean> {
  let isWhole = true;
  let after: number | null = null;
  do {
    const page: Reachable = await parts.store.children.reachable({ parentId, after, limit: CASCADE_BATCH });
    const over = page.jobs.filter(({ isOver }) => isOver).map(({ jobId }) => jobId);
    const live = page.jobs.filter(({ isOver }) => !isOver).map(({ jobId }) => jobId);
    const late = live.length === 0 ? [] : await cancelAll(parts, parentId, live);
    if (late === null) return false;
    // One after another: memory holds one page of each level.
    for (const id of [...over, ...late]) if (!(await cancelBelow(parts, id))) isWhole = false;
    after = page.next;
  } while (after !== null);
  return isWhole;
}

/** Returns those that had ended before; null if the cancel no longer applies. */
async function cancelAll(parts: EngineParts, parentId: string, ids: readonly string[]): Promise<string[] | null> {
  const { store, clock, hub } = parts;
  const command: Command = { kind: "cancel", by: actorOfParent(parentId) };
  const now = clock.now();
  let applies = true;
  const decide: DecideCommand = (job, asked, parent) => {
    applies = parent === null || parent.isCancelled;
    return applies ? decideCommand(job, asked, now) : { kind: "noop", message: "its parent was redriven" };
  };
  const commands = ids.map((jobId) => ({ jobId, command }));
  const answers = await store.amend(commands, now, decide, parentId);
  for (const answer of answers) await notifyCancelled(parts, answer);
  hub.written.fire();
  await endOrphans(
    parts,
    answers.flatMap((answer) => (answer.status === "applied" ? [answer.job] : [])),
  );
  return applies ? answers.flatMap(endedBefore) : null;
}

function endedBefore(answer: AmendAnswer): string[] {
  return answer.status === "noop" && isTerminal(answer.job.state) ? [answer.job.id] : [];
}

/** The actor in the events of a child that was cancelled or redriven with its parent. */
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

// A redriven parent submits its children again. Those that failed or were cancelled before its redrive are redriven too; those
// that succeeded are not run twice, and failures since the redrive are for the parent to handle. The order is by events, since
// clocks may step back. A child that was cancelled with its parent may end late, so it counts as ended before in any case.

/** The attempt that needs its children. */
export interface ParentAttempt {
  readonly jobId: string;
  readonly attempt: number;
}

/** Concurrent children. */
const REDRIVES_AT_ONCE = 4;

/** Redrives those of these failed or cancelled children that are due a redrive, if nobody else has meanwhile. False: the parent
 *  was never redriven, so none of them is. */
export async function redriveChildren(
  parts: EngineParts,
  attempt: ParentAttempt,
  children: readonly Pick<Job, "id" | "chapter">[],
): Promise<boolean> {
  if (children.length === 0) return false;
  const [parent] = await parts.store.facts([attempt.jobId]);
  if (parent == null || parent.chapter === 1) return false;
  const begin = (await endingOf(parts, parent.id))?.begunAt ?? 0;
  for (let i = 0; i < children.length; i += REDRIVES_AT_ONCE) {
    const some = children.slice(i, i + REDRIVES_AT_ONCE);
    await Promise.all(some.map((child) => redriveChild(parts, { attempt, begin }, child)));
  }
  return true;
}

interface ParentChapter {
  readonly attempt: ParentAttempt;
  /** The sequence number of the event that began the parent's chapter. */
  readonly begin: number;
}

/** Under the parent's lock: a cancelled or ended parent must not start a child that no cancel would reach. */
async function redriveChild(
  parts: EngineParts,
  { attempt, begin }: ParentChapter,
  { id, chapter }: Pick<Job, "id" | "chapter">,
): Promise<void> {
  const ending = await endingOf(parts, id);
  if (ending === null || (!wasCancelledBy(ending, attempt.jobId) && ending.endedAt > begin)) return;
  const { store, clock, hub } = parts;
  const now = clock.now();
  const command = { kind: "redrive", chapter, by: actorOfParent(attempt.jobId) } as const;
  const [answer] = await store.amend(
    [{ jobId: id, command }],
    now,
    (job, asked, parent, budgets) =>
      isActive(parent, attempt)
        ? decideCommand(job, asked, now, budgets)
        : { kind: "noop", message: "its parent has ended" },
    attempt.jobId,
  );
  if (answer?.status !== "applied") return;
  hub.ready.fire();
  hub.written.fire();
}

function isActive(parent: ParentNow | null, { attempt }: ParentAttempt): boolean {
  return parent?.state === "running" && parent.attempt === attempt && parent.cancelRequestedAt === null;
}

/** The end of a job, from its events. */
interface ChapterEnding {
  readonly cancel: JobEvent | null;
  /** The sequence number of the event that began the chapter. */
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

/** Whether its last cancel came from its parent, whose own cancel was taken back since, as it is running. */
function wasCancelledBy({ cancel, begunAt }: ChapterEnding, parentId: string): boolean {
  if (cancel === null || cancel.seq < begunAt) return false;
  return (cancel.data as { readonly by?: string | null }).by === actorOfParent(parentId);
}
