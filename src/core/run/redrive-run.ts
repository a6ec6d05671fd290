/** A redrive of a run that failed or was cancelled: what failed unhandled, was cancelled or never ended starts again, and what
 *  succeeded stays. A repeated step has the number of the redrive as its try, so that no row is ever made twice. */
import type { Mutable } from "../check.ts";
import type { Playbook } from "../playbook/playbook.ts";
import { inFileOrder } from "./draft.ts";
import type { Arrival, InputEdit, LoopCursor, RunRedrive, StepRow } from "./run.ts";
import { mergedOver } from "./run-data.ts";
import { routeLate, settleStep } from "./settle-step.ts";
import { endedOf } from "./step-end.ts";
import type { RunTurn } from "./turn.ts";

/** Nothing is changed while something must be loaded first. */
export function redriveRun(turn: RunTurn, redrive: RunRedrive): void {
  const { draft, graph, input } = turn;
  const attempt = input.loaded.job.chapter;
  const toNow = indicesNow(turn);
  const wanted = [...(redrive.from ?? []), ...(redrive.skip ?? []).map(({ step }) => step)];
  const broken = rowsOf(turn, draft.broken);
  const unrouted = rowsOf(turn, draft.unrouted);
  const latest = latestRows(turn, toNow, wanted.length > 0);
  if (turn.isMissing) return;

  if (input.before !== null) {
    turn.emit({ do: "remap", names: input.before.steps.map(({ name }) => name), to: toNow });
    turn.newPlaybook = redrive.playbook;
    turn.newPins = redrive.pins;
  }
  turn.emit({ do: "resume" });
  turn.result = null;
  turn.failure = null;
  const { timeoutMs } = turn.playbook;
  turn.deadlineAt = timeoutMs === null ? null : turn.now + timeoutMs;
  if (turn.deadlineAt !== null) turn.timersSet.push({ n: 0, dueAt: turn.deadlineAt });
  const { workload } = turn.data;
  if (redrive.workload !== undefined && workload !== null) {
    turn.setData({ ...turn.data, workload: mergedOver(workload, redrive.workload) });
  }
  const edits = new Map<number, InputEdit[]>();
  for (const { step, path, value } of redrive.set ?? []) {
    const index = graph.indexOf(step);
    if (index !== undefined) edits.set(index, [...(edits.get(index) ?? []), { path, value }]);
  }
  for (const [step, each] of edits) turn.emit({ do: "edit", step, edits: each });

  const move = ([from, arc, step]: Arrival): Arrival =>
    input.before === null || step < 0 ? [from, arc, step] : [from, -1, toNow[step] ?? -1];
  const skipped = new Map((redrive.skip ?? []).map(({ step, output }) => [graph.indexOf(step), output]));
  const forgotten = forget(turn, redrive.from ?? [], { unrouted, latest, attempt, move });
  const again: StepRow[] = [];
  for (const row of broken) {
    const step = graph.indexOf(row.node);
    if (step === undefined || graph.handlers.has(step) || forgotten.has(step) || skipped.has(step)) continue;
    if (!goesOn(turn, row, step, attempt)) again.push(row);
  }
  repeat(turn, again, attempt, move);
  for (const [step, output] of skipped) {
    if (step !== undefined) takeAsDone(turn, step, output, { broken, latest, attempt, move });
  }
  for (const row of unrouted) {
    const step = graph.indexOf(row.node);
    const stored = turn.output(row.n);
    if (step === undefined || stored === undefined || forgotten.has(step)) continue;
    routeLate(turn, row.n, step, endedOf(stored));
  }
}

/** The index that each step of the definition until now has in the new one; -1 for none. */
function indicesNow({ input, graph, playbook }: RunTurn): number[] {
  const { steps }: Playbook = input.before ?? playbook;
  return steps.map(({ name }) => graph.indexOf(name) ?? -1);
}

function rowsOf(turn: RunTurn, numbers: readonly number[]): StepRow[] {
  return numbers.flatMap((n) => {
    // What the job returned decides whether it is a failure of the job or of the step.
    const stored = turn.output(n);
    if (stored === undefined) turn.need({ outputs: [n], items: [], variables: false });
    return stored === undefined ? [] : [stored.step];
  });
}

/** By the index that the step has now. */
function latestRows(turn: RunTurn, toNow: readonly number[], isNeeded: boolean): Map<number, StepRow> {
  const rows = new Map<number, StepRow>();
  if (!isNeeded) return rows;
  for (const [step, n] of Object.entries(turn.draft.latest)) {
    const row = turn.row(n);
    const index = toNow[Number(step)] ?? -1;
    if (row !== undefined && index >= 0) rows.set(index, row);
  }
  return rows;
}

interface RepeatParts {
  readonly latest: ReadonlyMap<number, StepRow>;
  readonly attempt: number;
  /** An arrival, in the definition that the run has now. */
  readonly move: (arrival: Arrival) => Arrival;
}

/** Forgets these steps and what they can reach; they start again with the arrivals that they had. */
function forget(
  turn: RunTurn,
  from: readonly string[],
  { unrouted, latest, attempt, move }: RepeatParts & { readonly unrouted: readonly StepRow[] },
): ReadonlySet<number> {
  const { graph, draft, playbook } = turn;
  const first = from.flatMap((name) => graph.indexOf(name) ?? []).filter((step) => !graph.handlers.has(step));
  const forgotten = new Set<number>();
  for (let step = 0; step < playbook.steps.length; step++) {
    if (!graph.handlers.has(step) && first.some((each) => each === step || graph.canReach(each, step))) {
      forgotten.add(step);
    }
  }
  if (forgotten.size === 0) return forgotten;
  const isKept = ([, , step]: Arrival) => !forgotten.has(step);
  const arrivals = new Map<number, Arrival[]>();
  for (const step of forgotten) {
    const own = (latest.get(step)?.tokens ?? []).map(move);
    const pending = draft.pending[step] ?? [];
    // Of steps that one of the others reaches, only what comes from elsewhere; it comes with the rest.
    const isFirst = first.includes(step) && !first.some((each) => each !== step && isBefore(turn, each, step));
    const isInside = !isFirst && first.some((each) => graph.isSameCycle(each, step));
    const kept = isFirst ? [...own, ...pending] : isInside ? [] : [...own, ...pending].filter(isKept);
    arrivals.set(step, isFirst && kept.length === 0 ? [[0, -1, -1]] : kept);
  }
  const rows = unrouted.filter(({ node }) => forgotten.has(graph.indexOf(node) ?? -1)).map(({ n }) => n);
  turn.emit({ do: "forget", steps: [...forgotten], rows, try: attempt });
  for (const [step, each] of arrivals) for (const by of each) turn.emit({ do: "arrive", to: step, by });
  return forgotten;
}

function isBefore({ graph }: RunTurn, a: number, b: number): boolean {
  return graph.canReach(a, b) && !graph.isSameCycle(a, b);
}

/** Loops and runs below keep their row, and repeat what failed within. */
function goesOn(turn: RunTurn, row: StepRow, step: number, attempt: number): boolean {
  const { draft } = turn;
  const cursor: LoopCursor | undefined = draft.loops[`${step}:${row.visit}`];
  if (cursor?.n === row.n) {
    if (turn.step(step).loop === null) return false;
    const items = [...cursor.failed].sort((a, b) => a - b);
    // Items that a cancel or an error left in the list of those to repeat.
    const left = [...new Set([...items, ...cursor.again])].sort((a, b) => a - b);
    turn.emit({ do: "reloop", n: row.n, step, visit: row.visit, items: left, try: attempt });
    turn.reopen(row.n, "looping");
    return true;
  }
  const { job } = row;
  if (!turn.isRun(step) || job === null || draft.edits[step] !== undefined) return false;
  // After a crash it may have been redriven and ended before this was written: then its end counts.
  const end = turn.input.loaded.ends[job];
  // It succeeded, and the step failed by what it requires of the output.
  if (end === undefined && turn.output(row.n)?.result !== null) return false;
  turn.emit({ do: "reopen", n: row.n, step });
  turn.reopen(row.n, "open");
  if (end?.state !== "succeeded") turn.redrive.push(job);
  return true;
}

/** Makes broken steps arrive again. Visits from the last on that are all broken are repeated; others become new visits. */
function repeat(turn: RunTurn, rows: readonly StepRow[], attempt: number, move: (arrival: Arrival) => Arrival): void {
  const byStep = new Map<number, StepRow[]>();
  for (const row of rows) {
    const step = turn.graph.indexOf(row.node) as number;
    byStep.set(step, [...(byStep.get(step) ?? []), row]);
  }
  for (const [step, all] of byStep) {
    const visits = new Set(all.map(({ visit }) => visit));
    let visit = (turn.draft.visits[step] ?? 0) + 1;
    while (visits.has(visit - 1)) visit--;
    turn.emit({ do: "rewind", step, visit, try: attempt });
    for (const { tokens } of all.sort((a, b) => a.visit - b.visit || a.n - b.n)) {
      for (const by of tokens) turn.emit({ do: "arrive", to: step, by: move(by) });
    }
  }
}

/** Makes a row for a step that an operator takes as done, with the output that they give. */
function takeAsDone(
  turn: RunTurn,
  step: number,
  output: unknown,
  { broken, latest, attempt, move }: RepeatParts & { readonly broken: readonly StepRow[] },
): void {
  const { draft } = turn;
  const node = turn.step(step).name;
  const rows = broken.filter((row) => row.node === node);
  const before = rows.at(-1) ?? latest.get(step);
  const visit = before?.visit ?? (draft.visits[step] ?? 0) + 1;
  if (before !== undefined) turn.emit({ do: "rewind", step, visit, try: attempt });
  const tokens = before === undefined ? inFileOrder(draft.pending[step] ?? []) : inFileOrder(before.tokens.map(move));
  const row: Mutable<Parameters<RunTurn["begin"]>[0]> = {
    ...{ step, visit, item: -1, try: before === undefined ? 1 : attempt, tokens, explicit: true },
    ...{ job: null, due: null, items: null },
  };
  const n = turn.begin(row);
  turn.setResult(n, JSON.stringify(output) ?? "null");
  settleStep(turn, {
    ...{ n, step, visit, end: { status: "succeeded", failure: null, attempt: 0 }, reason: null, isOwn: true },
    why: "taken as done",
  });
}
