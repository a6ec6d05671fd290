/** How a run stops going forward: the cause is recorded, and open steps are cancelled if the cause requires it. */
import type { Failure } from "../decision/failure.ts";
import type { FailReason } from "../job/job.ts";
import type { RunEndCause } from "./run.ts";
import { ADVANCE_LIMITS, type RunTurn } from "./turn.ts";

const MAX_WHY = 300;

/** In one line, for events. */
export function whyText(failure: Failure | null, reason: FailReason | null): string | null {
  const text = [reason, failure?.message].filter((part) => part != null && part !== "").join(": ");
  return text === "" ? null : cutWhy(text);
}

export function cutWhy(text: string): string {
  const line = text.replaceAll(/\s+/g, " ").trim();
  return line.length <= MAX_WHY ? line : `${line.slice(0, MAX_WHY - 1)}…`;
}

/** Nothing new starts from here on. */
export function failRun(turn: RunTurn, cause: RunEndCause): void {
  turn.emit({ do: "fail", cause });
  if (turn.draft.phase !== "stopping") turn.emit({ do: "phase", phase: "stopping" });
  if (cause.cancel) askToStop(turn, turn.openJobs);
}

/** Asks for at most 200 open steps to be cancelled before this advance is written; a message sees to the rest. Jobs that this
 *  advance makes do not exist by then. `left`: how many are still to be asked. */
export function askToStop(turn: RunTurn, left: number): void {
  if (left <= 0) return;
  const isNow = turn.jobs.length === 0;
  if (isNow) turn.stop = true;
  const rest = isNow ? left - ADVANCE_LIMITS.stops : left;
  const asked = turn.send.findIndex(({ kind }) => kind === "stop");
  if (asked >= 0) turn.send.splice(asked, 1);
  if (rest > 0) turn.send.push({ kind: "stop", body: { left: rest } });
}
