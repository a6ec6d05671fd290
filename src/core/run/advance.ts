/** Decides what a run does next, from its messages and due timers: which steps ended, which arcs are taken, what starts, and how it
 *  ends. Pure: `newJobId` and `now` come from outside, and what is missing is asked for. Late and repeated messages change
 *  nothing. The order of the messages of one advance does not matter, except of commands. */
import type { Mutable } from "../check.ts";
import { EVENT_FORMAT } from "../job/event.ts";
import { evolve } from "../job/fold.ts";
import { isTerminal } from "../job/job.ts";
import { happened, type Transition } from "../job/lifecycle.ts";
import { joinOf } from "./advance-join.ts";
import { endItem, fillLoops } from "./advance-loop.ts";
import { cancelRun, conclude, goOnStopping, shortText, timeOut } from "./advance-phase.ts";
import { failRun } from "./fail-run.ts";
import type { AdvanceInput, AdvancePlan, AdvanceResult } from "./plan.ts";
import { redriveRun } from "./redrive-run.ts";
import type { RunMessage, RunRedrive, StepEnd, StepRow } from "./run.ts";
import { startRunData } from "./run-data.ts";
import { settleStep } from "./settle-step.ts";
import { startStep } from "./start-step.ts";
import type { StepEnded } from "./step-end.ts";
import { ADVANCE_LIMITS, RunTurn } from "./turn.ts";

/** Called again with more in `known` while it returns `needs`. */
export function advance(input: AdvanceInput): AdvanceResult {
  const turn = new RunTurn(input);
  const messages = input.loaded.messages.slice(0, ADVANCE_LIMITS.messages);
  readCommands(turn, messages);
  if (!turn.isMissing) readEnds(turn, messages);
  while (!turn.isMissing) {
    const before = turn.changes.length;
    startArrived(turn);
    if (turn.isMissing) break;
    fillLoops(turn);
    if (turn.isMissing || turn.changes.length > before) continue;
    if (turn.isCapped) break;
    conclude(turn);
    if (turn.changes.length === before) break;
  }
  if (turn.isMissing) return { kind: "needs", needs: turn.needs() };
  if (turn.isCapped && turn.draft.phase !== "ended") turn.send.push({ kind: "continue", body: null });
  return { kind: "plan", plan: planOf(turn, messages) };
}

/** In their order, as each decides what the next one means. */
function readCommands(turn: RunTurn, messages: readonly RunMessage[]): void {
  for (const { kind, body } of messages) {
    if (kind === "start") begin(turn);
    else if (kind === "cancel") cancelRun(turn);
    else if (kind === "redrive" && turn.draft.phase === "ended") {
      redriveRun(turn, (body ?? {}) as RunRedrive);
      if (!turn.isMissing && turn.data.workload === null) begin(turn);
    } else if (kind === "stop") goOnStopping(turn, body);
  }
  if (turn.input.loaded.timers.some(({ n }) => n === 0)) timeOut(turn);
}

function begin(turn: RunTurn): void {
  const { draft, run } = turn;
  if (draft.phase !== "forward" || turn.data.workload !== null) return;
  if (run.deadlineAt !== null && turn.deadlineAt === undefined) turn.timersSet.push({ n: 0, dueAt: run.deadlineAt });
  const data = startRunData(turn.playbook, turn.data, run.id, turn.now);
  if (data.ok) {
    turn.setData(data.value);
    turn.emit({ do: "arrive", to: turn.playbook.entry, by: [0, -1, -1] });
    return;
  }
  turn.failure = data.failure;
  failRun(turn, {
    ...{ state: "failed", reason: "invalid", message: data.failure.message, step: null, node: null },
    ...{ cancel: false, skipsHandlers: false },
  });
}

interface SettledRow {
  readonly row: StepRow;
  readonly end: StepEnded;
  readonly reason: StepEnd["reason"];
}

/** Failures first, as they decide whether anything follows from the others; then in the order in which the steps were made. */
function readEnds(turn: RunTurn, messages: readonly RunMessage[]): void {
  const { timers, ends } = turn.input.loaded;
  const byJob = new Map<string, StepRow>();
  for (const row of turn.loadedRows()) if (row.job !== null) byJob.set(row.job, row);
  const ended = new Map<number, SettledRow>();
  for (const { kind, ref } of messages) {
    if (kind !== "ended" || ref === null) continue;
    const row = byJob.get(ref);
    const end = ends[ref];
    // A job that was redriven meanwhile will end again; an end that was read already changes nothing.
    if (row === undefined || end === undefined || row.state !== "open" || !isTerminal(end.state)) continue;
    if (turn.redrive.includes(ref)) continue;
    const attempt = turn.known.outputs.get(row.n)?.attempt ?? 0;
    const status = end.state as "succeeded" | "failed" | "cancelled";
    ended.set(row.n, { row, end: { status, failure: end.failure, attempt }, reason: end.reason });
  }
  for (const { n } of timers.slice(0, ADVANCE_LIMITS.messages)) {
    if (n === 0) continue;
    const row = turn.isLoaded(n) ? turn.row(n) : undefined;
    if (row?.state !== "waiting") turn.timersDropped.push(n);
    else ended.set(n, { row, end: { status: "succeeded", failure: null, attempt: 0 }, reason: null });
  }
  const rank = ({ end }: SettledRow) => (end.status === "succeeded" ? 1 : 0);
  const inOrder = [...ended.values()].sort((a, b) => rank(a) - rank(b) || a.row.n - b.row.n);
  for (const { row, end, reason } of inOrder) {
    const step = turn.graph.indexOf(row.node);
    if (step === undefined) continue;
    const ending = { n: row.n, step, visit: row.visit, end, reason, isOwn: false };
    if (row.item >= 0) endItem(turn, { ...ending, item: row.item });
    else settleStep(turn, ending);
  }
}

/** Starts the steps at which enough branches have arrived, in the order of the file. */
function startArrived(turn: RunTurn): void {
  const { draft, playbook, graph } = turn;
  for (const key of Object.keys(draft.pending)) {
    if (draft.phase !== "forward") return;
    const step = Number(key);
    if (draft.pending[step] === undefined) continue;
    const { starts, absorbed, isShort } = joinOf(draft, playbook, graph, step);
    for (const by of absorbed) turn.emit({ do: "absorb", to: step, by });
    for (const by of starts) {
      const isPart = by.length < (draft.pending[step]?.length ?? 0);
      if (!startStep(turn, { step, by, isPart, ...(isShort ? { trouble: shortText(by.length) } : {}) })) break;
    }
  }
}

function planOf(turn: RunTurn, messages: readonly RunMessage[]): AdvancePlan {
  const { draft, changes, timersSet, timersDropped } = turn;
  const { job } = turn.input.loaded;
  const transitions: Transition[] = [];
  // Messages and timers are written with an event, or not at all.
  if (changes.length === 0 && (turn.send.length > 0 || timersDropped.length > 0) && draft.phase !== "ended") {
    changes.push({ do: "set", names: [], chars: [] });
  }
  if (changes.length > 0) {
    const event = { name: "run.advanced", data: { v: EVENT_FORMAT, messages: messages.length, changes } } as const;
    transitions.push({ event, next: evolve(job, happened(event, turn.now)) });
    if (draft.phase === "ended") transitions.push(endOf(turn, transitions[0] as Transition));
  }
  // Set one by one: each of these spreads would cost as much as a step.
  const plan: Mutable<AdvancePlan> = {
    transitions,
    progress: draft.progress(),
    made: turn.made,
    changed: [...turn.changed.values()],
    jobs: turn.jobs,
    variables: turn.written,
    read: messages.map(({ no }) => no),
    send: draft.phase === "ended" ? [] : turn.send,
    timers: {
      set: timersDropped.length === 0 ? timersSet : timersSet.filter(({ n }) => !timersDropped.includes(n)),
      drop: timersDropped,
    },
    stop: turn.stop,
    redrive: turn.redrive,
  };
  if (turn.newData !== undefined) plan.data = turn.newData;
  if (turn.newPlaybook !== undefined) plan.playbook = turn.newPlaybook;
  if (turn.newPins !== undefined) plan.pins = turn.newPins;
  if (turn.deadlineAt !== undefined) plan.deadlineAt = turn.deadlineAt;
  if (turn.result !== undefined) plan.result = turn.result;
  if (turn.failure !== undefined) plan.failure = turn.failure;
  return plan;
}

function endOf(turn: RunTurn, { next }: Transition): Transition {
  const { end } = turn.draft;
  const data = {
    v: EVENT_FORMAT,
    state: end?.state ?? "succeeded",
    reason: end?.reason ?? null,
    message: end?.message ?? null,
    step: end?.node ?? null,
  } as const;
  const event = { name: "run.ended", data } as const;
  return { event, next: evolve(next, happened(event, turn.now)) };
}
