/** A lane is what decides which workers may take a job: namespace, queue, kind and labels. */
import { CPU_LABEL, MEMORY_LABEL } from "../input/resources.ts";

export interface NewLane {
  readonly namespace: string;
  readonly queue: string;
  readonly kind: string;
  readonly labels: Readonly<Record<string, string>>;
}

/** What a session can serve. */
export interface Capability {
  readonly namespace: string;
  readonly kinds: readonly string[];
  /** Null: every queue of its namespace. */
  readonly queues: readonly string[] | null;
  readonly labels: Readonly<Record<string, string>>;
}

export function serves(session: Capability, lane: NewLane): boolean {
  if (lane.namespace !== session.namespace || !session.kinds.includes(lane.kind)) return false;
  if (session.queues !== null && !session.queues.includes(lane.queue)) return false;
  return Object.entries(lane.labels).every(([name, value]) =>
    isNeed(name) ? Number(session.labels[name]) >= Number(value) : session.labels[name] === value,
  );
}

/** Labels that state how much of a worker's cpu or memory each job needs: the worker must have at least that much. */
function isNeed(label: string): boolean {
  return label === CPU_LABEL || label === MEMORY_LABEL;
}

/** Labels as text, the same for the same labels in any order. */
export function labelText(labels: Readonly<Record<string, string>>): string {
  const names = Object.keys(labels).sort();
  return names.length === 0 ? "{}" : JSON.stringify(Object.fromEntries(names.map((name) => [name, labels[name]])));
}

export function laneName({ namespace, queue, kind, labels }: NewLane): string {
  return JSON.stringify([namespace, queue, kind, labelText(labels)]);
}
