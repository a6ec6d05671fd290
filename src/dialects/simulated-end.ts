/** The end of a simulated job in the terms of the system that the preset is named after. Uses the same views as real jobs. */
import { jobName } from "../core/job/job-name.ts";
import type { PresetName } from "../core/policy/policy.ts";
import type { Simulation } from "../core/simulate/simulate.ts";
import { agentStatus } from "./agent-task/status.ts";
import { attuneView } from "./attune/view.ts";
import type { DialectName, ViewParts } from "./dialect.ts";
import { flusterStatus } from "./fluster/view.ts";
import { type NoetlEvent, noetlEvents } from "./noetl/events.ts";
import { opalJob } from "./opal/job.ts";

export interface DialectEnd {
  readonly dialect: DialectName;
  /** Its state, or the types of its last events. */
  readonly status: string;
  readonly error: string | null;
}

type SimulatedEndReader = (parts: ViewParts) => DialectEnd;

const END_READERS: Readonly<Record<Exclude<PresetName, "default">, SimulatedEndReader>> = {
  opal: ({ job, attempts, workerName }) => {
    const { status, error } = opalJob(job, attempts, workerName);
    return { dialect: "opal", status, error };
  },
  fluster: (parts) => {
    const { state, error } = flusterStatus(parts);
    return { dialect: "fluster", status: state, error };
  },
  noetl: (parts) => {
    const events = noetlEvents(parts);
    // What followed the last attempt, whose first event is its end.
    const since = events.slice(events.findLastIndex(({ event_type }) => event_type === "action_started") + 2);
    const status = since.map(nameOf).join(", ");
    return { dialect: "noetl", status: status || "queued", error: events.at(-1)?.error ?? null };
  },
  attune: (parts) => {
    const { status, error } = attuneView(parts);
    return { dialect: "attune", status, error };
  },
  agent: (parts) => {
    const { phase, message, lastFailureReason } = agentStatus(parts);
    return {
      dialect: "agent-task",
      status: phase,
      error: phase === "Completed" ? null : (lastFailureReason ?? message),
    };
  },
};

/** With the condition that stopped the retries. */
function nameOf({ event_type, context: { decided_by: by } }: NoetlEvent): string {
  return by === "retry_when" || by === "stop_when" ? `${event_type} (${by})` : event_type;
}

/** Null for Perdure's own preset. `annotations` are those from the job's file. */
export function simulatedEnd(
  { job, attempts, events }: Pick<Simulation, "job" | "attempts" | "events">,
  annotations: Readonly<Record<string, string>> = {},
): DialectEnd | null {
  const { preset } = job.policy;
  if (preset === "default") return null;
  const shown = { annotations, payload: null, name: jobName({ ...job, annotations }), failure: null };
  const info = { ...job, ...shown, liveUsage: null, budgets: [], result: undefined, progress: undefined };
  return END_READERS[preset]({ job: info, attempts, events, workerName: (session) => session });
}
