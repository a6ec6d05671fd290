/** The commands of operators, and what each changes. Pure, and separate from `decide`. A command that has nothing to change is
 *  a no-op and not an error, so that it can be repeated safely. */
import {
  type BudgetNow,
  grantTrouble,
  NO_BUDGETS,
  noRedrive,
  redrivenBudgets,
  shortageText,
} from "../decision/budget.ts";
import { RUN_KIND } from "../playbook/playbook.ts";
import type { RunRedrive } from "../run/run.ts";
import { EVENT_FORMAT, type JobEventBody } from "./event.ts";
import { evolve } from "./fold.ts";
import { isTerminal, type Job } from "./job.ts";
import { happened, type Transition } from "./lifecycle.ts";
import { changedTerms, type JobTerms, type RedriveTerms, redrivenTerms } from "./redrive.ts";

/** A command on a job.
 *  @example
 *  const command: Command = { kind: "cancel", by: "ada" }; */
export type Command =
  | { readonly kind: "cancel" | "retry" | "discard"; readonly by?: string | null }
  /** With a chapter, only while the job is in it: a job that was redriven meanwhile does not change. */
  | {
      readonly kind: "redrive";
      readonly chapter?: number;
      readonly changes?: RedriveTerms;
      /** Of a run: what to repeat. */
      readonly run?: RunRedrive;
      /** The run that redrives a step of it: nobody else may. */
      readonly asRun?: string;
      readonly by?: string | null;
    }
  | { readonly kind: "reschedule"; readonly runAt: number; readonly by?: string | null }
  /** The jobs it waited for have ended. Only the engine sends it; `attempt` is the attempt that began to wait. */
  | { readonly kind: "unblock"; readonly attempt: number; readonly runAt: number; readonly by?: string | null };

/** The result of a command: a change, nothing, or a refusal.
 *  @example
 *  const decision: CommandDecision = decideCommand(running, { kind: "cancel" }, Date.now()); */
export type CommandDecision =
  /** `terms` are the new ones of the job, `budgets` those that cover it with their new limits. */
  | ({ readonly kind: "apply"; readonly terms?: JobTerms; readonly budgets?: readonly BudgetNow[] } & Transition)
  | { readonly kind: "noop"; readonly message: string }
  /** `isBudget`: a budget that covers the job has nothing left. */
  | { readonly kind: "refuse"; readonly message: string; readonly isBudget?: boolean };

/** Decides what a command changes. Pure. `budgets` are those that cover the job, the nearest first.
 *  @example
 *  const decision = decideCommand(running, { kind: "cancel" }, Date.now());
 *  if (decision.kind === "refuse") console.error(decision.message); */
export function decideCommand(
  job: Job,
  command: Command,
  now: number,
  budgets: readonly BudgetNow[] = NO_BUDGETS,
): CommandDecision {
  const by = command.by ?? null;
  switch (command.kind) {
    case "cancel":
      if (isTerminal(job.state)) return noop(`the job has already ${past(job)}`);
      if (job.state !== "running" && !isRun(job)) {
        return apply(job, { name: "job.cancelled", data: { v: EVENT_FORMAT, by } }, now);
      }
      // A second cancel of a run ends its handlers too.
      if (job.cancelRequestedAt !== null && !isRun(job)) return noop("a cancel was already requested");
      return apply(job, { name: "job.cancel_requested", data: { v: EVENT_FORMAT, by } }, now);
    case "retry":
      if (job.state === "failed" || job.state === "cancelled") {
        return ofStep(job, "redrive") ?? redrive(job, {}, by, { now, budgets });
      }
      if (job.state !== "queued") return refuse(job, "retry", "queued, failed or cancelled");
      return job.runAt <= now ? noop("the job is already due") : reschedule(job, now, by, now);
    case "reschedule":
      if (job.state !== "queued") return refuse(job, "reschedule", "queued");
      return command.runAt === job.runAt
        ? noop("the job is already due at that time")
        : reschedule(job, command.runAt, by, now);
    case "unblock":
      if (job.state !== "blocked" || job.attempt !== command.attempt) return noop("the job is not waiting");
      return apply(job, { name: "job.unblocked", data: requeued(job, command.runAt, by) }, now);
    case "redrive":
      if ((command.chapter ?? job.chapter) !== job.chapter) return noop("the job was redriven meanwhile");
      if (job.state !== "failed" && job.state !== "cancelled") return refuse(job, "redrive", "failed or cancelled");
      if (job.runId !== null && command.asRun !== job.runId) return ofStep(job, "redrive") as CommandDecision;
      return redrive(job, command.changes ?? {}, by, { now, budgets }, command.run);
    case "discard":
      if (job.state !== "failed") return refuse(job, "discard", "failed");
      if (job.runId !== null) return ofStep(job, "discard") as CommandDecision;
      if (job.discardedAt !== null) return noop("the job was already discarded");
      return apply(job, { name: "job.discarded", data: { v: EVENT_FORMAT, by } }, now);
  }
}

/** A run ends when its steps have ended, which the run itself sees to. It has no attempts and is never queued: an earlier version did
 *  not reserve the kind. */
function isRun({ kind, state, attempt }: Job): boolean {
  return kind === RUN_KIND && attempt === 0 && state !== "queued";
}

/** What a run would not see must not change its steps. */
function ofStep({ runId }: Job, verb: "redrive" | "discard"): CommandDecision | null {
  if (runId === null) return null;
  return {
    kind: "refuse",
    message: `cannot ${verb} a step of a run: it belongs to ${runId}; use perdure ${verb} ${runId}`,
  };
}

function reschedule(job: Job, runAt: number, by: string | null, now: number): CommandDecision {
  return apply(job, { name: "job.rescheduled", data: requeued(job, runAt, by) }, now);
}

function redrive(
  job: Job,
  changes: RedriveTerms,
  by: string | null,
  { now, budgets: before }: { readonly now: number; readonly budgets: readonly BudgetNow[] },
  ofRun: RunRedrive = {},
): CommandDecision {
  const terms = redrivenTerms(job, changes);
  if (typeof terms === "string")
    return { kind: "refuse", message: `cannot redrive the job with these changes: ${terms}` };
  const budgets = redrivenBudgets(job, terms.policy, before, changes.budget);
  const trouble = changes.budget === undefined ? null : grantTrouble(changes.budget, budgets);
  if (trouble !== null) return { kind: "refuse", message: `cannot grant more budget: ${trouble}` };
  const short = noRedrive(budgets);
  if (short !== null) {
    const more = changes.budget === undefined ? "redrive with --budget (option `budget`) to grant more" : "grant more";
    return { kind: "refuse", isBudget: true, message: `cannot redrive: ${shortageText(short)}; ${more}` };
  }
  const limits = changes.budget === undefined && terms.policy === job.policy ? {} : { budgets };
  const granted = changes.budget === undefined ? {} : { budget: changes.budget };
  const run = isRun(job) ? { run: ofRun } : {};
  const changed = changedTerms(job, terms);
  if (changed === null) {
    const data = { ...requeued(job, now, by), ...granted, ...run };
    return { ...apply(job, { name: "job.redriven", data }, now), ...limits };
  }
  const next = { ...job, ...terms };
  const data = { ...requeued(next, now, by), changed, ...granted, ...run };
  return { ...apply(next, { name: "job.redriven", data }, now), terms, ...limits };
}

function requeued({ expireInMs }: Job, runAt: number, by: string | null) {
  return { v: EVENT_FORMAT, by, runAt, expiresAt: expireInMs === null ? null : runAt + expireInMs };
}

function apply(job: Job, event: JobEventBody, now: number): CommandDecision & { readonly kind: "apply" } {
  return { kind: "apply", event, next: evolve(job, happened(event, now)) };
}

function noop(message: string): CommandDecision {
  return { kind: "noop", message };
}

function refuse(job: Job, verb: string, wanted: string): CommandDecision {
  const what = isRun(job) ? `run that is ${isTerminal(job.state) ? job.state : "running"}` : `job that is ${job.state}`;
  return { kind: "refuse", message: `cannot ${verb} a ${what}; it must be ${wanted}` };
}

function past(job: Job): string {
  return job.state === "cancelled" ? "been cancelled" : job.state;
}
