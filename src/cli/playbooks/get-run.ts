/** `perdure get` and `perdure describe` of a run: its state, its steps, and its result. */
import type { RunInfo, StepInfo } from "../../core/api/runs.ts";
import type { Perdure } from "../../core/api.ts";
import type { Printer } from "../output/print.ts";
import { runFacts, STEP_COLUMNS, stepRow } from "../output/run-text.ts";
import { painted } from "../output/terminal-text.ts";
import { serverNow } from "../target/server-time.ts";

/** `perdure steps` shows all of them. */
const SHOWN_STEPS = 100;

export interface RunWithSteps {
  readonly run: RunInfo;
  /** Without items of loops. */
  readonly steps: readonly StepInfo[];
  readonly hasMore: boolean;
}

export async function readRun(perdure: Perdure, id: string): Promise<RunWithSteps> {
  const handle = await perdure.runHandle(id);
  const [run, steps] = [await handle.get(), await handle.steps({ items: false, limit: SHOWN_STEPS + 1 })];
  return { run, steps: steps.slice(0, SHOWN_STEPS), hasMore: steps.length > SHOWN_STEPS };
}

export function noteMoreSteps(out: Printer, { run, hasMore }: RunWithSteps): void {
  if (hasMore) out.note(`only ${SHOWN_STEPS} steps are shown; \`perdure steps ${run.id} --all\` lists all of them`);
}

export function printSteps(out: Printer, found: RunWithSteps, now: number): void {
  const { steps } = found;
  if (steps.length > 0) {
    out.line();
    out.table(
      STEP_COLUMNS,
      steps.map((step) => stepRow(step, now)),
    );
  }
  noteMoreSteps(out, found);
}

export async function printRun(
  out: Printer,
  perdure: Perdure,
  found: RunWithSteps,
  shownValue: (value: unknown) => string,
): Promise<void> {
  const { run } = found;
  out.facts(runFacts(run));
  printSteps(out, found, await serverNow(perdure));
  for (const [name, value] of [
    ["Input", run.input],
    ["Result", run.result],
  ] as const) {
    if (value === undefined) continue;
    out.line();
    out.line(painted("dim", name));
    out.block(shownValue(value));
  }
}
