/** Reads what an explanation and a graph of a run need: its events, its steps, and why open steps are not running. */
import { MAX_STEPS_PAGE, type StepInfo } from "../../core/api/runs.ts";
import type { JobEvent } from "../../core/job/event.ts";
import type { Job } from "../../core/job/job.ts";
import type { Playbook } from "../../core/playbook/playbook.ts";
import { explainRun, type RunExplanation } from "../../core/run/explain-run.ts";
import { isOpen, type RunRow, STEP_STATES } from "../../core/run/run.ts";
import type { JobRow, Store } from "../../store/store.ts";
import type { EngineParts } from "../parts.ts";
import type { Playbooks } from "../playbooks/playbooks.ts";
import { eachEvent } from "../read-job.ts";
import type { RunTrouble } from "./run-service.ts";
import { runInfo, stepInfos } from "./run-views.ts";

/** Steps without items of loops. */
const MAX_SHOWN = 20_000;
/** Items of loops that failed, or are open. */
const MAX_ITEMS = 100;
/** Open steps whose jobs are explained. */
const MAX_WAITS = 20;
const ITEM_STATES = STEP_STATES.filter((state) => isOpen(state) || state === "failed" || state === "handled");

type Reads = Pick<Store, "runs" | "facts" | "children">;

/** Items of loops are left out. */
export async function stepsOfRun(store: Reads, playbook: Playbook, run: string): Promise<StepInfo[]> {
  const steps: StepInfo[] = [];
  for (let after = 0; steps.length < MAX_SHOWN; after = steps.at(-1)?.n ?? after) {
    const page = await stepInfos(store, playbook, run, { after, limit: MAX_STEPS_PAGE, items: false });
    steps.push(...page);
    if (page.length < MAX_STEPS_PAGE) break;
  }
  return steps;
}

/** What its advances decided. */
export async function eventsOfRun(
  store: Pick<Store, "events">,
  job: Pick<Job, "id" | "revision">,
): Promise<JobEvent[]> {
  const events: JobEvent[] = [];
  for await (const event of eachEvent(store, job)) events.push(event);
  return events;
}

/** `whyNot`: why the job of an open step is not running, in a sentence. */
export async function runExplanation(
  { store, clock }: Pick<EngineParts, "store" | "clock">,
  playbooks: Playbooks,
  { job, run }: { readonly job: JobRow; readonly run: RunRow },
  whyNot: (jobId: string) => Promise<string>,
  trouble: RunTrouble | null,
): Promise<RunExplanation> {
  const playbook = await playbooks.load(run.playbook);
  const steps = await stepsOfRun(store, playbook, run.id);
  const isLooped = playbook.steps.some(({ loop }) => loop !== null);
  const page = { after: 0, limit: MAX_STEPS_PAGE, states: ITEM_STATES };
  const items = isLooped ? (await stepInfos(store, playbook, run.id, page)).filter(({ item }) => item !== null) : [];
  const all = [...steps, ...items.slice(0, MAX_ITEMS)].sort((a, b) => a.n - b.n);
  const waits: Record<number, string> = {};
  const open = all.filter(({ state, job }) => state === "open" && job !== null).slice(0, MAX_WAITS);
  for (const { n, job } of open) waits[n] = await whyNot(job as string);
  const explanation = explainRun({
    ...{ playbook, steps: all, waits, progress: run, now: clock.now() },
    run: await runInfo(store, playbooks, job, run),
    events: await eventsOfRun(store, job),
  });
  if (trouble === null) return explanation;
  const line = `It cannot advance because of a mistake in Perdure: ${trouble.message}. The next try follows within a minute.`;
  return { ...explanation, lines: [...explanation.lines, line], text: `${explanation.text}\n${line}` };
}
