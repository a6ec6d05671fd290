/** Explains a run for people: its steps, which arcs it took and why not the others, what it waits for now, and after a failure the
 *  first step that nothing handled, what never started and the command that repairs it. The length depends on the playbook and
 *  not on the number of steps. */
import type { RunInfo, StepInfo } from "../api/runs.ts";
import { showMs } from "../duration.ts";
import type { Explanation } from "../explain/explain.ts";
import { counted, quoted, showAt, showSpan, showText } from "../format.ts";
import type { JobEvent } from "../job/event.ts";
import { graphOf } from "../playbook/graph.ts";
import type { Playbook, PlaybookArc } from "../playbook/playbook.ts";
import { conditionText, loopText, STATE_MARKS, typeText } from "./graph-text.ts";
import { isOpen, type RunProgress } from "./run.ts";
import { type RunHistory, readRunHistory, type TakenRoute } from "./run-history.ts";

export interface ExplainRunInput {
  readonly playbook: Playbook;
  readonly run: RunInfo;
  readonly progress: RunProgress;
  /** In the order of `n`. Of items of loops, those that failed or are open are enough. */
  readonly steps: readonly StepInfo[];
  /** Of the run's job. */
  readonly events: readonly JobEvent[];
  /** Of steps that are open, by `n`: why the job is not running, in a sentence. */
  readonly waits?: Readonly<Record<number, string>>;
  readonly now: number;
}

/** Why a run is in its state, and what it waits for.
 *  @example
 *  const { summary, run }: RunExplanation = explainRun(input);
 *  console.log(summary, run.waitsFor.join("; ")); */
export interface RunExplanation extends Explanation {
  readonly run: {
    /** What must happen before it continues, in sentences; empty once it has ended. */
    readonly waitsFor: readonly string[];
    /** Steps that were not reached because of the failure. */
    readonly neverStarted: readonly string[];
    /** The command that repeats what failed; null unless it failed or was cancelled. */
    readonly repair: string | null;
  };
}

type ReadRun = ExplainRunInput & { readonly history: RunHistory };

/** Lines of steps, of items below a loop, and names in a list. */
const [MAX_STEPS, MAX_ITEMS, MAX_NAMES] = [60, 5, 10];

export function explainRun(given: ExplainRunInput): RunExplanation {
  const input = { ...given, history: readRunHistory(given.events) };
  const { run, playbook } = input;
  const waitsFor = run.state === "running" ? waitTexts(input) : [];
  const neverStarted = run.state === "failed" || run.state === "cancelled" ? missed(input) : [];
  const isRepairable = run.state === "failed" || run.state === "cancelled";
  const repair = isRepairable ? `perdure redrive ${run.id}` : null;
  const summary = summaryOf(input, waitsFor);
  const lines = [
    definitionLine(input),
    ...section("Steps:", stepLines(input)),
    ...section("Arcs:", arcLines(input)),
    ...section("It waits for:", waitsFor),
    ...(neverStarted.length === 0 ? [] : [`Never started: ${nameList(neverStarted)}.`]),
    ...repairLines(input, repair),
  ];
  const open = input.steps.flatMap(({ job, state }) => (job !== null && isOpen(state) ? [job] : []));
  return {
    jobId: run.id,
    kind: "playbook",
    queue: run.queue,
    namespace: run.namespace,
    submittedAt: run.submittedAt,
    state: run.state === "running" ? "blocked" : run.state,
    reason: run.reason,
    chapter: run.chapter,
    nextRunAt: null,
    next: isRepairable
      ? { kind: "person", may: ["redrive"] }
      : run.state === "running"
        ? { kind: "unblock", waitsFor: open }
        : { kind: "nothing" },
    attempts: [],
    retries: [],
    preset: null,
    sources: null,
    summary,
    lines,
    text: [summary, ...lines].join("\n"),
    run: { waitsFor, neverStarted: neverStarted.map((index) => playbook.steps[index]?.name ?? ""), repair },
  };

  function nameList(indices: readonly number[]): string {
    const names = indices.slice(0, MAX_NAMES).map((index) => playbook.steps[index]?.name);
    const more = indices.length - names.length;
    return `${names.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
  }
}

function section(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : [title, ...lines.map((line) => `  ${line}`)];
}

function summaryOf({ run, progress, now, events }: ReadRun, waitsFor: readonly string[]): string {
  const took = `${showSpan(run.submittedAt, run.finishedAt ?? now)}`;
  const steps = counted(run.madeSteps, "step");
  switch (run.state) {
    case "succeeded": {
      const handled = endsOf(events, "handled");
      const beside = handled === 0 ? "" : `; ${counted(handled, "failure")} handled`;
      return `Succeeded at ${showAt(run.finishedAt ?? now)} after ${took}, with ${steps}${beside}.`;
    }
    case "failed":
      return `Failed at ${showAt(run.finishedAt ?? now)} after ${took}, with ${steps}: ${causeText(run, progress)}.`;
    case "cancelled": {
      const by = canceller(events);
      const requested = run.cancelRequestedAt === null ? "" : `, requested at ${showAt(run.cancelRequestedAt)}${by}`;
      return `Cancelled at ${showAt(run.finishedAt ?? now)} after ${took}, with ${steps}${requested}.`;
    }
    case "running":
      return `${phaseText(run, progress, events)}, ${took} after the start, with ${counted(run.openSteps, "open step")} of ${run.madeSteps} so far; waiting for ${waitsFor[0]}${waitsFor.length > 1 ? `, and ${waitsFor.length - 1} more` : ""}.`;
  }
}

function phaseText(run: RunInfo, { phase, state }: RunProgress, events: readonly JobEvent[]): string {
  const steps =
    phase === "finally" ? " the steps of `finally`" : phase === "failing" ? " the steps of `onFailure`" : "";
  if (run.cancelRequestedAt !== null) {
    return `Being cancelled${canceller(events)}${steps === "" ? "" : `, running${steps}`}`;
  }
  const why = state.end === null ? "" : ` (${showText(state.end.message ?? state.end.reason ?? state.end.state)})`;
  return phase === "stopping" ? `Stopping after a failure${why}` : `Running${steps}${why}`;
}

function canceller(events: readonly JobEvent[]): string {
  const request = events.findLast((event) => event.name === "job.cancel_requested");
  const by = request !== undefined && "by" in request.data ? request.data.by : null;
  return by === null ? "" : ` by ${quoted(by)}`;
}

function endsOf(events: readonly JobEvent[], state: string): number {
  let count = 0;
  for (const event of events) {
    if (event.name !== "run.advanced") continue;
    for (const change of event.data.changes) if (change.do === "end" && change.state === state) count += 1;
  }
  return count;
}

function causeText({ failedStep, failure, reason }: RunInfo, { state }: RunProgress): string {
  const message = showText(state.end?.message ?? failure?.message ?? "no message");
  if (failedStep === null) return `${reason === null || reason === "step" ? "" : `${reason}: `}${message}`;
  const unhandled = "; nothing handled it";
  return message.startsWith("step ") ? `${message}${unhandled}` : `step ${quoted(failedStep)}: ${message}${unhandled}`;
}

function definitionLine({ run }: ReadRun): string {
  const { name, path, version, hash } = run.playbook;
  const shown = path === null ? quoted(name) : `${showText(path)}${version === null ? "" : `@${version}`}`;
  const redrives = run.chapter > 1 ? `, after ${counted(run.chapter - 1, "redrive")}` : "";
  return `Playbook ${shown}, definition ${hash.slice(0, 12)}, submitted at ${showAt(run.submittedAt)}${redrives}.`;
}

// Steps.

function stepLines(input: ReadRun): string[] {
  const rows = input.steps.filter(({ item }) => item === null);
  const shown = shownRows(rows);
  const width = Math.min(40, Math.max(0, ...shown.map((row) => rowName(row).length)));
  const lines = shown.flatMap((row) => [
    `${STATE_MARKS[row.state]} ${rowName(row).padEnd(width)}  ${factsOf(row, input)}`,
    ...itemLines(row, input.steps),
  ]);
  const more = rows.length - shown.length;
  return more === 0 ? lines : [...lines, `… and ${more} more: perdure steps ${input.run.id}`];
}

/** All, or else those that did not succeed and the latest visits. */
function shownRows(rows: readonly StepInfo[]): readonly StepInfo[] {
  if (rows.length <= MAX_STEPS) return rows;
  const latest = new Map(rows.map((row) => [row.step, row]));
  const notable = rows.filter(({ state }) => state !== "succeeded" && state !== "skipped");
  const picked = new Set([...notable.slice(0, MAX_STEPS / 2), ...[...latest.values()].slice(-MAX_STEPS / 2)]);
  return rows.filter((row) => picked.has(row));
}

function rowName({ step, visit, try: attempt }: StepInfo): string {
  return `${step}${visit > 1 ? ` #${visit}` : ""}${attempt > 1 ? ` (try ${attempt})` : ""}`;
}

function factsOf(row: StepInfo, { playbook, history, now }: ReadRun): string {
  const index = graphOf(playbook).indexOf(row.step);
  const step = index === undefined ? undefined : playbook.steps[index];
  const items = history.loops.get(row.n);
  const facts = [step === undefined ? (row.type ?? "routes") : typeText(step)];
  if (row.job !== null && row.attempt > 0) facts.push(counted(row.attempt, "attempt"));
  if (items !== undefined) facts.push(loopText(items));
  facts.push(showSpan(row.startedAt, row.endedAt ?? now));
  const why = row.failure === null ? "" : `: ${showText(row.failure.message, 200)}`;
  const reason = row.reason === null || row.reason === "step" ? "" : `, ${row.reason}`;
  return `${facts.join(", ")}${row.state === "succeeded" ? "" : `, ${stateText(row)}${reason}${why}`}`;
}

function stateText({ state, jobState }: StepInfo): string {
  if (state === "handled") return "failed and handled";
  if (state === "looping") return "running";
  if (state !== "open") return state;
  return jobState ?? "open";
}

function itemLines(row: StepInfo, steps: readonly StepInfo[]): string[] {
  const failed = steps.filter(
    (each) => each.item !== null && each.step === row.step && each.visit === row.visit && each.state === "failed",
  );
  const lines = failed.slice(0, MAX_ITEMS).map((item) => {
    const why = item.failure === null ? "" : `: ${showText(item.failure.message, 160)}`;
    return `    ✗ item ${item.item}, ${counted(item.attempt, "attempt")}${why}`;
  });
  const more = failed.length - lines.length;
  return more > 0 ? [...lines, `    … and ${counted(more, "more failed item")}`] : lines;
}

// Arcs.

/** Of steps that have ended and have conditions, or took none of their arcs. */
function arcLines({ playbook, history, steps }: ReadRun): string[] {
  const rows = new Map(steps.map((row) => [row.n, row]));
  return playbook.steps.flatMap((step, index) => {
    const route = history.routes.get(index);
    const isPlain = step.arcs.every(({ when, on }) => when === null && on === "success");
    if (route === undefined || step.arcs.length === 0 || (isPlain && route.taken.length === step.arcs.length))
      return [];
    const state = rows.get(route.n)?.state;
    const isFailure = step.onError === "fail" && (state === "handled" || state === "failed" || state === "cancelled");
    return step.arcs.map((arc, i) => {
      const to = playbook.steps[arc.to]?.name;
      return `${step.name} → ${to}${conditionText(arc)}: ${takenText(arc, i, route, isFailure)}`;
    });
  });
}

function takenText(
  { when, on }: PlaybookArc,
  index: number,
  { taken, errors }: TakenRoute,
  isFailure: boolean,
): string {
  if (taken.includes(index)) return "taken";
  const error = errors[index];
  if (error !== undefined) return `not taken: the condition could not be evaluated (${showText(error, 160)})`;
  if (on === "success" && isFailure) return "not taken: the step failed";
  if (on === "failure" && !isFailure) return "not taken: the step did not fail";
  if (when !== null) return "not taken: false";
  return taken.length > 0 ? "not taken: another arc was true" : "not taken";
}

// What it waits for.

function waitTexts(input: ReadRun): string[] {
  const { run, steps, playbook, progress, now } = input;
  const texts: string[] = [];
  const open = steps.filter(({ state, item }) => item === null && isOpen(state));
  for (const row of open.slice(0, MAX_NAMES)) texts.push(waitText(row, input));
  if (open.length > MAX_NAMES) texts.push(`${open.length - MAX_NAMES} more steps: perdure steps ${run.id}`);
  for (const [key, arrivals] of Object.entries(progress.state.pending)) {
    const index = Number(key);
    const step = playbook.steps[index];
    if (arrivals.length === 0 || step === undefined) continue;
    texts.push(`step ${quoted(step.name)}: ${joinText(input, index)}`);
  }
  if (run.deadlineAt !== null)
    texts.push(`at the latest its timeout at ${showAt(run.deadlineAt)} (in ${showSpan(now, run.deadlineAt)})`);
  if (texts.length === 0) texts.push("the engine, which has messages of this run to read");
  return texts;
}

function waitText(row: StepInfo, { history, waits = {}, now }: ReadRun): string {
  const name = `step ${quoted(row.step)}`;
  if (row.state === "waiting") {
    const due = row.waitsUntil ?? now;
    return `${name} until ${showAt(due)} (in ${showSpan(now, due)})`;
  }
  if (row.state === "looping") {
    const items = history.loops.get(row.n);
    return items === undefined
      ? `${name}: its items`
      : `${name}: ${loopText(items)}, ${counted(items.open, "item")} running`;
  }
  const why = waits[row.n];
  if (why !== undefined) return `${name}: ${why.replace(/\.$/, "")}`;
  if (row.jobState === "running")
    return `${name}: attempt ${row.attempt} is running, ${showSpan(row.startedAt, now)} after its start`;
  if (row.jobState === "queued" && row.nextRunAt !== null && row.nextRunAt > now) {
    return `${name}: attempt ${row.attempt + 1} starts in ${showMs(row.nextRunAt - now)}`;
  }
  if (row.jobState === "queued") return `${name}: a worker that starts attempt ${row.attempt + 1}`;
  return row.type === "playbook" ? `${name}: the run below, ${row.job}` : `${name}: its job ${row.job}`;
}

/** Which steps can still reach a step that was reached: those that run, and those that wait like it. */
function joinText({ playbook, progress, steps }: ReadRun, index: number): string {
  const { canReach } = graphOf(playbook);
  const { alive, pending } = progress.state;
  const busy = Object.entries(alive).flatMap(([key, count]) => (count > 0 ? [Number(key)] : []));
  const waiting = Object.entries(pending).flatMap(([key, list]) => (list.length > 0 ? [Number(key)] : []));
  const reach = [...new Set([...busy, ...waiting])].filter((each) => each !== index && canReach(each, index));
  const arrived = counted(pending[index]?.length ?? 0, "branch has", "branches have");
  if (reach.length === 0) return `${arrived} arrived; it starts when a place is free`;
  const named = reach.slice(0, MAX_NAMES).map((each) => {
    const name = playbook.steps[each]?.name ?? "";
    const row = steps.findLast((one) => one.step === name && one.item === null && isOpen(one.state));
    if (row === undefined) return `${name} (waits as well)`;
    const attempt = row.attempt > 0 ? `, attempt ${row.attempt}` : "";
    return `${name} (${stateText(row)}${attempt})`;
  });
  return `${arrived} arrived; it waits for ${named.join(", ")}, which can still reach it`;
}

// After a failure.

/** Steps below what failed, or was not routed, that have no row. */
function missed({ playbook, progress, steps }: ReadRun): number[] {
  const graph = graphOf(playbook);
  const rows = new Map(steps.map((row) => [row.n, row]));
  const { broken, unrouted, pending, end } = progress.state;
  const from = new Set<number>();
  for (const n of [...broken, ...unrouted, ...(end?.step == null ? [] : [end.step])]) {
    const index = graph.indexOf(rows.get(n)?.step ?? "");
    if (index !== undefined) from.add(index);
  }
  const started = new Set(steps.map(({ step }) => step));
  const waiting = new Set(Object.entries(pending).flatMap(([key, list]) => (list.length > 0 ? [Number(key)] : [])));
  const never: number[] = [];
  for (const [index, { name }] of playbook.steps.entries()) {
    if (started.has(name) || graph.handlers.has(index)) continue;
    const isBelow = [...from, ...waiting].some((each) => graph.canReach(each, index));
    if (isBelow || waiting.has(index) || steps.length === 0) never.push(index);
  }
  return never;
}

function repairLines({ run, progress, steps }: ReadRun, repair: string | null): string[] {
  if (repair === null) return [];
  const first = progress.state.end?.step ?? null;
  const cause = first === null ? run.failure : (steps.find(({ n }) => n === first)?.failure ?? run.failure);
  const isInvalid = cause?.class === "invalid" || run.reason === "invalid";
  const lines = [
    `To repeat what ${run.state === "failed" ? "failed" : "did not end"}, and keep what succeeded: ${repair}`,
  ];
  if (isInvalid) {
    const fix = run.playbook.version === null ? "--definition FILE" : "--latest";
    lines.push(`If the playbook must change first: perdure redrive ${run.id} ${fix}`);
  }
  return lines;
}
