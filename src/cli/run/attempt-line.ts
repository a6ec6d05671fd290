/** A line for a person about each run of the command, as it ends. */
import { showMs } from "../../core/duration.ts";
import type { Explanation } from "../../core/explain.ts";

export type Story = Explanation["attempts"][number];

/** `run 2, 2 of 5 charged: exit code 7, retrying in 2.0 s because …`; null while it runs. */
export function attemptLine(story: Story): string | null {
  if (story.endedAt === null) return null;
  const { charge } = story;
  const charged = charge === null ? "" : `, ${charge.used} of ${charge.limit} charged${budget(charge.to)}`;
  // It has not ended badly, and goes on later: nothing more is to be said.
  if (story.verdict === "block") return `run ${story.attempt}: waiting for its children`;
  return `run ${story.attempt}${charged}: ${whatHappened(story)}, ${whatFollows(story)}`;
}

/** Which budget, where it is not the usual one. */
function budget(to: string): string {
  return to === "maxAttempts" ? "" : ` to ${to}`;
}

function whatHappened({ outcome, failure, startedAt, endedAt }: Story): string {
  switch (outcome) {
    case "completed":
      return `succeeded after ${showMs((endedAt as number) - startedAt)}`;
    case "lost":
      return "lost: the process that ran it is gone";
    case "interrupted":
      return "interrupted";
    case "released":
      return "handed back";
    default:
      return failure?.message ?? outcome;
  }
}

function whatFollows({ verdict, delay, because, outcome }: Story): string {
  if (verdict === "retry" && (outcome === "interrupted" || outcome === "released")) return "nothing is charged";
  switch (verdict) {
    case "succeed":
      return "done";
    case "cancel":
      return "cancelled";
    case "retry":
      return `retrying ${delay === null || delay.delayMs === 0 ? "now" : `in ${showDelay(delay.delayMs)}`} because ${because}`;
    default:
      return `giving up because ${because}`;
  }
}

/** With a decimal from a second on, so that a column of them can be compared. */
function showDelay(ms: number): string {
  return ms >= 1_000 && ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : showMs(ms);
}
