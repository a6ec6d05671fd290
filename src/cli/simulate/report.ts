/** A simulation in words: a table of its runs, and a line that says where it ends and why. */
import { showMs } from "../../core/duration.ts";
import { counted } from "../../core/show.ts";
import type { Range, SimulatedStep, Simulation } from "../../core/simulate.ts";
import type { Distribution, Spread } from "../../core/simulate-script.ts";
import type { DialectEnd } from "../../dialects/simulated-end.ts";
import { type Piece, painted } from "../colour.ts";
import { decidedBy } from "../follow/decided-by.ts";
import type { Printer } from "../print.ts";
import type { Column } from "../table.ts";
import { chartLines, colourOf } from "./chart.ts";

const COLUMNS: readonly Column[] = [
  { head: "RUN", side: "right" },
  { head: "START", side: "right" },
  { head: "TOOK", side: "right" },
  { head: "OUTCOME", flexible: true },
  { head: "DECISION" },
  { head: "WAIT", side: "right" },
  { head: "RANGE" },
  { head: "CHARGED" },
  { head: "DECIDED BY", flexible: true },
];

/** Of a longer schedule the beginning and the end are shown. */
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
    out.line("Other draws of jitter may end it sooner or later: a run is due close to maxElapsed.");
  }
  const words = dialect === null ? "" : `; in the words of ${dialect.dialect}: ${wordsOf(dialect)}`;
  out.line(...endOf(simulation), words);
}

function rowOf(step: SimulatedStep, takesTime: boolean): Piece[] {
  const { attempt, startMs, tookMs, outcome, decision, reason, delayMs, delayRangeMs, charge } = step;
  return [
    attempt === null ? "-" : String(attempt),
    showMs(startMs),
    takesTime ? showMs(tookMs) : "",
    painted(colourOf(step), outcome),
    reason === null ? decision : `${decision}: ${reason}`,
    delayMs === null ? "" : showMs(delayMs),
    delayRangeMs === null ? "" : rangeWords(delayRangeMs),
    charge === null ? "" : `${charge.to === "maxAttempts" ? "" : `${charge.to} `}${charge.used}/${charge.limit}`,
    `${decidedBy(step.matched, step.matchedPart)}, step ${step.step}`,
  ];
}

/** `800 ms–1.2 s`, `1.6–2.4 s`; nothing where there is none that could be seen. */
function rangeWords([leastMs, mostMs]: Range): string {
  const [least, most] = [showMs(leastMs), showMs(mostMs)];
  if (least === most) return "";
  const [number = "", unit = ""] = least.split(" ");
  return `${most.endsWith(` ${unit}`) ? number : least}–${most}`;
}

function endOf({ steps, end }: Simulation): Piece[] {
  const { state, reason, attempts, totalMs, totalRangeMs, stopped, nextRunMs } = end;
  const range = rangeWords(totalRangeMs);
  const time = `${showMs(totalMs)} in all${range === "" ? "" : ` (${range})`}`;
  if (stopped !== null) {
    const why = stopped === "script" ? "the outcomes are used up" : "no more steps are played";
    const due = `the next run would be due after ${showMs(nextRunMs ?? 0)}`;
    return [painted("yellow", `still ${state}`), ` after ${counted(attempts, "run")}: ${why}; ${due}`];
  }
  const colour = state === "succeeded" ? "green" : state === "failed" ? "red" : "yellow";
  const named = reason === null ? state : `${state} (${reason})`;
  const because = steps.at(-1)?.because ?? "";
  return [painted(colour, named), ` after ${counted(attempts, "run")}, ${time}: ${because}`];
}

function wordsOf({ status, error }: DialectEnd): string {
  return error === null ? status : `${status}, ${error}`;
}

export function printDistribution(out: Printer, distribution: Distribution): void {
  const { runs, ends, attempts, totalMs, cutShort } = distribution;
  out.table(
    [{ head: "END" }, { head: "COUNT", side: "right" }, { head: "SHARE", side: "right" }],
    ends.map(({ state, reason, count, share }) => [
      painted(state === "succeeded" ? "green" : "red", reason === null ? state : `${state} (${reason})`),
      String(count),
      percent(share),
    ]),
  );
  out.block("");
  const heads = ["mean", "least", "p50", "p90", "p99", "most"] as const;
  const right = heads.map((head): Column => ({ head: head.toUpperCase(), side: "right" }));
  const spread = (name: string, of: Spread, show: (n: number) => string) => [
    name,
    ...heads.map((head) => show(of[head])),
  ];
  out.table(
    [{ head: "" }, ...right],
    [spread("runs", attempts, (n) => String(Number(n.toFixed(2)))), spread("total time", totalMs, showMs)],
  );
  out.block("");
  out.line(`${percent(distribution.succeededShare)} of ${counted(runs, "simulation")} succeeded`);
  if (cutShort)
    out.note("fewer simulations than were asked for: they have too many runs; grant fewer, or ask for fewer");
}

function percent(share: number): string {
  return `${Number((share * 100).toFixed(2))} %`;
}
