/** `resubmit`: a job like another, with another prompt, model, command or role, over an engine in this process or a server. */
import type { JobHandle, Perdure } from "../../core/face.ts";
import { isTerminal } from "../../core/job.ts";
import { type AgentChange, changed } from "./change.ts";

/** How the new job is submitted.
 *  @example
 *  const options: ResubmitOptions = { key: "summary-2" }; */
export interface ResubmitOptions {
  /** As of a submit: the same key again finds the job that was made. */
  readonly key?: string;
  /** `ClusterAgentRole` documents in which another role is searched, before the setting `agent.roles`. */
  readonly roles?: readonly unknown[];
}

/** The new job, and the parent that it could not be given.
 *  @example
 *  const { job: again, formerParent }: Resubmitted = await resubmit(perdure, job.id); */
export interface Resubmitted {
  readonly job: JobHandle<unknown>;
  /** The parent of the one before, if it has ended since: the new job has none then. */
  readonly formerParent: string | null;
}

/** Submits a job like another, with another prompt, model, command or role. The new one has the id of the other in its annotation
 *  `resubmit-of`, and `jobs({ tag: "resubmit-of=" + id })` finds it.
 *  @example
 *  const { job: again } = await resubmit(perdure, job.id, { prompt: "Shorter, please." }); */
export async function resubmit(
  perdure: Pick<Perdure, "job" | "submit" | "dialectSettings">,
  id: string,
  change: AgentChange = {},
  { key, roles: documents = [] }: ResubmitOptions = {},
): Promise<Resubmitted> {
  const job = await (await perdure.job(id)).get();
  const roles = change.role === undefined ? null : { documents, settings: await perdure.dialectSettings() };
  const { task, input, options = {} } = changed(job, change, roles);
  const { parent, ...others } = options;
  const hasParent = parent !== undefined && !isTerminal((await (await perdure.job(parent)).get()).state);
  const wanted = { ...others, ...(hasParent ? { parent } : {}), ...(key === undefined ? {} : { key }) };
  return {
    job: await perdure.submit(task, input, wanted),
    formerParent: parent === undefined || hasParent ? null : parent,
  };
}
