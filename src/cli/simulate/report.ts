/** The result of a simulation as text: a table of its steps, a chart over time, and statistics over many simulations. */
import { matchText } from "../../core/decision/match.ts";
import { showMs } from "../../core/duration.ts";
import { counted } from "../../core/format.ts";
import type { Distribution, MsRange, Percentiles, SimulatedStep, Simulation } from "../../core/simulate/simulate.ts";
import type { DialectEnd } from "../../dialects/simulated-end.ts";
import type { Printer } from "../output/print.ts";
import type { Column } from "../output/table.ts";
import { type Colour, padTo, painted, type TextPiece } from "../output/terminal-text.ts";

const COLUMNS: readonly Column[] = [
  { head: "ATTEMPT", side: "right" },
  { head: "START", side: "right" },
  { head: "TOOK", side: "right" },
  { head: "OUTCOME", flexible: true },
  { head: "DECISION" },
  { head: "WAIT", side: "right" },
  { head: "RANGE" },
  { head: "COUNTED" },
  { head: "DECIDED BY", flexible: true },
];

/** How many steps of a long schedule are shown, at its beginning and its end. */
const [FIRST, LAST] = [80, 20];

export function printSimulation(
  out: Printer,
  simulation: Simulation,
  dialect: DialectEnd | null,
  columns: number | undefined,
): void {
  const { steps } = simulation;
  const isLong = steps.length > FIRST + LAST;
  const shown = isLong ? [...steps.slice(0, FIRST), ...steps.slice(-LAST)] : steps;
  const takesTime = steps.some(({ tookMs }) => tookMs > 0);
  const rows = shown.map((step) => rowOf(step, takesTime));
  if (isLong) rows.splice(FIRST, 0, ["…", "", "", `${steps.length - FIRST - LAST} more: see --json`]);
  if (rows.length > 0) out.table(COLUMNS, rows);
  const chart = chartLines(simulation, columns, shown);
  if (chart.length > 0) out.block("");
  for (const line of chart) out.line(...line);
  if (rows.length > 0) out.block("");
  if (steps.some(({ dependsOnJitter }) => dependsOnJitter)) {
    out.line("With other jitter the job may end sooner or later: an attempt is due close to maxElapsed.");
  }
  const words = dialect === null ? "" : `; in the terms of ${dialect.dialect}: ${wordsOf(dialect)}`;
  out.line(...endOf(simulation), words);
}

function rowOf(step: SimulatedStep, takesTime: boolean): TextPiece[] {
  const { attempt, startMs, tookMs, outcome, decision, reason, delayMs, delayRangeMs, charge } = step;
  return [
    attempt === null ? "-" : String(attempt),
    showMs(startMs),
    takesTime ? showMs(tookMs) : "",
    painted(colourOf(step), outcome),
    reason === null ? decision : `${decision} (${reason})`,
    delayMs === null ? "" : showMs(delayMs),
    delayRangeMs === null ? "" : rangeText(delayRangeMs),
    charge === null ? "" : `${charge.to === "maxAttempts" ? "" : `${charge.to} `}${charge.used}/${charge.limit}`,
    decidedBy(step),
  ];
}

/** What matched: a rule, list, condition or switch; with the step, if that overrode it or decided alone. */
function decidedBy({ step, match }: SimulatedStep): string {
  if (match === null) return step;
  return step === "exhausted" || step === "elapsed" ? `${step}: ${matchText(match)}` : matchText(match);
}

/** `800 ms–1.2 s`, `1.6–2.4 s`; empty if the range is too small to show. */
function rangeText([leastMs, mostMs]: MsRange): string {
  const [least, most] = [showMs(leastMs), showMs(mostMs)];
  if (least === most) return "";
  const [number = "", unit = ""] = least.split(" ");
  return `${most.endsWith(` ${unit}`) ? number : least}–${most}`;
}

function endOf({ steps, end }: Simulation): TextPiece[] {
  const { state, reason, attempts, totalMs, totalRangeMs, stopped, nextRunMs } = end;
  const range = rangeText(totalRangeMs);
  const time = `${showMs(totalMs)} in all${range === "" ? "" : ` (${range})`}`;
  if (stopped !== null) {
    const why = stopped === "script" ? "the outcomes are used up" : "the limit of simulated steps is reached";
    const due = `the next attempt would be due after ${showMs(nextRunMs ?? 0)}`;
    return [painted("yellow", `still ${state}`), ` after ${counted(attempts, "attempt")}: ${why}; ${due}`];
  }
  const colour = state === "succeeded" ? "green" : state === "failed" ? "red" : "yellow";
  const named = reason === null ? state : `${state} (${reason})`;
  const because = steps.at(-1)?.because ?? "";
  return [painted(colour, named), ` after ${counted(attempts, "attempt")}, ${time}: ${because}`];
}

function wordsOf({ status, error }: DialectEnd): string {
  return error === null ? status : `${status}, ${error}`;
}

export function printDistribution(out: Printer, distribution: Distribution): void {
  const { runs, ends, attempts, totalMs, succeededShare, cutShort } = distribution;
  const named = ends.map(({ state, reason, count, share }) => {
    return { isSuccess: state === "succeeded", text: reason === null ? state : `${state} (${reason})`, count, share };
  });
  printEnds(out, named, { attempts, totalMs }, { runs, succeededShare });
  if (cutShort)
    out.note("fewer simulations than requested: they have too many attempts; lower --max-attempts or --runs");
}

interface ShownEnd {
  readonly isSuccess: boolean;
  readonly text: string;
  readonly count: number;
  readonly share: number;
}

/** How often each end is, and how the counts are spread. */
export function printEnds(
  out: Printer,
  ends: readonly ShownEnd[],
  spreads: { readonly steps?: Percentiles; readonly attempts: Percentiles; readonly totalMs: Percentiles },
  { runs, succeededShare }: { readonly runs: number; readonly succeededShare: number },
): void {
  out.table(
    [{ head: "END" }, { head: "COUNT", side: "right" }, { head: "SHARE", side: "right" }],
    ends.map(({ isSuccess, text, count, share }) => [
      painted(isSuccess ? "green" : "red", text),
      String(count),
      percent(share),
    ]),
  );
  out.block("");
  const heads = ["mean", "least", "p50", "p90", "p99", "most"] as const;
  const right = heads.map((head): Column => ({ head: head.toUpperCase(), side: "right" }));
  const spread = (name: string, of: Percentiles, show: (n: number) => string) => [
    name,
    ...heads.map((head) => show(of[head])),
  ];
  const number = (n: number) => String(Number(n.toFixed(2)));
  out.table(
    [{ head: "" }, ...right],
    [
      ...(spreads.steps === undefined ? [] : [spread("steps", spreads.steps, number)]),
      spread("attempts", spreads.attempts, number),
      spread("total time", spreads.totalMs, showMs),
    ],
  );
  out.block("");
  out.line(`${percent(succeededShare)} of ${counted(runs, "simulation")} succeeded`);
}

function percent(share: number): string {
  return `${Number((share * 100).toFixed(2))} %`;
}

// The schedule as bars over time: one line per attempt, followed by the wait for the next one and the range of its jitter.
// All lines share one scale, from the start to the latest possible time.

const DEFAULT_WIDTH = 80;
const MIN_BARS = 20;
const [RUN, WAIT, MAYBE] = ["█", "░", "·"];

type ChartLine = readonly TextPiece[];

/** Empty if no time passes. `columns` is the width of the terminal, if there is one. */
function chartLines(
  { steps, end }: Simulation,
  columns: number | undefined,
  shown: readonly SimulatedStep[],
): ChartLine[] {
  const lastMs = Math.max(end.totalMs, ...steps.map(latest));
  if (lastMs === 0) return [];
  const names = shown.map(nameOf);
  const labels = Math.max(...names.map((name) => name.length)) + 2;
  const width = Math.max(MIN_BARS, (columns ?? DEFAULT_WIDTH) - labels);
  const at = (ms: number) => Math.round((ms / lastMs) * (width - 1));
  const label = (text: string) => padTo(text, labels);
  const lines = shown.map((step, i): ChartLine => [label(names[i] as string), ...barOf(step, at)]);
  const scale = padTo(showMs(lastMs), width - 1, "right");
  lines.push([label(""), painted("dim", `0${scale}`)]);
  const isJittered = shown.some(({ delayRangeMs: range }) => range !== null && range[0] < range[1]);
  const jitter = isJittered ? `   ${MAYBE} where jitter may put the next attempt` : "";
  lines.push([label(""), painted("dim", `${RUN} attempt   ${WAIT} wait${jitter}`)]);
  return lines;
}

function nameOf({ attempt }: SimulatedStep): string {
  return attempt === null ? "no attempt" : `attempt ${attempt}`;
}

/** The latest instant shown in its line. */
function latest({ startMs, tookMs, delayMs, delayRangeMs }: SimulatedStep): number {
  return startMs + tookMs + Math.max(delayMs ?? 0, delayRangeMs?.[1] ?? 0);
}

function barOf(step: SimulatedStep, at: (ms: number) => number): TextPiece[] {
  const { startMs, tookMs, delayMs, delayRangeMs } = step;
  const from = at(startMs);
  const ended = startMs + tookMs;
  // At least one character wide.
  const to = Math.max(from + 1, at(ended));
  const [leastMs, mostMs] = delayRangeMs ?? [delayMs ?? 0, delayMs ?? 0];
  const sure = Math.max(to, at(ended + leastMs));
  const maybe = Math.max(sure, at(ended + mostMs));
  return [
    " ".repeat(from),
    painted(colourOf(step), (step.attempt === null ? WAIT : RUN).repeat(to - from)),
    painted("dim", WAIT.repeat(sure - to) + MAYBE.repeat(maybe - sure)),
  ];
}

/** Green: success; red: failure; yellow: neither. */
function colourOf({ decision, class: cls }: SimulatedStep): Colour {
  if (decision === "succeed") return "green";
  return decision === "cancel" || cls === "lost" || cls === "handback" || cls === "polled" ? "yellow" : "red";
}
