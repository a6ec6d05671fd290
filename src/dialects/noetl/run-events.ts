/** The events of a run in NoETL's format: those of the run, and between them the timeline of each step as NoETL's document shows it.
 *
 *    a run           execution_start … execution_complete, execution_failed or execution_cancelled, once
 *    a step          step_started, the timeline of its job, step_completed or step_failed_terminal
 *    a loop          step_started, the timelines of its items with loop_iteration, loop_completed, step_completed
 *
 *  A failure that an arc handles ends in step_failed_terminal, without execution_failed. The events of one step alone are exactly
 *  those of the document. step_skipped and step_cancelled are Perdure's own. Rows are in the order of the stored events. */
import type { JobEvent } from "../../core/job/event.ts";
import type { RunChange } from "../../core/run/run.ts";
import type { RunView, RunViewStep } from "../dialect.ts";
import { eventId, type NoetlEvent, type NoetlEventStatus, noetlEventGroups } from "./events.ts";
import type { NoetlNode } from "./node.ts";

interface SortedRow {
  readonly seq: number;
  readonly row: NoetlEvent;
}

export function noetlRunEvents(view: RunView): NoetlEvent[] {
  if (view.only !== undefined) return stepEvents(view, view.only);
  const known = knownRows(view);
  const rows = [
    ...view.events.flatMap((event) => ofRun(view, event, known)),
    ...view.steps.flatMap((one) => ofJob(view, one).filter(({ row }) => isOfStep(row, one))),
  ];
  return rows.sort((a, b) => a.seq - b.seq).map(({ row }) => row);
}

/** Facts about the rows of steps, by their number. */
interface KnownRows {
  readonly steps: ReadonlyMap<number, RunViewStep["step"]>;
  readonly loops: ReadonlySet<number>;
}

function knownRows({ steps, events }: RunView): KnownRows {
  const changes = events.flatMap((event) => (event.name === "run.advanced" ? event.data.changes : []));
  const loops = changes.flatMap((change) => (change.do === "start" && change.items !== undefined ? [change.n] : []));
  return { steps: new Map(steps.map(({ step }) => [step.n, step])), loops: new Set(loops) };
}

/** What the document shows for one task. */
function stepEvents(view: RunView, name: string): NoetlEvent[] {
  const found = view.steps.filter(({ step }) => step.step === name);
  const rows = found.flatMap((one) => {
    return ofJob(view, one).filter(({ row }) => row.event_type !== "execution_failed" || one.step.state === "failed");
  });
  return rows.sort((a, b) => a.seq - b.seq).map(({ row }) => row);
}

/** The run itself ends once, and an item is not a step of its own. */
function isOfStep({ event_type }: NoetlEvent, { step }: RunViewStep): boolean {
  if (event_type.startsWith("execution_")) return false;
  return step.item === null || (event_type !== "step_completed" && event_type !== "step_failed_terminal");
}

function ofJob(view: RunView, { step, parts }: RunViewStep): SortedRow[] {
  if (parts === null) return [];
  const node = nodeOfStep(view, step.n);
  return noetlEventGroups(parts).flatMap(({ seq, rows }) => {
    return rows.map((row) => ({ seq, row: { ...row, execution_id: view.run.id, ...node, ...itemOf(row, step.item) } }));
  });
}

function itemOf(row: NoetlEvent, item: number | null): Partial<NoetlEvent> {
  return item === null ? {} : { context: { ...row.context, loop_index: item } };
}

function nodeOfStep({ steps }: RunView, n: number): NoetlNode {
  const found = steps.find(({ step }) => step.n === n)?.step;
  const name = found?.step ?? "unknown";
  return { node_id: name, node_name: name, node_type: found?.type ?? "router" };
}

type RowParts = readonly [
  type: string,
  status: NoetlEventStatus,
  context: NoetlEvent["context"],
  error?: string | null,
];

function ofRun(view: RunView, event: JobEvent, known: KnownRows): SortedRow[] {
  const { run } = view;
  const name = run.playbook.path ?? run.playbook.name;
  const own: NoetlNode = { node_id: name, node_name: run.playbook.name, node_type: "playbook" };
  const made = (
    node: NoetlNode,
    [event_type, status, context, error = null]: RowParts,
    result: unknown = null,
    k = 0,
  ): SortedRow => ({
    seq: event.seq,
    row: {
      ...{ execution_id: run.id, event_id: eventId(event.seq, k), event_type, status, ...node, context, result, error },
      timestamp: new Date(event.at).toISOString(),
    },
  });
  switch (event.name) {
    case "job.submitted":
      return [made(own, ["execution_start", "STARTED", { path: run.playbook.path, version: run.playbook.version }])];
    case "job.cancel_requested":
      return [made(own, ["execution_cancel_requested", "PENDING", { by: event.data.by }])];
    case "job.redriven":
      return [made(own, ["execution_restarted", "PENDING", { by: event.data.by }])];
    case "job.discarded":
      return [made(own, ["execution_discarded", "FAILED", { by: event.data.by }])];
    case "run.ended": {
      const { state, reason, message, step } = event.data;
      if (state === "succeeded") return [made(own, ["execution_complete", "COMPLETED", {}], run.result ?? null)];
      if (state === "cancelled") return [made(own, ["execution_cancelled", "CANCELLED", {}])];
      return [made(own, ["execution_failed", "FAILED", { reason, step }, message])];
    }
    case "run.advanced":
      return event.data.changes.flatMap((change, i) => {
        return ofChange(change, known).map((parts, k) => {
          return made(nodeOfStep(view, (change as { readonly n: number }).n), parts, null, 4 * i + k);
        });
      });
    default:
      return [];
  }
}

const STEP_STATUS: Readonly<Record<string, NoetlEventStatus>> = {
  succeeded: "COMPLETED",
  skipped: "COMPLETED",
  handled: "FAILED",
  failed: "FAILED",
  cancelled: "CANCELLED",
};

/** The end of a step with a job is in that job's timeline; not if the step ended otherwise than its job, or the job is a run. */
function ofChange(change: RunChange, { steps, loops }: KnownRows): RowParts[] {
  if (change.do === "start") {
    return change.item === undefined ? [["step_started", "STARTED", startFacts(change)]] : [];
  }
  if (change.do !== "end") return [];
  const status = STEP_STATUS[change.state] ?? "COMPLETED";
  const why = change.why ?? null;
  if (change.item !== undefined) return [["loop_iteration", status, { loop_index: change.item }, why]];
  if (loops.has(change.n)) return [["loop_completed", status, {}, why], endOf(change, status)];
  const step = steps.get(change.n);
  const isOther = status === "FAILED" && step?.jobState === "succeeded";
  const isOwn = step == null || step.job === null || step.type === "playbook" || isOther;
  return isOwn || change.state === "cancelled" || change.state === "skipped" ? [endOf(change, status)] : [];
}

function startFacts({ visit, items }: RunChange & { readonly do: "start" }): NoetlEvent["context"] {
  return { ...(visit > 1 ? { visit } : {}), ...(items === undefined ? {} : { items }) };
}

function endOf(change: RunChange & { readonly do: "end" }, status: NoetlEventStatus): RowParts {
  const ended: Readonly<Record<string, string>> = {
    succeeded: "step_completed",
    skipped: "step_skipped",
    cancelled: "step_cancelled",
  };
  return [ended[change.state] ?? "step_failed_terminal", status, {}, change.why ?? null];
}
