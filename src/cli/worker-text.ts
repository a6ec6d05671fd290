/** Words for workers that several commands use. */
import { CPU_LABEL, MEMORY_LABEL, RESOURCE_PREFIX } from "../core/resources.ts";
import type { SessionRow } from "../core/views.ts";
import type { Colour } from "./colour.ts";

export type WorkerState = "alive" | "silent" | "draining" | "ended";

/** Silent: its lease is over, and nobody has heard of it since. */
export function workerState({ endedAt, leaseEndsAt, drainingAt }: SessionRow, now: number): WorkerState {
  if (endedAt !== null) return "ended";
  if (leaseEndsAt < now) return "silent";
  return drainingAt === null ? "alive" : "draining";
}

export const WORKER_COLOURS: Readonly<Record<WorkerState, Colour | null>> = {
  alive: "green",
  silent: "red",
  draining: "yellow",
  ended: "dim",
};

/** Cpus and memory as people give them, and not as the labels that they are. What the host has is not shown. */
export function labelWords(labels: SessionRow["labels"]): string {
  const words = Object.entries(labels).flatMap(([label, value]) => {
    if (label === CPU_LABEL) return [`cpu=${Number(value) / 1_000}`];
    if (label === MEMORY_LABEL) return [`memory=${aboutGigabytes(Number(value))}`];
    if (label.startsWith(RESOURCE_PREFIX)) return [];
    return [value === "" ? label : `${label}=${value}`];
  });
  return words.join(",");
}

function aboutGigabytes(bytes: number): string {
  return bytes < 2 ** 30 ? `${Math.round(bytes / 2 ** 20)}m` : `${Number((bytes / 2 ** 30).toFixed(1))}g`;
}
