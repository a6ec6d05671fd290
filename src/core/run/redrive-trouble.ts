/** Whether a redrive of a run can be done, checked before it is asked for: an advance refuses nothing. */
import { graphOf } from "../playbook/graph.ts";
import type { Playbook, PlaybookStep } from "../playbook/playbook.ts";
import { afterUses, headUses, itemUses } from "./part-names.ts";
import type { RunProgress, RunRedrive, StepRow } from "./run.ts";

export interface RedriveQuestion {
  readonly run: RunProgress;
  /** Those of `run.state.broken` and `run.state.unrouted`, at least. */
  readonly rows: readonly StepRow[];
  /** The definition of the run after the redrive. */
  readonly playbook: Playbook;
  /** The one until now, if it is another; else null. */
  readonly before: Playbook | null;
  readonly redrive: RunRedrive;
}

/** The reason why it cannot, as a sentence; null if it can. With another definition it is the error `playbook_incompatible`. */
export function redriveTrouble({ run, rows, playbook, before, redrive }: RedriveQuestion): string | null {
  const graph = graphOf(playbook);
  const { from = [], skip = [], set = [] } = redrive;
  const unknown = [...from, ...[...skip, ...set].map(({ step }) => step)].find(
    (name) => graph.indexOf(name) === undefined,
  );
  if (unknown !== undefined) return `the playbook has no step "${unknown}"`;

  const numbers = new Set([...run.state.broken, ...run.state.unrouted]);
  const names = (before ?? playbook).steps.map(({ name }) => name);
  const broken = rows.filter(({ n }) => run.state.broken.includes(n)).map(({ node }) => node);
  const pending = Object.keys(run.state.pending).map((step) => names[Number(step)] as string);
  const repeated = new Set<number>();
  for (const name of from) {
    const first = graph.indexOf(name) as number;
    repeated.add(first);
    for (const step of playbook.steps.keys()) if (graph.canReach(first, step)) repeated.add(step);
  }
  for (const { step } of skip) {
    if (repeated.has(graph.indexOf(step) as number)) return `step "${step}" cannot be taken as done and repeated`;
    if (!broken.includes(step) && !pending.includes(step)) {
      return `step "${step}" cannot be taken as done: it has not failed, and was not cancelled`;
    }
  }
  if (before === null) return null;

  const live = [...new Set([...rows.filter(({ n }) => numbers.has(n)).map(({ node }) => node), ...pending])];
  const lost = live.find((name) => graph.indexOf(name) === undefined);
  if (lost !== undefined) return `the definition has no step "${lost}", which the run must repeat`;
  const isNew = run.made === 0;
  const begins = [...live, ...from].map((name) => graph.indexOf(name) as number);
  if (isNew) begins.push(playbook.entry);
  const runs = new Set([...begins, ...playbook.onFailure, ...playbook.finally]);
  for (const step of playbook.steps.keys()) if (begins.some((each) => graph.canReach(each, step))) runs.add(step);
  const done = new Set(Object.keys(run.state.latest).map((step) => graph.indexOf(names[Number(step)] as string)));
  for (const index of runs) {
    const step = playbook.steps[index] as PlaybookStep;
    for (const uses of [headUses(step, playbook), itemUses(step, playbook), afterUses(step, playbook)]) {
      for (const other of uses.steps.keys()) {
        if (other === index || done.has(other) || runs.has(other)) continue;
        return `step "${step.name}" reads "${playbook.steps[other]?.name}", which has no output and cannot run any more`;
      }
    }
  }
  return null;
}
