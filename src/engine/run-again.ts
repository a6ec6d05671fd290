/** A parent that was given a new start asks for its children again. Those that ended badly before that get a new start too;
 *  what has succeeded is not done twice, and what ends badly in this chapter of the parent is for the parent to judge. It is
 *  not known by times: clocks may step back. A child that was cancelled with its parent may take its time to end, so that one
 *  counts as ended before, whenever it ends. */
import { decideCommand } from "../core/command.ts";
import type { JobEvent } from "../core/event.ts";
import type { Job } from "../core/job.ts";
import type { ParentNow } from "../store/store.ts";
import type { EngineParts } from "./engine.ts";
import { inNameOf } from "./pass-on.ts";
import { eachEvent } from "./read-history.ts";

/** The run that asks. */
export interface AskingRun {
  readonly jobId: string;
  readonly attempt: number;
}

/** Children at a time. */
const AT_ONCE = 4;

/** Gives a new start to those of these children, ended badly, that have a right to one; they may have had it from somebody
 *  else meanwhile. False: the parent is in its first chapter, and none has. */
export async function runAgain(
  parts: EngineParts,
  run: AskingRun,
  children: readonly Pick<Job, "id" | "chapter">[],
): Promise<boolean> {
  if (children.length === 0) return false;
  const [parent] = await parts.store.facts([run.jobId]);
  if (parent == null || parent.chapter === 1) return false;
  const begin = (await endingOf(parts, parent.id))?.begunAt ?? 0;
  for (let i = 0; i < children.length; i += AT_ONCE) {
    const some = children.slice(i, i + AT_ONCE);
    await Promise.all(some.map((child) => startAnew(parts, { run, begin }, child)));
  }
  return true;
}

interface Asking {
  readonly run: AskingRun;
  /** Where in the sequence of all events the parent's chapter began. */
  readonly begin: number;
}

/** Under the parent's lock: one that is cancelled, or has ended, starts nothing that nobody would cancel. */
async function startAnew(
  parts: EngineParts,
  { run, begin }: Asking,
  { id, chapter }: Pick<Job, "id" | "chapter">,
): Promise<void> {
  const ending = await endingOf(parts, id);
  if (ending === null || (!wasCancelledBy(ending, run.jobId) && ending.endedAt > begin)) return;
  const { store, clock, hub } = parts;
  const now = clock.now();
  const command = { kind: "redrive", chapter, by: inNameOf(run.jobId) } as const;
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

function isAsking(parent: ParentNow | null, { attempt }: AskingRun): boolean {
  return parent?.state === "running" && parent.attempt === attempt && parent.cancelRequestedAt === null;
}

/** What the events of a job tell of its end. */
interface Ending {
  readonly cancel: JobEvent | null;
  /** Where the chapter began, in the sequence of all events. */
  readonly begunAt: number;
  readonly endedAt: number;
}

async function endingOf({ store }: EngineParts, id: string): Promise<Ending | null> {
  const [job] = await store.facts([id]);
  if (job == null) return null;
  let ending: Ending = { cancel: null, begunAt: 0, endedAt: 0 };
  for await (const event of eachEvent(store, job)) {
    const { name, seq } = event;
    if (name === "job.cancelled" || name === "job.cancel_requested") ending = { ...ending, cancel: event };
    if (name === "job.redriven" || name === "job.submitted") ending = { ...ending, begunAt: seq };
    if (name !== "job.discarded") ending = { ...ending, endedAt: seq };
  }
  return ending;
}

/** Whether its last cancel came with that of its parent. That one was taken back, or nobody would ask. */
function wasCancelledBy({ cancel, begunAt }: Ending, parentId: string): boolean {
  if (cancel === null || cancel.seq < begunAt) return false;
  return (cancel.data as { readonly by?: string | null }).by === inNameOf(parentId);
}
