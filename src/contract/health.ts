/** A worker's figures as they travel: the wire has the names that operators of other systems know. */
import type { WorkerHealth } from "../core/work.ts";

export interface WireHealth {
  readonly consecutive_failures: number;
  readonly total: number;
  readonly failed: number;
  readonly average_ms: number;
  readonly in_hand: number;
  readonly slots: number;
  readonly load: number;
}

export function toWireHealth(health: WorkerHealth): WireHealth {
  const { consecutiveFailures, total, failed, averageMs, inHand, slots, load } = health;
  return {
    consecutive_failures: consecutiveFailures,
    total,
    failed,
    average_ms: averageMs,
    in_hand: inHand,
    slots,
    load,
  };
}

export function fromWireHealth(health: WireHealth): WorkerHealth {
  const { consecutive_failures, total, failed, average_ms, in_hand, slots, load } = health;
  return {
    consecutiveFailures: consecutive_failures,
    total,
    failed,
    averageMs: average_ms,
    inHand: in_hand,
    slots,
    load,
  };
}
