/** What a job is called as an AgentTask, whatever it came from: as its manifest, else by the name or the key that it was given. */
import { givenKey } from "../../core/child.ts";
import { jobName, madeName } from "../../core/job-name.ts";
import type { JobInfo } from "../../core/views.ts";
import { ANNOTATION } from "./words.ts";

export function taskName(job: JobInfo): string {
  const given = job.name === madeName(job) ? null : job.name;
  return annotation(job, ANNOTATION.name) ?? given ?? givenKey(job.parentId, job.key) ?? jobName(job);
}

export function annotation({ annotations }: Pick<JobInfo, "annotations">, name: string): string | null {
  return annotations !== undefined && Object.hasOwn(annotations, name) ? (annotations[name] as string) : null;
}
