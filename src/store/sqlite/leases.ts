/** Leases of claimed jobs: a session renews them, and a claim whose reply could not be delivered is withdrawn. */
import { mostUsage, type Usage } from "../../core/job/job.ts";
import type { HeldAttempt, RenewAnswer } from "../../core/worker-protocol.ts";
import { isOverspent, Ledgers } from "../ledger.ts";
import { noteUndelivered } from "../plan/claim.ts";
import type { RenewRequest, WithdrawRequest } from "../store.ts";
import { jsonOrNull, parseOrNull } from "../stored-job.ts";
import type { SqliteContext } from "./context.ts";
import { ledgerBook } from "./rows.ts";
import { logWriter } from "./settle.ts";
import type { SqliteVerb } from "./writer.ts";

// Renewals: one write extends the lease of everything a session holds. Usage, progress and logs of an attempt are
// stored only if the session still holds it.

interface SqliteRenewItem {
  readonly request: RenewRequest;
  readonly now: number;
}

interface RunningRow {
  readonly no: number;
  readonly id: string;
  readonly attempt: number;
  readonly started_at: number;
  readonly cancel_requested_at: number | null;
  readonly policy: number;
  readonly usage: string | null;
  readonly live_usage: string | null;
  readonly budget: number | null;
}

interface RenewingSession {
  readonly no: number;
  readonly lease_ms: number;
  readonly lease_ends_at: number;
  readonly reaped: number;
  readonly ended_at: number | null;
  readonly draining_at: number | null;
}

export function renewVerb(context: SqliteContext): SqliteVerb<SqliteRenewItem, RenewAnswer> {
  const { db, interned } = context;
  const session = db.prepare(
    "select no, lease_ms, lease_ends_at, reaped, ended_at, draining_at from session where id = ?",
  );
  const extend = db.prepare("update session set renewed_at = ?, lease_ends_at = ? where no = ?");
  const note = db.prepare("update session set health = ? where no = ?");
  const running = db.prepare(
    `select no, id, attempt, started_at, cancel_requested_at, policy, usage, live_usage, budget from job indexed by job_running
     where state = 1 and session = ?`,
  );
  const write = db.prepare(
    "update job set live_usage = coalesce(?, live_usage), progress = coalesce(?, progress) where no = ?",
  );
  const addLog = logWriter(context);
  const book = ledgerBook(context);

  function renewOne({ session: id, held, unheardAfterMs, health }: RenewRequest, now: number): RenewAnswer {
    const facts = session.get(id) as RenewingSession | undefined;
    if (facts === undefined || facts.reaped === 1 || facts.ended_at !== null) {
      return { alive: false, leaseMs: 0, drain: false, lost: held.map(named), cancel: [], overspent: [], unheard: [] };
    }
    extend.run(now, now + facts.lease_ms, facts.no);
    if (health !== undefined) note.run(jsonOrNull(health), facts.no);
    const rows = new Map((running.all(facts.no) as RunningRow[]).map((row) => [row.id, row]));
    const lost: RenewAnswer["lost"] = [];
    const cancel: RenewAnswer["cancel"] = [];
    const overspent: RenewAnswer["overspent"] = [];
    const ledgers = new Ledgers();
    for (const attempt of held) {
      const row = rows.get(attempt.jobId);
      if (row === undefined || row.attempt !== attempt.attempt) {
        lost.push(named(attempt));
        continue;
      }
      rows.delete(attempt.jobId);
      if (row.cancel_requested_at !== null) cancel.push(named(attempt));
      const before = parseOrNull<Usage>(row.live_usage);
      const live = mostUsage(before, attempt.usage ?? null);
      book.learn(ledgers, row.budget);
      const policy = interned.policy(row.policy);
      const isOver =
        row.budget === null
          ? isOverspent(policy, parseOrNull(row.usage), live)
          : ledgers.move({ budget: row.budget, policy }, before, live);
      if (isOver) overspent.push(named(attempt));
      store(row.no, attempt, live);
    }
    book.write(ledgers);
    const unheard = [...rows.values()]
      .filter((row) => row.started_at < now - (unheardAfterMs ?? facts.lease_ms))
      .map((row) => ({ jobId: row.id, attempt: row.attempt }));
    const wasOver = facts.lease_ends_at < now;
    const drain = facts.draining_at !== null;
    return { alive: true, leaseMs: facts.lease_ms, drain, wasOver, lost, cancel, overspent, unheard };
  }

  /** `live`: total usage, merged from all renewals. */
  function store(no: number, { attempt, usage, progress, log }: HeldAttempt, live: Usage | null): void {
    const used = usage == null ? null : live;
    if (used !== null || (progress ?? null) !== null) write.run(jsonOrNull(used), progress ?? null, no);
    if (log) addLog(no, attempt, log);
  }

  // Before reports: the log of an attempt that ends at the same time must still be stored.
  return { order: -1, run: (items) => items.map(({ request, now }) => renewOne(request, now)) };
}

function named({ jobId, attempt }: HeldAttempt) {
  return { jobId, attempt };
}

// Withdraws a claim whose reply could not be delivered. Only returns the jobs: the caller settles them as released.

interface ClaimRow {
  readonly session: number;
  readonly jobs: string;
  readonly deliveries: number;
  readonly undelivered: string;
}

export function withdrawVerb({ db }: SqliteContext): SqliteVerb<WithdrawRequest, { jobId: string; attempt: number }[]> {
  const find = db.prepare(
    `select c.session, c.jobs, c.deliveries, c.undelivered from session s cross join claim c on c.session = s.no
     where s.id = ? and c.claim_id = ?`,
  );
  const note = db.prepare("update claim set undelivered = ? where session = ? and claim_id = ?");
  const close = db.prepare("update claim set jobs = '[]' where session = ? and claim_id = ?");
  const held = db.prepare(
    `select j.id as jobId, j.attempt from json_each(?) as c cross join job j on j.no = c.value ->> 0
     where j.state = 1 and j.session = ? and j.attempt = c.value ->> 1`,
  );

  function withdrawOne({ session, claimId, delivery }: WithdrawRequest) {
    const claim = find.get(session, claimId) as ClaimRow | undefined;
    if (claim === undefined) return [];
    const { text, all } = noteUndelivered(claim.undelivered, delivery, claim.deliveries);
    note.run(text, claim.session, claimId);
    if (!all) return [];
    close.run(claim.session, claimId);
    return held.all(claim.jobs, claim.session) as { jobId: string; attempt: number }[];
  }

  return { order: 10, run: (items) => items.map(withdrawOne) };
}

// Usage that a running attempt reports of itself.

interface UsageCall {
  readonly jobId: string;
  readonly attempt: number;
  readonly usage: Usage;
}

interface UsingRow {
  readonly no: number;
  readonly live_usage: string | null;
  readonly policy: number;
  readonly budget: number | null;
}

export function usageVerb({ db, interned }: SqliteContext): SqliteVerb<UsageCall, boolean> {
  const running = db.prepare(
    "select no, live_usage, policy, budget from job where id = ? and attempt = ? and state = 1",
  );
  const tell = db.prepare("update job set live_usage = ? where no = ?");
  const book = ledgerBook({ db });
  function tellOne({ jobId, attempt, usage }: UsageCall): boolean {
    const row = running.get(jobId, attempt) as UsingRow | undefined;
    if (row === undefined) return false;
    const before = parseOrNull<Usage>(row.live_usage);
    const live = mostUsage(before, usage);
    tell.run(JSON.stringify(live), row.no);
    if (row.budget === null) return true;
    const ledgers = book.of(row.budget);
    ledgers.move({ budget: row.budget, policy: interned.policy(row.policy) }, before, live);
    book.write(ledgers);
    return true;
  }
  // Before reports, as renewals: what was used by a run that ends in the same moment is not lost.
  return { order: -1, run: (items) => items.map(tellOne) };
}
