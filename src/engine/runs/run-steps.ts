/** Commands that a run gives to its steps: a cancel when it must end, a redrive of runs below. They are written before the run's
 *  own decision, so that a crash in between repeats them, which changes nothing. */
import { type Command, decideCommand } from "../../core/job/command.ts";
import { isTerminal } from "../../core/job/job.ts";
import { RUN_KIND } from "../../core/playbook/playbook.ts";
import type { RunRow } from "../../core/run/run.ts";
import type { AmendAnswer } from "../../store/store.ts";
import { endOrphans } from "../lost-attempts.ts";
import type { EngineParts } from "../parts.ts";
import { tidyOutputs } from "../settle.ts";

/** Steps that one decision cancels; the run sends itself a message while there are more. */
const STOPPED = 200;

/** Cancels open steps, of those that exist in the state that was decided on: another engine may have decided meanwhile, and
 *  started steps of `finally`. Returns the runs below among them, which react to it. */
export async function stopSteps(parts: EngineParts, { id: run, made }: Pick<RunRow, "id" | "made">): Promise<string[]> {
  const ids = await parts.store.runs.openJobs(run, STOPPED, made);
  const applied = await command(parts, ids, { kind: "cancel", by: actor(run) });
  for (const { job } of applied) {
    const { id, state, worker, attempt } = job;
    if (state === "running" && worker !== null) parts.hub.cancelAsked(worker, id, attempt);
    if (!isTerminal(state)) continue;
    parts.hub.ended(id);
    await tidyOutputs(parts, id);
  }
  const jobs = applied.map(({ job }) => job);
  await endOrphans(parts, jobs);
  // What ended at once is a message to the run itself.
  return [run, ...jobs.flatMap(({ id, kind }) => (kind === RUN_KIND ? [id] : []))];
}

/** Redrives runs below, as far as they have failed or were cancelled. Returns them. */
export async function redriveBelow(
  parts: EngineParts,
  run: string,
  ids: readonly string[],
): Promise<readonly string[]> {
  await command(parts, ids, { kind: "redrive", asRun: run, by: actor(run) });
  return ids;
}

type Applied = Extract<AmendAnswer, { readonly job: unknown }>;

async function command(parts: EngineParts, ids: readonly string[], wanted: Command): Promise<Applied[]> {
  if (ids.length === 0) return [];
  const now = parts.clock.now();
  const commands = ids.map((jobId) => ({ jobId, command: wanted }));
  const answers = await parts.store.amend(commands, now, (job, asked, _parent, budgets) =>
    decideCommand(job, asked, now, budgets),
  );
  parts.hub.written.fire();
  return answers.flatMap((answer) => (answer.status === "applied" ? [answer as Applied] : []));
}

/** In the events of its steps. */
function actor(run: string): string {
  return `run:${run}`;
}
