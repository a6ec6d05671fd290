/** The children of an AgentTask in its own status: why one failed is read there, without asking for each. */
import { failureText } from "../../core/failure-text.ts";
import type { JobInfo } from "../../core/views.ts";
import type { ViewParts } from "../dialect.ts";
import { type AgentPhase, agentPhase } from "./status.ts";
import { taskName } from "./task-name.ts";

export interface AgentChild {
  readonly name: string;
  readonly id: string;
  readonly phase: AgentPhase;
  /** Why it failed, or why it is retried. */
  readonly reason?: string;
}

export interface AgentChildren {
  /** Up to 100, those that failed first. */
  readonly children?: readonly AgentChild[];
  /** Set where it has more than those. */
  readonly moreChildren?: true;
}

export function agentChildren({ children: found, now }: Pick<ViewParts, "children" | "now">): AgentChildren {
  if (found === undefined || found.jobs.length === 0) return {};
  const failed = found.jobs.filter(({ state }) => state === "failed");
  const others = found.jobs.filter(({ state }) => state !== "failed");
  return {
    children: [...failed, ...others].map((job) => agentChild(job, now)),
    ...(found.more ? { moreChildren: true } : {}),
  };
}

function agentChild(job: JobInfo, now: number | undefined): AgentChild {
  const phase = phaseOf(job, now);
  const isBad = job.state === "failed" || isRetried(job);
  const reason = isBad ? reasonOf(job) : null;
  return { name: taskName(job), id: job.id, phase, ...(reason === null ? {} : { reason }) };
}

function reasonOf({ failure, reason }: JobInfo): string | null {
  return failure == null ? (reason === "lost" ? "worker lost" : reason) : failureText(failure);
}

/** As `agentPhase`, from the row alone: a failure of a queued job is that of the attempt before its retry, and a budget of
 *  time is the one that no failure and no budget of tokens or money stands for. */
function phaseOf(job: JobInfo, now = job.submittedAt): AgentPhase {
  if (isRetried(job)) return now < job.runAt ? "Retrying" : "Pending";
  const isTime = job.reason === "budget" && job.budgets.length === 0 && job.failure?.class !== "budget";
  return isTime ? "Failed" : agentPhase(job, [], now);
}

function isRetried({ state, failure }: JobInfo): boolean {
  return state === "queued" && (failure ?? null) !== null;
}
