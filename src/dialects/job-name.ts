/** What a job is called in the document that it came from: a name there is no field for in a job of ours. */
import type { JobInfo } from "../core/views.ts";
import { ANNOTATION } from "./agent-task/words.ts";
import { ACTION } from "./attune/words.ts";
import { FLUSTER_NAME } from "./fluster/view.ts";
import { STEP } from "./noetl/node.ts";

const NAMES = [ANNOTATION.name, FLUSTER_NAME, ACTION, STEP];

/** Null for a job of no document, or of one that gives no name. */
export function documentName({ annotations }: Pick<JobInfo, "annotations">): string | null {
  const name = NAMES.find((each) => annotations !== undefined && Object.hasOwn(annotations, each));
  return name === undefined ? null : (annotations[name] as string);
}
