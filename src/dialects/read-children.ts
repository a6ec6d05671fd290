/** The children of a job for a view, bounded: a job may have ten thousand, and each may be large. */
import type { JobState } from "../core/job.ts";
import type { JobInfo } from "../core/views.ts";
import type { ViewChildren } from "./dialect.ts";

/** More would fill the screen twice. */
export const VIEWED_CHILDREN = 100;

/** A page of children, oldest first; `next` is null after the last. */
export type FindChildren = (filter: {
  readonly limit: number;
  readonly state?: readonly JobState[];
  readonly cursor?: string;
}) => Promise<{ readonly jobs: readonly JobInfo[]; readonly next: string | null }>;

const OTHERS: readonly JobState[] = ["queued", "running", "blocked", "cancelled", "succeeded"];

/** All of them, oldest first. Where they are too many, those that failed come first, and then the oldest of the others. */
export async function readChildren(find: FindChildren): Promise<ViewChildren> {
  const all = await upTo(find, VIEWED_CHILDREN);
  if (!all.more) return all;
  const failed = await upTo(find, VIEWED_CHILDREN, ["failed"]);
  const room = VIEWED_CHILDREN - failed.jobs.length;
  const others = room === 0 ? [] : (await upTo(find, room, OTHERS)).jobs;
  return { jobs: [...failed.jobs, ...others], more: true };
}

/** A page may be short though others follow: where they are heavy, or few of many fit. */
async function upTo(find: FindChildren, most: number, state?: readonly JobState[]): Promise<ViewChildren> {
  const jobs: JobInfo[] = [];
  let cursor: string | null = null;
  do {
    const page: Awaited<ReturnType<FindChildren>> = await find({
      limit: most - jobs.length,
      ...(state === undefined ? {} : { state }),
      ...(cursor === null ? {} : { cursor }),
    });
    jobs.push(...page.jobs);
    cursor = page.next;
  } while (cursor !== null && jobs.length < most);
  return { jobs, more: cursor !== null };
}
