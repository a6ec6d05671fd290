/** A parent that was given a new start asks for its children again. Those that had ended badly before that get a new start
 *  too; what has succeeded is not done twice, and what failed since is for the parent to judge. */
import { PerdureError } from "../core/errors.ts";
import { command } from "./command.ts";
import type { EngineParts } from "./engine.ts";

/** Whether the child was redriven. */
export async function runAgain(parts: EngineParts, parentId: string, childId: string): Promise<boolean> {
  const [parent, child] = await parts.store.jobs([parentId, childId]);
  if (parent?.firstStartedAt == null || child?.finishedAt == null) return false;
  if (child.finishedAt >= parent.firstStartedAt) return false;
  try {
    return (await command(parts, childId, { kind: "redrive", by: `parent:${parentId}` })).changed;
  } catch (error) {
    // Somebody else was first, or it is gone.
    if (error instanceof PerdureError && ["wrong_state", "job_not_found"].includes(error.code)) return false;
    throw error;
  }
}
