/** A schedule as bars over time: one line per run, and behind it the wait for the next, with the part where jitter may put
 *  that run. All lines share one scale, from the beginning to the latest time that may occur. */
import { showMs } from "../../core/duration.ts";
import type { SimulatedStep, Simulation } from "../../core/simulate.ts";
import { type Colour, type Piece, painted } from "../colour.ts";
import { padTo } from "../terminal-text.ts";

const DEFAULT_WIDTH = 80;
const MIN_BARS = 20;
const [RUN, WAIT, MAYBE] = ["█", "░", "·"];

export type Line = readonly Piece[];

/** Empty where no time passes at all. `columns` is the width of the terminal, if there is one. */
export function chartLines(
  { steps, end }: Simulation,
  columns: number | undefined,
  shown: readonly SimulatedStep[],
): Line[] {
  const lastMs = Math.max(end.totalMs, ...steps.map(latest));
  if (lastMs === 0) return [];
  const names = shown.map(nameOf);
  const labels = Math.max(...names.map((name) => name.length)) + 2;
  const width = Math.max(MIN_BARS, (columns ?? DEFAULT_WIDTH) - labels);
  const at = (ms: number) => Math.round((ms / lastMs) * (width - 1));
  const label = (text: string) => padTo(text, labels);
  const lines = shown.map((step, i): Line => [label(names[i] as string), ...barOf(step, at)]);
  const scale = padTo(showMs(lastMs), width - 1, "right");
  lines.push([label(""), painted("dim", `0${scale}`)]);
  const isJittered = shown.some(({ delayRangeMs: range }) => range !== null && range[0] < range[1]);
  const jitter = isJittered ? `   ${MAYBE} where jitter may put the next run` : "";
  lines.push([label(""), painted("dim", `${RUN} run   ${WAIT} wait${jitter}`)]);
  return lines;
}

function nameOf({ attempt }: SimulatedStep): string {
  return attempt === null ? "no run" : `run ${attempt}`;
}

/** The latest instant that its line shows. */
function latest({ startMs, tookMs, delayMs, delayRangeMs }: SimulatedStep): number {
  return startMs + tookMs + Math.max(delayMs ?? 0, delayRangeMs?.[1] ?? 0);
}

function barOf(step: SimulatedStep, at: (ms: number) => number): Piece[] {
  const { startMs, tookMs, delayMs, delayRangeMs } = step;
  const from = at(startMs);
  const ended = startMs + tookMs;
  // Seen, however short it was.
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

/** Good, bad, or nobody's fault. */
export function colourOf({ decision, class: cls }: SimulatedStep): Colour {
  if (decision === "succeed") return "green";
  return decision === "cancel" || cls === "lost" || cls === "handback" || cls === "polled" ? "yellow" : "red";
}
