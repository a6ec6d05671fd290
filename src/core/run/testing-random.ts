/** Random playbooks, and random ends of their steps that depend on nothing but a seed and the place of a step: the same in memory
 *  and on a store, in whatever order steps end. For tests. */
import type { FailureMode, Playbook, PlaybookArc, PlaybookStep, StepAction } from "../playbook/playbook.ts";
import { testArc, testPlaybook, testStep } from "../playbook/testing-playbook.ts";
import type { StepRow } from "./run.ts";
import type { TestRun } from "./testing-run.ts";

const WAIT: StepAction = { type: "wait", for: "10s", until: null, data: null };

export interface RandomStep {
  readonly kind: "task" | "route" | "wait" | "loop" | "below";
  readonly arcs: readonly { readonly to: number; readonly on: PlaybookArc["on"]; readonly when: number }[];
  readonly back: number | null;
  readonly join: "all" | "any" | number;
  readonly mode: PlaybookStep["mode"];
  readonly skipped: boolean;
  readonly onError: PlaybookStep["onError"];
  readonly items: number;
  readonly tolerant: boolean;
}

const CONDITIONS = [null, null, null, "{{ 1 == 1 }}", "{{ 1 == 2 }}", "{{ status == 'succeeded' }}"];

/** `back`: a step may lead to an earlier one, while its result asks for it. */
export function randomPlaybookOf(
  specs: readonly RandomStep[],
  hasCycles: boolean,
  change: Partial<Playbook>,
): Playbook {
  const count = specs.length;
  const steps = specs.map((spec, index) => {
    const arcs = spec.arcs
      .filter(({ to }) => index + to < count)
      .map(({ to, on, when }) => testArc(index + to, { on, when: CONDITIONS[when] ?? null }));
    // A cycle needs a step that works.
    if (hasCycles && spec.back !== null && spec.back <= index && spec.kind === "task") {
      arcs.unshift(testArc(spec.back, { when: "{{ result.back }}" }));
    }
    return testStep(`s${index}`, [], {
      arcs,
      action: actionOf(spec),
      ...{ join: spec.join, mode: spec.mode, onError: spec.onError, when: spec.skipped ? "{{ 1 == 2 }}" : null },
      loop:
        spec.kind === "loop"
          ? {
              ...{ in: Array.from({ length: spec.items }, (_, n) => n), iterator: "item", concurrency: 2, where: null },
              ...{ limit: null, onItemFailure: spec.tolerant ? "continue" : "fail", maxFailures: { count: 1 } },
            }
          : null,
    });
  });
  // Handlers, which no arc reaches.
  return testPlaybook([...steps, testStep("notify"), testStep("clean")], {
    ...{ onFailure: [count], finally: [count + 1], ...change },
  });
}

function actionOf({ kind }: RandomStep): StepAction | null {
  if (kind === "route") return null;
  if (kind === "wait") return WAIT;
  if (kind === "below") return { type: "playbook", path: "b", inline: null, data: null, returnStep: null, wait: true };
  return { type: "task", task: "work", data: null };
}

export interface RandomSchedule {
  readonly seed: number;
  /** Of a hundred steps, how many fail. */
  readonly failing: number;
  readonly cancelAt: number;
  /** A cancel only asks a step to end. */
  readonly running: boolean;
  readonly reversed: boolean;
}

/** The same for the same place, in whatever order steps end. */
export function seeded(...parts: readonly (string | number)[]): number {
  let value = 2_166_136_261;
  for (const char of parts.join("|")) value = Math.imul(value ^ char.charCodeAt(0), 16_777_619);
  value = Math.imul(value ^ (value >>> 15), 2_246_822_507);
  return (value ^ (value >>> 13)) >>> 0;
}

/** Ends steps, in rounds, until the run has ended. */
export function finishRandomly(run: TestRun, { seed, failing, cancelAt, reversed }: RandomSchedule): void {
  for (let round = 0; run.run.phase !== "ended"; round++) {
    if (round > 2_000) throw new Error(`no end: ${run.states()}`);
    if (round === cancelAt) run.cancel();
    const open = run.open();
    const chosen = open.filter(({ node, visit, item }) => seeded(seed, round, node, visit, item) % 3 === 0);
    const ending = chosen.length > 0 ? chosen : open.slice(0, 1);
    for (const row of reversed ? [...ending].reverse() : ending) endStep(run, row, seed, failing);
    if (open.length === 0 && run.messages.length === 0) {
      const next = Math.min(...run.timers.values());
      if (!Number.isFinite(next)) throw new Error(`it hangs: ${run.states()}`);
      run.now = next;
    }
    run.settle();
  }
}

/** JSON of what a step returns; null if it fails. `failing`: of a hundred steps. */
export function randomOutcome(
  seed: number,
  { node, visit, item, try: attempt }: Pick<StepRow, "node" | "visit" | "item" | "try">,
  failing: number,
): string | null {
  const luck = seeded(seed, node, visit, item, attempt) % 100;
  return luck < failing ? null : JSON.stringify({ back: visit < 4 && luck % 3 > 0 });
}

function endStep(run: TestRun, row: StepRow & { isAsked: boolean }, seed: number, failing: number): void {
  const { node, visit, item, isAsked } = row;
  const job = row.job as string;
  const result = randomOutcome(seed, row, failing);
  if (isAsked && seeded(seed, node, visit, item, row.try) % 2 === 0) run.endById(job, "cancelled");
  else if (result === null) run.endById(job, "failed");
  else run.endById(job, "succeeded", JSON.parse(result));
}

export const rowsText = (run: TestRun) =>
  [...run.rows.values()]
    .map(({ node, visit, item, try: attempt, state }) => `${node}.${visit}.${item}.${attempt} ${state}`)
    .sort();

/** The playbook of runs below. */
export const RANDOM_PATHS = { b: testPlaybook([testStep("x")]) };

/** Steps and the rest of a playbook from a seed, for tests without a generator of their own. */
export function randomPlaybook(seed: number, hasCycles = seeded(seed, "cycles") % 2 === 0): Playbook {
  const pick = <T>(name: string, ...values: readonly T[]) => values[seeded(seed, name) % values.length] as T;
  const steps = Array.from({ length: 2 + (seeded(seed, "count") % 8) }, (_, n): RandomStep => {
    const at = (name: string) => `${name} of ${n}`;
    const arcs = Array.from({ length: seeded(seed, at("arcs")) % 4 }, (_, arc) => ({
      to: 1 + (seeded(seed, at(`to ${arc}`)) % 4),
      on: pick<PlaybookArc["on"]>(at(`on ${arc}`), "success", "success", "success", "failure", "always"),
      when: seeded(seed, at(`when ${arc}`)) % 6,
    }));
    return {
      kind: pick<RandomStep["kind"]>(at("kind"), "task", "task", "task", "route", "wait", "loop", "below"),
      arcs,
      back: pick(at("back"), null, null, null, seeded(seed, at("to")) % 9),
      join: pick<RandomStep["join"]>(at("join"), "all", "all", "all", "any", 2),
      mode: pick<RandomStep["mode"]>(at("mode"), "match", "match", "first", "all"),
      skipped: seeded(seed, at("skip")) % 10 === 0,
      onError: pick<RandomStep["onError"]>(at("error"), "fail", "fail", "fail", "continue"),
      items: seeded(seed, at("items")) % 6,
      tolerant: seeded(seed, at("tolerant")) % 2 === 0,
    };
  });
  return randomPlaybookOf(steps, hasCycles, {
    failureMode: pick<FailureMode>("mode", "drain", "cancel", "continue"),
    parallel: pick("parallel", 1, 3, 100),
  });
}
