/** A playbook, or a run of it, as a graph: drawn with boxes, as Mermaid, or as JSON. Of a run, each step shows the latest visit with
 *  its state and time, and a loop how many of its items ended. Arcs that lead back are named in their box and not drawn. */
import type { StepInfo } from "../api/runs.ts";
import { showMs } from "../duration.ts";
import { counted, showText } from "../format.ts";
import { graphOf } from "../playbook/graph.ts";
import type { Playbook, PlaybookArc, PlaybookStep } from "../playbook/playbook.ts";
import { type DrawnBox, drawGraph } from "./graph-drawing.ts";
import type { GraphFormat } from "./graph-format.ts";
import { isOpen, type StepState } from "./run.ts";
import type { LoopCounts, RunHistory } from "./run-history.ts";

/** What is known of a run. */
export interface GraphRun {
  /** Items of loops are not read. */
  readonly steps: readonly StepInfo[];
  readonly history: RunHistory;
  readonly now: number;
}

export const STATE_MARKS: Readonly<Record<StepState | "none", string>> = {
  open: "▸",
  waiting: "◷",
  looping: "▸",
  succeeded: "✓",
  skipped: "–",
  handled: "!",
  failed: "✗",
  cancelled: "⊘",
  none: "·",
};

/** More boxes, or wider drawings, are a list. */
const MAX_BOXES = 80;
const MAX_WIDTH = 180;

export function graphText(playbook: Playbook, format: GraphFormat, run: GraphRun | null = null): string {
  const nodes = nodesOf(playbook, run);
  if (format === "json") return `${JSON.stringify(jsonOf(playbook, nodes, run), null, 2)}\n`;
  const lines = format === "mermaid" ? mermaid(playbook, nodes, run) : ascii(playbook, nodes, run);
  return `${lines.join("\n")}\n`;
}

interface GraphNode {
  readonly step: PlaybookStep;
  readonly index: number;
  /** The latest visit; null of a step that never started, and without a run. */
  readonly row: StepInfo | null;
  readonly loop: LoopCounts | null;
}

function nodesOf(playbook: Playbook, run: GraphRun | null): GraphNode[] {
  const latest = new Map<string, StepInfo>();
  for (const row of run?.steps ?? []) {
    const before = latest.get(row.step);
    if (row.item === null && (before === undefined || isLater(row, before))) latest.set(row.step, row);
  }
  return playbook.steps.map((step, index) => {
    const row = latest.get(step.name) ?? null;
    return { step, index, row, loop: (row && run?.history.loops.get(row.n)) ?? null };
  });
}

function isLater(a: StepInfo, b: StepInfo): boolean {
  return a.visit === b.visit ? a.try > b.try || (a.try === b.try && a.n > b.n) : a.visit > b.visit;
}

/** `http`, `loop of task resize`, `routes`. */
export function typeText({ action, loop }: PlaybookStep): string {
  const type = action === null ? "routes" : action.type === "task" ? `task ${action.task}` : action.type;
  return loop === null ? type : `loop of ${type}`;
}

/** `7/10 ✓ 1 ✗`: of all items, those that succeeded and those that failed. */
export function loopText({ total, succeeded, failed }: LoopCounts): string {
  const bad = failed === 0 ? "" : ` ${failed} ✗`;
  return `${succeeded}/${total} ✓${bad}`;
}

function timeText(row: StepInfo, now: number): string {
  if (row.state === "waiting" && row.waitsUntil !== null) return `due in ${showMs(Math.max(0, row.waitsUntil - now))}`;
  return showMs(Math.max(0, (row.endedAt ?? now) - row.startedAt));
}

function boxLines({ step, row, loop }: GraphNode, handler: string | null, run: GraphRun | null): string[] {
  const kind = [typeText(step), ...(handler === null ? [] : [handler])].join(" · ");
  if (run === null) return [step.name, kind];
  if (row === null) return [`${STATE_MARKS.none} ${step.name}`, kind];
  const visit = row.visit > 1 ? ` (visit ${row.visit})` : "";
  // A step that only routes takes no time.
  const facts = [kind, ...(step.action === null && step.loop === null ? [] : [timeText(row, run.now)])];
  if (loop !== null) facts.push(loopText(loop));
  if (row.attempt > 1) facts.push(counted(row.attempt, "attempt"));
  return [`${STATE_MARKS[row.state]} ${step.name}${visit}`, facts.join(" · ")];
}

function handlersOf(playbook: Playbook): ReadonlyMap<number, string> {
  const names = new Map<number, string>();
  for (const index of playbook.finally) names.set(index, "finally");
  for (const index of playbook.onFailure) names.set(index, "on failure");
  return names;
}

function ascii(playbook: Playbook, nodes: readonly GraphNode[], run: GraphRun | null): string[] {
  const marks = run === null ? [] : [marksText(nodes), ""];
  const handlers = handlersOf(playbook);
  const drawn = drawSteps(
    playbook,
    nodes.filter(({ index }) => !handlers.has(index)),
    run,
  );
  if (nodes.length > MAX_BOXES || drawn.some((line) => line.length > MAX_WIDTH)) {
    return [...marks, ...listed(playbook, nodes, run)];
  }
  const parts = [drawn, conditionLines(playbook, run)];
  for (const [title, steps] of [
    ["On failure:", playbook.onFailure],
    ["Finally:", playbook.finally],
  ] as const) {
    if (steps.length > 0)
      parts.push([
        title,
        ...drawInTurn(
          steps.map((index) => nodes[index] as GraphNode),
          run,
        ),
      ]);
  }
  return [
    ...marks,
    ...parts.filter((lines) => lines.length > 0).flatMap((lines, i) => (i === 0 ? lines : ["", ...lines])),
  ];
}

function drawSteps(playbook: Playbook, nodes: readonly GraphNode[], run: GraphRun | null): string[] {
  const { isBackArc } = graphOf(playbook);
  const places = new Map(nodes.map(({ index }, place) => [index, place]));
  if (nodes.length > MAX_BOXES) return [];
  const boxes = nodes.map((node): DrawnBox => {
    const to = [...new Set(node.step.arcs.map((arc) => arc.to))];
    const back = to.filter((each) => isBackArc(node.index, each)).map((each) => `↺ ${playbook.steps[each]?.name}`);
    return {
      lines: [...boxLines(node, null, run), ...back],
      to: to.flatMap((each) => (isBackArc(node.index, each) ? [] : (places.get(each) ?? []))),
    };
  });
  return drawGraph(boxes);
}

/** Handlers run one after another. */
function drawInTurn(nodes: readonly GraphNode[], run: GraphRun | null): string[] {
  return drawGraph(
    nodes.map((node, i) => ({ lines: boxLines(node, null, run), to: i + 1 < nodes.length ? [i + 1] : [] })),
  );
}

/** The marks that occur, and what they mean. */
function marksText(nodes: readonly GraphNode[]): string {
  const stateOf = ({ row }: GraphNode) => (row === null ? "none" : row.state === "looping" ? "open" : row.state);
  const states = new Set<StepState | "none">(nodes.map(stateOf));
  const named = (state: StepState | "none") =>
    state === "open" ? "running" : state === "none" ? "not started" : state === "handled" ? "failed, handled" : state;
  const used = (Object.keys(STATE_MARKS) as (StepState | "none")[]).filter((state) => states.has(state));
  return used.map((state) => `${STATE_MARKS[state]} ${named(state)}`).join("   ");
}

/** One step a line, with its arcs below it. */
function listed(playbook: Playbook, nodes: readonly GraphNode[], run: GraphRun | null): string[] {
  const handlers = handlersOf(playbook);
  return nodes.flatMap((node) => {
    const [name = "", facts = ""] = boxLines(node, handlers.get(node.index) ?? null, run);
    return [`${name}   ${facts}`, ...node.step.arcs.map((arc, i) => `  ${arcText(playbook, node.index, arc, i, run)}`)];
  });
}

/** Arcs that need more words than a line in a drawing. */
function conditionLines(playbook: Playbook, run: GraphRun | null): string[] {
  return playbook.steps.flatMap((step, index) =>
    step.arcs.flatMap((arc, i) => {
      if (arc.when === null && arc.on === "success") return [];
      return [`${step.name} ${arcText(playbook, index, arc, i, run)}`];
    }),
  );
}

function arcText(playbook: Playbook, from: number, arc: PlaybookArc, i: number, run: GraphRun | null): string {
  const route = run?.history.routes.get(from);
  const taken = route === undefined ? "" : route.taken.includes(i) ? " (taken)" : " (not taken)";
  return `→ ${playbook.steps[arc.to]?.name}${conditionText(arc)}${taken}`;
}

/** ` when …`, ` after a failure`; empty for an arc that is always eligible after a success. */
export function conditionText({ when, on }: PlaybookArc): string {
  const after = on === "failure" ? " after a failure" : on === "always" && when === null ? " always" : "";
  return when === null ? after : `${after} when ${showText(withoutBraces(when), 160)}`;
}

function withoutBraces(when: string): string {
  return /^\s*\{\{-?\s*([\s\S]*?)\s*-?\}\}\s*$/.exec(when)?.[1] ?? when.trim();
}

function mermaid(playbook: Playbook, nodes: readonly GraphNode[], run: GraphRun | null): string[] {
  const handlers = handlersOf(playbook);
  const lines = ["flowchart TD"];
  for (const node of nodes) {
    const text = boxLines(node, handlers.get(node.index) ?? null, run)
      .map(escaped)
      .join("<br/>");
    const [open, close] =
      node.step.action === null ? ["([", "])"] : node.step.loop === null ? ["[", "]"] : ["[[", "]]"];
    lines.push(`  s${node.index}${open}"${text}"${close}`);
  }
  for (const { step, index } of nodes) {
    for (const [i, arc] of step.arcs.entries()) {
      const label = conditionText(arc).trim();
      const isTaken = run?.history.routes.get(index)?.taken.includes(i) === true;
      lines.push(`  s${index} ${isTaken ? "==>" : "-->"}${label === "" ? "" : `|"${escaped(label)}"|`} s${arc.to}`);
    }
  }
  if (run === null) return lines;
  for (const [state, style] of Object.entries(STYLES)) {
    const members = nodes.filter(({ row }) => row?.state === state).map(({ index }) => `s${index}`);
    if (members.length > 0) lines.push(`  classDef ${state} ${style}`, `  class ${members.join(",")} ${state}`);
  }
  return lines;
}

const STYLES: Readonly<Record<StepState, string>> = {
  open: "fill:#dbeafe,stroke:#1d4ed8",
  waiting: "fill:#ede9fe,stroke:#6d28d9",
  looping: "fill:#dbeafe,stroke:#1d4ed8",
  succeeded: "fill:#dcfce7,stroke:#15803d",
  skipped: "fill:#f3f4f6,stroke:#9ca3af",
  handled: "fill:#fef9c3,stroke:#a16207",
  failed: "fill:#fee2e2,stroke:#b91c1c",
  cancelled: "fill:#f3f4f6,stroke:#6b7280",
};

/** Nothing in a label ends it, or is HTML. */
function escaped(text: string): string {
  return text.replaceAll(/[#"<>&`{}[\]()|]/g, (char) => `#${char.codePointAt(0)};`);
}

function jsonOf(playbook: Playbook, nodes: readonly GraphNode[], run: GraphRun | null) {
  const handlers = handlersOf(playbook);
  return {
    name: playbook.name,
    path: playbook.path,
    entry: playbook.steps[playbook.entry]?.name ?? null,
    steps: nodes.map(({ step, index, row, loop }) => ({
      step: step.name,
      type: step.action?.type ?? null,
      loop: step.loop !== null,
      handler: handlers.get(index) === undefined ? null : handlers.get(index) === "finally" ? "finally" : "onFailure",
      ...(run === null ? {} : { run: row === null ? null : rowJson(row, loop) }),
    })),
    arcs: nodes.flatMap(({ step, index }) =>
      step.arcs.map((arc, i) => {
        const route = run?.history.routes.get(index);
        return {
          from: step.name,
          to: playbook.steps[arc.to]?.name ?? null,
          when: arc.when,
          on: arc.on,
          ...(run === null ? {} : { taken: route === undefined ? null : route.taken.includes(i) }),
        };
      }),
    ),
  };
}

function rowJson(row: StepInfo, loop: LoopCounts | null) {
  const { n, visit, state, attempt, startedAt, endedAt, waitsUntil } = row;
  const items = loop === null ? null : { total: loop.total, succeeded: loop.succeeded, failed: loop.failed };
  return { n, visit, try: row.try, state, isOpen: isOpen(state), attempt, startedAt, endedAt, waitsUntil, items };
}
