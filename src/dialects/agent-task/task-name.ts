/** What a job is called as an AgentTask, whatever it came from. */
import { givenKey } from "../../core/child.ts";
import type { JobInfo } from "../../core/views.ts";
import { ANNOTATION } from "./words.ts";

export function taskName(job: JobInfo): string {
  return annotation(job, ANNOTATION.name) ?? givenKey(job.parentId, job.key) ?? job.kind;
}

export function annotation({ annotations }: Pick<JobInfo, "annotations">, name: string): string | null {
  return annotations !== undefined && Object.hasOwn(annotations, name) ? (annotations[name] as string) : null;
}
