/** How an attempt ended, as reported by a worker or found by the reaper. The input of `decide`. */
import type { BudgetShortage } from "./budget.ts";
import type { Crash } from "./evidence.ts";
import type { Failure } from "./failure.ts";

/** How an attempt ended.
 *  @example
 *  const outcome: Outcome = { kind: "completed", result: { width: 640 } }; */
export type Outcome =
  /** The task did its work. `result` is the value; `statusCode` and `data` are given by executors that have them. */
  | {
      readonly kind: "completed";
      readonly result: unknown;
      readonly statusCode?: number | null;
      readonly data?: unknown;
    }
  | { readonly kind: "failed"; readonly failure: Failure }
  /** It ran longer than its timeout. */
  | { readonly kind: "timeout"; readonly failure: Failure }
  /** It was due for longer than `expireIn` and nobody started it. */
  | { readonly kind: "queue_timeout" }
  /** Its scheduling deadline passed. */
  | { readonly kind: "deadline" }
  /** It was due, and a budget above it had too little left: it was not started. */
  | { readonly kind: "over_budget"; readonly shortage: BudgetShortage }
  /** Lease expired, worker gone, or killed and nobody asked. */
  | {
      readonly kind: "lost";
      readonly why: "lease_expired" | "worker_gone" | "killed";
      readonly session: string | null;
      /** The session's last renewal: how long the run was seen alive. */
      readonly renewedAt: number | null;
      /** Who found it. */
      readonly by: string | null;
      /** What the loss says about the job; where nothing is said of it, that it was alone, and no other worker died. */
      readonly crash?: Crash;
    }
  /** It ended so that its children can be waited for; it runs again when all of these have ended. */
  | { readonly kind: "waiting"; readonly children: readonly string[] }
  /** Our own shutdown ended it. */
  | { readonly kind: "interrupted" }
  /** Handed back, or never heard of by its session: it had not started. */
  | { readonly kind: "released"; readonly session: string | null };

/** The names of the ways an attempt can end.
 *  @example
 *  const kind: OutcomeKind = "completed"; */
export type OutcomeKind = Outcome["kind"];
