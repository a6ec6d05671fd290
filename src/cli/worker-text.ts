/** Words for workers that several commands use. */
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
