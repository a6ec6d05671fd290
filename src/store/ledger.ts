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

// A job with a budget of tokens or money has a ledger. Each job refers to the nearest ledger above it, and each ledger
// to the next one above. What a running attempt holds of its budgets follows from its row (policy and reported usage),
// so a ledger only has sums. They change in the transaction that changes the row: reserved at the start, moved by each
// usage report, turned into spending at the end. Adapters read ledgers under lock, after the locks of the jobs and
// upper ledgers first, and write back those that changed.

/** Stored form: the job's number, the number of the next ledger above, and the budget as JSON. */
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

/** Ledgers that were read together with all ledgers above them. */
export class Ledgers {
  readonly #ledgers = new Map<number, Mutable<Ledger>>();
  readonly #changed = new Set<number>();

  constructor(rows: Iterable<LedgerRow> = []) {
    this.learn(rows);
  }

  /** Adds ledgers. Known ones are kept: they may have changed. */
  learn(rows: Iterable<LedgerRow>): void {
    for (const [no, above, body] of rows) {
      if (!this.#ledgers.has(no)) this.#ledgers.set(no, { no, above, budget: JSON.parse(body) as BudgetNow });
    }
  }

  has(no: number): boolean {
    return this.#ledgers.has(no);
  }

  /** The nearest first. A missing one was pruned with its job and no longer covers the jobs below it. */
  budgets(no: number | null): readonly BudgetNow[] {
    return no === null ? NO_BUDGETS : this.#line(no).map(({ budget }) => budget);
  }

  /** An attempt starts: reserves its estimate. */
  start({ budget, policy }: BudgetedJob): void {
    this.#add(budget, heldBy(policy, null), 1);
  }

  /** A running attempt has reported more usage. Returns whether to stop it: it spends, and a budget that covers it is
   *  used up. */
  move(job: BudgetedJob, before: Usage | null, after: Usage | null): boolean {
    const [was, is] = [amountOf(before), amountOf(after)];
    if (was.tokens !== is.tokens || was.costUsd !== is.costUsd) {
      this.#add(job.budget, heldBy(job.policy, before), -1);
      this.#add(job.budget, heldBy(job.policy, after), 1);
    }
    const { tokens, costUsd } = is;
    return tokens + costUsd > 0 && spentAbove(this.budgets(job.budget)) !== null;
  }

  /** A running attempt ends: frees what it held. */
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

  /** The changed ledgers to write, upper ones first; marks them as written. */
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

/** For every settle of a covered job: what the attempt held is freed before the decision. */
export function budgetsAtEnd(ledgers: Ledgers, job: StoredJob): readonly BudgetNow[] {
  if (job.budget === null) return NO_BUDGETS;
  ledgers.release(job);
  return ledgers.budgets(job.budget);
}

// Usage reported by running attempts, compared with the budget of their job.

/** Whether a running job has exceeded its budget, by the usage of earlier attempts and what this one has reported so
 *  far. */
export function isOverspent(policy: Policy, before: Usage | null, live: Usage | null): boolean {
  const { tokens, costUsd } = policy.budget;
  if (tokens === null && costUsd === null) return false;
  // An attempt without usage of its own may finish, as after a redrive of a job whose budget was used up before.
  if (live === null || live.tokensIn + live.tokensOut + live.costUsd === 0) return false;
  return spentBudget(policy, addUsage(before, live)) !== null;
}
