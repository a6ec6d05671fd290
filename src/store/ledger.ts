/** Ledgers of budgets: what is reserved and spent under each, and whether running attempts have used it up. */

import type { Mutable } from "../core/check.ts";
import {
  type Amount,
  addAmount,
  amountOf,
  type BudgetLimit,
  type BudgetNow,
  heldBy,
  NO_AMOUNT,
  NO_BUDGETS,
  spentAbove,
  spentBudget,
} from "../core/decision/budget.ts";
import { addUsage, type Usage } from "../core/job/job.ts";
import type { Policy } from "../core/policy/policy.ts";
import { parseOrNull, type StoredJob } from "./stored-job.ts";

// Ledgers: what has been spent of each budget. A job with a budget of tokens or money has one; each job names the
// nearest of them, and each ledger the next above it. What an attempt holds of its budgets is known from its row (its
// policy and what it has reported), so a ledger has sums only. They change in the transaction that changes the row:
// taken at the start, moved by each report of usage, turned into what was spent at the end. Adapters read ledgers
// under their locks, the jobs' before the ledgers' and those above first, and write back the ones that changed.

/** As it is stored: its job's number, that of the next above, and the budget as JSON. */
export type LedgerRow = readonly [job: number, above: number | null, body: string];

interface Ledger {
  readonly no: number;
  readonly above: number | null;
  readonly budget: BudgetNow;
}

export function newLedger(jobId: string, { budget }: Policy, spent: Amount = NO_AMOUNT): string {
  const limit: BudgetLimit = { tokens: budget.tokens, costUsd: budget.costUsd };
  return JSON.stringify({ jobId, limit, spent, live: NO_AMOUNT, reserved: NO_AMOUNT } satisfies BudgetNow);
}

type BudgetedJob = Pick<StoredJob, "budget" | "policy">;

/** Ledgers that were read together, with all that are above them. */
export class Ledgers {
  readonly #ledgers = new Map<number, Mutable<Ledger>>();
  readonly #changed = new Set<number>();

  constructor(rows: Iterable<LedgerRow> = []) {
    this.learn(rows);
  }

  /** Those that are known stay as they are: they may have changed. */
  learn(rows: Iterable<LedgerRow>): void {
    for (const [no, above, body] of rows) {
      if (!this.#ledgers.has(no)) this.#ledgers.set(no, { no, above, budget: JSON.parse(body) as BudgetNow });
    }
  }

  has(no: number): boolean {
    return this.#ledgers.has(no);
  }

  /** The nearest first. One that is gone was pruned with its job: whoever outlives it is not covered any more. */
  budgets(no: number | null): readonly BudgetNow[] {
    return no === null ? NO_BUDGETS : this.#line(no).map(({ budget }) => budget);
  }

  /** An attempt starts: its estimate is reserved. */
  start({ budget, policy }: BudgetedJob): void {
    this.#add(budget, heldBy(policy, null), 1);
  }

  /** A running attempt has reported more. Whether it is to be stopped: it spends, and a budget that covers it is used up. */
  move(job: BudgetedJob, before: Usage | null, after: Usage | null): boolean {
    const [was, is] = [amountOf(before), amountOf(after)];
    if (was.tokens !== is.tokens || was.costUsd !== is.costUsd) {
      this.#add(job.budget, heldBy(job.policy, before), -1);
      this.#add(job.budget, heldBy(job.policy, after), 1);
    }
    const { tokens, costUsd } = is;
    return tokens + costUsd > 0 && spentAbove(this.budgets(job.budget)) !== null;
  }

  /** A running attempt ends: what it held is free. */
  release(job: BudgetedJob & Pick<StoredJob, "state" | "liveUsage">): void {
    if (job.state === "running") this.#add(job.budget, heldBy(job.policy, parseOrNull(job.liveUsage)), -1);
  }

  spend(no: number | null, usage: Usage | null): void {
    if (usage !== null) this.#add(no, { spent: amountOf(usage) }, 1);
  }

  limit(budgets: readonly BudgetNow[], no: number | null): void {
    for (const ledger of no === null ? [] : this.#line(no)) {
      const wanted = budgets.find(({ jobId }) => jobId === ledger.budget.jobId);
      if (wanted === undefined) continue;
      ledger.budget = { ...ledger.budget, limit: wanted.limit };
      this.#changed.add(ledger.no);
    }
  }

  /** What is to be written, those above first; they count as written then. */
  takeChanged(): { readonly no: number; readonly body: string }[] {
    const numbers = [...this.#changed].sort((a, b) => a - b);
    this.#changed.clear();
    return numbers.map((no) => ({ no, body: JSON.stringify((this.#ledgers.get(no) as Ledger).budget) }));
  }

  #line(no: number): Mutable<Ledger>[] {
    const line: Mutable<Ledger>[] = [];
    for (let next = this.#ledgers.get(no); next !== undefined; ) {
      line.push(next);
      next = next.above === null ? undefined : this.#ledgers.get(next.above);
    }
    return line;
  }

  #add(no: number | null, change: Partial<Pick<BudgetNow, "spent" | "live" | "reserved">>, sign: 1 | -1): void {
    if (no === null) return;
    for (const ledger of this.#line(no)) {
      const { budget } = ledger;
      const moved = (name: "spent" | "live" | "reserved") =>
        change[name] === undefined ? budget[name] : addAmount(budget[name], change[name], sign);
      ledger.budget = { ...budget, spent: moved("spent"), live: moved("live"), reserved: moved("reserved") };
      this.#changed.add(ledger.no);
    }
  }
}

/** Every settle of a job that is covered: what the attempt held is free before it is decided on. */
export function budgetsAtEnd(ledgers: Ledgers, job: StoredJob): readonly BudgetNow[] {
  if (job.budget === null) return NO_BUDGETS;
  ledgers.release(job);
  return ledgers.budgets(job.budget);
}

// What running attempts say they have used, against the budget of their job.

/** Has a running job, by what its earlier attempts used and what this one said so far, spent its budget? */
export function isOverspent(policy: Policy, before: Usage | null, live: Usage | null): boolean {
  const { tokens, costUsd } = policy.budget;
  if (tokens === null && costUsd === null) return false;
  // One that spends nothing itself may finish, as after a redrive of a job whose budget was spent before.
  if (live === null || live.tokensIn + live.tokensOut + live.costUsd === 0) return false;
  return spentBudget(policy, addUsage(before, live)) !== null;
}
