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

export function printSteps(out: Printer, { run, steps, hasMore }: RunWithSteps, now: number): void {
  if (steps.length > 0) {
    out.line();
    out.table(
      STEP_COLUMNS,
      steps.map((step) => stepRow(step, now)),
    );
  }
  if (hasMore) out.note(`only ${SHOWN_STEPS} steps are shown; \`perdure steps ${run.id} --all\` lists all of them`);
}

export async function printRun(
  out: Printer,
  perdure: Perdure,
  { run, steps, hasMore }: RunWithSteps,
  shownValue: (value: unknown) => string,
): Promise<void> {
  out.facts(runFacts(run));
  printSteps(out, { run, steps, hasMore }, await serverNow(perdure));
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
