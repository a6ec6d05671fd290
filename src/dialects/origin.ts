/** Where a job came from that `resubmit` made: the id of the job before stands in an annotation, to be shown, and in a tag, by which
 *  lists find it with an index. */
import type { JobInfo } from "../core/views.ts";

export const RESUBMIT_OF = "resubmit-of";
/** What a job may have. */
const MAX_TAGS = 20;

/** Null of a job that was not made from another one. */
export function originOf({ annotations }: Pick<JobInfo, "annotations">): string | null {
  return Object.hasOwn(annotations, RESUBMIT_OF) ? (annotations[RESUBMIT_OF] as string) : null;
}

export function originTag(id: string): string {
  return `${RESUBMIT_OF}=${id}`;
}

export function isOriginTag(tag: string): boolean {
  return tag.startsWith(`${RESUBMIT_OF}=`);
}

/** The tags of a job that is made from another. One with no room for another tag is not found by it. */
export function tagsFrom({ id, tags }: Pick<JobInfo, "id" | "tags">): string[] {
  const own = tags.filter((tag) => !isOriginTag(tag));
  return own.length < MAX_TAGS ? [...own, originTag(id)] : own;
}
