/** A parent that was given a new start asks for its children again. Those that ended badly and were last started for an
 *  earlier chapter of it get a new start too; what has succeeded is not done twice, and what failed in this chapter is for the
 *  parent to judge. Chapters are compared, not times: clocks may step back, and a child that was cancelled with its parent may
 *  take its time to end. */
import { PerdureError } from "../core/errors.ts";
import type { JobEvent } from "../core/event.ts";
import { command } from "./command.ts";
import type { EngineParts } from "./engine.ts";

/** Whether the child was redriven. */
export async function runAgain(parts: EngineParts, parentId: string, childId: string): Promise<boolean> {
  const [[parent], history] = await Promise.all([parts.store.jobs([parentId]), parts.store.history(childId)]);
  if (parent == null || history === null) return false;
  if (startedFor(history.events as readonly JobEvent[], parentId) >= parent.chapter) return false;
  try {
    return (await command(parts, childId, { kind: "redrive", by: asker(parentId, parent.chapter) })).changed;
  } catch (error) {
    // Somebody else was first, or it is gone.
    if (error instanceof PerdureError && ["wrong_state", "job_not_found"].includes(error.code)) return false;
    throw error;
  }
}

function asker(parentId: string, chapter: number): string {
  return `parent:${parentId}/${chapter}`;
}

/** The chapter of the parent for which the child was submitted, or last redriven by it. */
function startedFor(events: readonly JobEvent[], parentId: string): number {
  let chapter = 1;
  for (const { name, data } of events) {
    if (name === "job.submitted") chapter = data.parentChapter ?? 1;
    if (name !== "job.redriven" || !data.by?.startsWith(`parent:${parentId}/`)) continue;
    chapter = Math.max(chapter, Number(data.by.split("/").at(-1)));
  }
  return chapter;
}
