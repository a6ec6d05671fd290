/** How an attempt ended, as reported by a worker or detected by the reaper. The input of `decide`. */
import type { BudgetShortage } from "./budget.ts";
import type { Crash } from "./evidence.ts";
import type { Failure } from "./failure.ts";

/** How an attempt ended.
 *  @example
 *  const outcome: Outcome = { kind: "completed", result: { width: 640 } }; */
export type Outcome =
  /** The task completed with `result`; some executors add `statusCode` and `data`. */
  | {
      readonly kind: "completed";
      readonly result: unknown;
      readonly statusCode?: number | null;
      readonly data?: unknown;
    }
  | { readonly kind: "failed"; readonly failure: Failure }
  /** It ran longer than its timeout. */
  | { readonly kind: "timeout"; readonly failure: Failure }
  /** No worker started it within `expireIn` of its due time. */
  | { readonly kind: "queue_timeout" }
  /** Its deadline for starting passed. */
  | { readonly kind: "deadline" }
  /** It was due, and a budget above it had too little left: it was not started. */
  | { readonly kind: "over_budget"; readonly shortage: BudgetShortage }
  /** The lease expired, the worker exited, or the attempt was killed without a request. */
  | {
      readonly kind: "lost";
      readonly why: "lease_expired" | "worker_gone" | "killed";
      readonly session: string | null;
      /** The last renewal of the session. */
      readonly renewedAt: number | null;
      /** Who detected it. */
      readonly by: string | null;
      /** The circumstances; without them it is assumed that the job ran alone and no other worker was lost. */
      readonly crash?: Crash;
    }
  /** It ended to wait for these children, and runs again when all of them have ended. */
  | { readonly kind: "waiting"; readonly children: readonly string[] }
  /** Ended by the shutdown of its worker. */
  | { readonly kind: "interrupted" }
  /** Returned by its session before it started, or never received by it. */
  | { readonly kind: "released"; readonly session: string | null };

/** The kinds of outcomes.
 *  @example
 *  const kind: OutcomeKind = "completed"; */
export type OutcomeKind = Outcome["kind"];
