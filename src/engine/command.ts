/** Operators' commands, the second way in which a job changes. Instants that people pass are wall clock time and are
 *  converted to the engine's clock, which may be ahead of it. */

import { PerdureError } from "../core/errors.ts";
import { type Command, decideCommand } from "../core/job/command.ts";
import { isTerminal, type Job } from "../core/job/job.ts";
import { RUN_KIND } from "../core/playbook/playbook.ts";
import type { Clock } from "../lib/clock.ts";
import type { AmendAnswer, JobRow } from "../store/store.ts";
import { endOrphans } from "./lost-attempts.ts";
import { observed } from "./observer.ts";
import type { EngineParts } from "./parts.ts";
import { tidyOutputs } from "./settle.ts";

// Instants in commands and submits (`runAt`, a deadline) are by the wall clock. The engine's clock may be ahead of it, after it
// was set back: they are moved by the difference, so that they come when the wall clock shows them.

/** The last instant that a Date can hold. */
const MAX_INSTANT = 8.64e15;

export function toEngineTime(clock: Pick<Clock, "fromWall">, at: number): number {
  return clock.fromWall === undefined ? at : Math.min(clock.fromWall(at), MAX_INSTANT);
}

function commandInEngineTime(clock: Pick<Clock, "fromWall">, command: Command): Command {
  if (command.kind === "reschedule") return { ...command, runAt: toEngineTime(clock, command.runAt) };
  if (command.kind !== "redrive" || command.changes?.deadlineAt === undefined) return command;
  return { ...command, changes: { ...command.changes, deadlineAt: toEngineTime(clock, command.changes.deadlineAt) } };
}

export interface CommandAnswer {
  /** False if the job was in the wanted state already. */
  readonly changed: boolean;
  readonly message: string | null;
  readonly job: JobRow;
}

export async function command(parts: EngineParts, jobId: string, given: Command): Promise<CommandAnswer> {
  const { store, clock, hub } = parts;
  const now = clock.now();
  const wanted = commandInEngineTime(clock, given);
  const decide: Parameters<typeof store.amend>[2] = (job, asked, _parent, budgets) =>
    decideCommand(job, asked, now, budgets);
  const amend = () => store.amend([{ jobId, command: wanted }], now, decide);
  const [answer] = (await observed(parts, "command", 1, amend)) as [AmendAnswer];
  switch (answer.status) {
    case "unknown_job":
      throw jobNotFound(jobId);
    case "refused_command":
      throw new PerdureError(answer.isBudget ? "budget_spent" : "wrong_state", `${jobId}: ${answer.message}`);
    case "refused":
      throw new PerdureError(answer.code, answer.message);
    case "noop":
      if (wanted.kind === "cancel" && (await endOrphans(parts, [answer.job])).has(jobId)) return ended(parts, jobId);
      return { changed: false, message: answer.message, job: await shown(parts, answer.job) };
    case "applied": {
      const { job } = answer;
      if (job.state === "queued") hub.ready.fire();
      if (isTerminal(job.state)) {
        hub.ended(jobId);
        await tidyOutputs(parts, jobId);
      }
      if (job.state === "running" && job.worker !== null) hub.cancelAsked(job.worker, jobId, job.attempt);
      if (wanted.kind === "cancel") parts.childSignals.cancelled();
      if (job.parentId !== null && isTerminal(job.state)) parts.childSignals.mayContinue([job.parentId]);
      if (job.kind === RUN_KIND) parts.runSignals.mayGoOn([jobId]);
      if (job.runId !== null && isTerminal(job.state)) parts.runSignals.mayGoOn([job.runId]);
      hub.written.fire();
      if (wanted.kind === "cancel" && (await endOrphans(parts, [job])).has(jobId)) return ended(parts, jobId);
      return { changed: true, message: null, job: await shown(parts, job) };
    }
  }
}

/** As it is now: the last change is not of the command but of the end of its attempt. */
async function ended({ store }: EngineParts, jobId: string): Promise<CommandAnswer> {
  const [job] = await store.jobs([jobId]);
  if (job == null) throw jobNotFound(jobId);
  return { changed: true, message: null, job };
}

/** As the command left it, with its payload, which never changes and may be read afterwards. A result that exists by then is
 *  of a later attempt. */
async function shown({ store }: EngineParts, job: Job): Promise<JobRow> {
  const [row] = await store.jobs([job.id]);
  if (row == null) throw jobNotFound(job.id);
  return { ...row, ...job, result: job.state === "succeeded" ? row.result : null };
}

export function jobNotFound(jobId: string): PerdureError {
  return new PerdureError("job_not_found", `job ${jobId} does not exist, or it was pruned`);
}
