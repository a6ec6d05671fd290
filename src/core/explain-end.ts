/** What an operator can do about a job that failed for good: the way on depends on why it ended. */
import type { Decided } from "./explain-decision.ts";
import type { FailReason } from "./job.ts";
import { quoted } from "./show.ts";

/** Long sentences on purpose: they are read once, at night, by someone who has never seen this reason before. */
export function adviceOn(
  reason: FailReason,
  { event }: Decided,
  { kind, queue }: { readonly kind: string; readonly queue: string },
): string {
  const { charge, detail } = event.data.decision;
  switch (reason) {
    case "exhausted": {
      const more = charge == null || charge.to === "maxAttempts" ? "maxAttempts" : `maxRetries of ${charge.to}`;
      return `Fix the cause and redrive it: that opens a new chapter with a fresh budget. To grant later jobs more runs, raise ${more}.`;
    }
    case "lost": {
      const more = charge == null || charge.to === "maxAttempts" ? "maxAttempts" : "workerLost.maxRetries";
      return `Look on the workers named above for what ended them (memory, preemption, a deploy, the network), then redrive it. To grant later jobs more runs, raise ${more}.`;
    }
    case "rejected":
      return "Correct what the failure names, then redrive it. If such a failure ought to be retried, change the policy: for this job with the redrive, for later ones where they are submitted.";
    case "invalid":
      return "A redrive would fail the same way: submit it again with a correct input, and discard this one.";
    case "timeout":
      return "Find out what made it slow, then redrive it. If it needs longer, redrive it with a longer timeout.";
    case "budget":
      if (detail === "elapsed")
        return "Fix the cause and redrive it: the time its retries may take (maxElapsed) starts anew.";
      if (detail === "reported")
        return "Raise the budget that the task itself goes by, then redrive it, or submit it again with a larger one.";
      return "What was used counts over all redrives, and a budget covers all jobs below the one that has it. To grant more, redrive it with --budget, or submit it again with a larger budget.";
    case "unschedulable":
      if (detail === "deadline") {
        return "The deadline stays passed, so a plain redrive would end the same way: redrive it with a later deadline, or discard it.";
      }
      return `Start a worker that takes kind ${quoted(kind)} from queue ${quoted(queue)} with the labels the job asks for (if any), or resume the queue if it is paused; then redrive it.`;
    case "poison":
      return "It probably brings its workers down. Look at their logs and memory first: a redrive exposes workers to it again.";
  }
}
