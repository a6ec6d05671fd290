/** A run in the middle of an advance, for tests of what its templates read. */
import { type Failure, failure } from "../decision/failure.ts";
import type { Playbook } from "../playbook/playbook.ts";
import type { StepRow, StoredOutput } from "./run.ts";
import type { ScopeSource } from "./step-scope.ts";

export function testRow(n: number, node: string, change: Partial<StepRow> = {}): StepRow {
  return {
    n,
    node,
    visit: 1,
    item: -1,
    try: 1,
    state: "succeeded",
    job: `job_${n}`,
    due: null,
    tokens: [],
    at: Date.UTC(2026, 0, 1),
    endedAt: Date.UTC(2026, 0, 1, 0, 0, 5),
    ...change,
  };
}

/** The output of a step that succeeded. */
export function stored(n: number, node: string, result: unknown, change: Partial<StepRow> = {}): StoredOutput {
  return { step: testRow(n, node, change), result: JSON.stringify(result), failure: null, attempt: 1 };
}

export function failed(n: number, node: string, cause: Partial<Failure>, change: Partial<StepRow> = {}): StoredOutput {
  const step = testRow(n, node, { state: "handled", ...change });
  return { step, result: null, failure: failure({ kind: "error", message: "failed", ...cause }), attempt: 2 };
}

/** All outputs are loaded, and each is the latest of its step. `items` are by the row of the loop. */
export function testSource(
  playbook: Playbook,
  outputs: readonly StoredOutput[] = [],
  change: Partial<ScopeSource> & { readonly itemsOf?: Readonly<Record<number, readonly StoredOutput[] | null>> } = {},
): ScopeSource {
  const { itemsOf = {}, ...rest } = change;
  const rows = new Map(outputs.map((each) => [each.step.n, each]));
  const latest: Record<string, number> = {};
  for (const { step } of outputs) {
    const index = playbook.steps.findIndex(({ name }) => name === step.node);
    if (index >= 0) latest[index] = step.n;
  }
  return {
    playbook,
    runId: "job_run",
    now: Date.UTC(2026, 0, 2),
    data: { inputs: {}, workload: {} },
    latest,
    visits: {},
    output: (n) => rows.get(n),
    items: (n) => itemsOf[n],
    variables: {},
    ...rest,
  };
}
