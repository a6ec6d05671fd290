/** Leases of claimed jobs: a session renews them, and a claim whose reply could not be delivered is withdrawn. */
import { mostUsage, type Usage } from "../../core/job/job.ts";
import type { HeldAttempt, RenewAnswer } from "../../core/worker-protocol.ts";
import type { InternedValues } from "../job-row.ts";
import { isOverspent } from "../ledger.ts";
import { noteUndelivered } from "../plan/claim.ts";
import type { RenewRequest, WithdrawRequest } from "../store.ts";
import { jsonOrNull, parseOrNull } from "../stored-job.ts";
import { bigints, ints, texts } from "./arrays.ts";
import type { PgConnection } from "./connections.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow } from "./driver.ts";
import { liveUsageWriter, NOT_HELD } from "./ledgers.ts";
import type { ReadSessionFacts } from "./sessions.ts";
import { logStatement } from "./settle.ts";

// Renewals: one write extends the lease of everything a session holds. Usage, progress and logs of an attempt are
// stored only if the session still holds it. Two statements, each its own transaction: no renewal waits for a job's row
// while it locks its session's.

interface RenewedAttempt {
  readonly no: number;
  readonly attempt: HeldAttempt;
  /** A budget covers the job. */
  readonly isCovered: boolean;
}

type HeldAttemptId = { readonly jobId: string; readonly attempt: number };

export function renewVerb(context: PostgresContext) {
  const { db, sql, interned } = context;
  const writeCovered = liveUsageWriter(context);
  const extend = sql(
    "renew",
    `with before as (select no, lease_ends_at from $s.session where id = $1)
     update $s.session s set renewed_at = $2::bigint, lease_ends_at = $2 + lease_ms,
       health = case when $3::boolean then $4::text else health end
     from before where s.no = before.no and s.reaped = 0 and s.ended_at is null
     returning s.no, s.lease_ms, s.draining_at is not null, before.lease_ends_at < $2`,
  );
  const running = sql(
    "renew_running",
    `select j.no, b.id, j.attempt, j.started_at, j.cancel_requested_at, j.policy, j.usage, j.live_usage, j.budget
     from $s.job j join $s.submission b on b.job = j.no where j.state = 1 and j.session = $1`,
  );
  const write = sql(
    "renew_tell",
    `update $s.job j set live_usage = ${mostOf("j.live_usage", "m.usage")}, progress = coalesce(m.progress, j.progress)
     from unnest($1::bigint[], $2::int[], $3::text[], $4::text[]) as m (no, attempt, usage, progress)
     where j.no = m.no and j.attempt = m.attempt and j.state + 0 = 1`,
  );
  const addLogs = sql("renew_logs", logStatement);

  async function renewOne(request: RenewRequest, now: number): Promise<RenewAnswer> {
    const { session, held, health } = request;
    const values = [session, now, health !== undefined, jsonOrNull(health ?? null)];
    const [facts] = await db.write(extend, values, { repeat: true, reserved: true });
    if (facts === undefined) {
      return { alive: false, leaseMs: 0, drain: false, lost: held.map(named), cancel: [], overspent: [], unheard: [] };
    }
    const [no, leaseMs, drain, wasOver] = facts as [number, number, boolean, boolean];
    const { unheardAfterMs = leaseMs } = request;
    const { rows, names } = await runningOf(no);
    const lost: HeldAttemptId[] = [];
    const cancel: HeldAttemptId[] = [];
    const overspent: HeldAttemptId[] = [];
    const reported: RenewedAttempt[] = [];
    for (const attempt of held) {
      const row = rows.get(attempt.jobId);
      if (row === undefined || row[2] !== attempt.attempt) {
        lost.push(named(attempt));
        continue;
      }
      rows.delete(attempt.jobId);
      if (row[4] !== null) cancel.push(named(attempt));
      if (row[8] === null && isSpent(row, attempt, names)) overspent.push(named(attempt));
      reported.push({ no: row[0] as number, attempt, isCovered: row[8] !== null });
    }
    const covered = reported.filter(({ isCovered }) => isCovered);
    const stopped = await writeCovered(
      covered.map(({ no, attempt }) => ({ ...attempt, no })),
      { reserved: true },
    );
    for (const { attempt } of covered) if (stopped.has(attempt.jobId)) overspent.push(named(attempt));
    await store(reported);
    const unheard = [...rows.values()]
      .filter((row) => (row[3] as number) < now - unheardAfterMs)
      .map((row) => ({ jobId: row[1] as string, attempt: row[2] as number }));
    return { alive: true, leaseMs, drain, wasOver, lost, cancel, overspent, unheard };
  }

  async function runningOf(session: number): Promise<{ rows: Map<string, PgRow>; names: InternedValues }> {
    const rows = await db.read(running, [session], { reserved: true });
    const policies = rows.map((row) => row[5] as number);
    const ask: PgConnection["ask"] = (statement, values) => db.read(statement, values, { reserved: true });
    const names = await interned.learn([], policies, [], ask);
    return { rows: new Map(rows.map((row) => [row[1] as string, row])), names };
  }

  function isSpent([, , , , , policy, before, live]: PgRow, { usage }: HeldAttempt, names: InternedValues): boolean {
    const most = mostUsage(parseOrNull<Usage>(live as string | null), usage ?? null);
    return isOverspent(names.policy(policy as number), parseOrNull(before as string | null), most);
  }

  async function store(reported: readonly RenewedAttempt[]): Promise<void> {
    const sorted = reported.toSorted((a, b) => a.no - b.no);
    // Usage of jobs under a budget was written together with their ledgers.
    const usageOf = ({ attempt, isCovered }: RenewedAttempt) => (isCovered ? null : (attempt.usage ?? null));
    const spoke = sorted.filter((each) => (usageOf(each) ?? each.attempt.progress ?? null) !== null);
    if (spoke.length > 0) {
      const values = [
        bigints(spoke.map(({ no }) => no)),
        ints(spoke.map(({ attempt }) => attempt.attempt)),
        texts(spoke.map((each) => jsonOrNull(usageOf(each)))),
        texts(spoke.map(({ attempt }) => attempt.progress ?? null)),
      ];
      await db.write(write, values, { repeat: true, reserved: true });
    }
    const logged = sorted.filter(({ attempt }) => attempt.log);
    if (logged.length > 0) {
      const values = [
        bigints(logged.map(({ no }) => no)),
        ints(logged.map(({ attempt }) => attempt.attempt)),
        texts(logged.map(({ attempt }) => attempt.log ?? null)),
      ];
      await db.write(addLogs, values, { reserved: true });
    }
  }

  return async (requests: readonly RenewRequest[], now: number): Promise<RenewAnswer[]> => {
    const answers: RenewAnswer[] = [];
    for (const request of requests) answers.push(await renewOne(request, now));
    return answers;
  };
}

function named({ jobId, attempt }: HeldAttempt): HeldAttemptId {
  return { jobId, attempt };
}

// Withdraws a claim whose reply could not be delivered. Only returns the jobs: the caller settles them as released.

export function withdrawVerb({ db, sql }: PostgresContext, sessionFacts: ReadSessionFacts) {
  // Under the session's lock, like claims with an id.
  const lock = sql(
    "withdraw_lock",
    "select 1 from $s.session where no = $1 and reaped = 0 and ended_at is null for no key update",
  );
  const find = sql(
    "withdraw_find",
    "select jobs, deliveries, undelivered from $s.claim where session = $1 and claim_id = $2",
  );
  const note = sql("withdraw_note", "update $s.claim set undelivered = $3 where session = $1 and claim_id = $2");
  const close = sql("withdraw_close", "update $s.claim set jobs = '[]' where session = $1 and claim_id = $2");
  const read = sql(
    "withdraw_read",
    `select j.no, b.id, j.attempt from $s.job j join $s.submission b on b.job = j.no
     where j.no = any ($1::bigint[]) and j.state + 0 = 1 and j.session = $2`,
  );

  return async ({ session, claimId, delivery }: WithdrawRequest) => {
    const facts = await sessionFacts(session);
    if (facts === null) return [];
    // A repeat after a commit whose answer was lost finds nothing: the jobs are then released when the session renews.
    return db.transaction(
      async (connection) => {
        if ((await connection.ask(lock, [facts.no])).length === 0) return [];
        const [claim] = await connection.ask(find, [facts.no, claimId]);
        if (claim === undefined) return [];
        const [jobs, deliveries, undelivered] = claim as [string, number, string];
        const { text, all } = noteUndelivered(undelivered, delivery, deliveries);
        await connection.ask(note, [facts.no, claimId, text]);
        if (!all) return [];
        await connection.ask(close, [facts.no, claimId]);
        const attempts = new Map(JSON.parse(jobs) as [number, number][]);
        const rows = await connection.ask(read, [bigints([...attempts.keys()]), facts.no]);
        return rows
          .filter(([no, , attempt]) => attempts.get(no as number) === attempt)
          .map(([, jobId, attempt]) => ({ jobId: jobId as string, attempt: attempt as number }));
      },
      { repeat: true },
    );
  };
}

// Usage reported by a running attempt.

export function usageVerb(context: PostgresContext) {
  const { db, sql } = context;
  const writeCovered = liveUsageWriter(context);
  const write = sql(
    "set_usage",
    `update $s.job j set live_usage = ${mostOf("j.live_usage", "$3::text")}
     from $s.submission b where b.id = $1 and j.no = b.job and j.attempt = $2 and j.state + 0 = 1 and j.budget is null
     returning j.no`,
  );
  const covered = sql(
    "set_usage_covered",
    `select j.no from $s.submission b join $s.job j on j.no = b.job
     where b.id = $1 and j.attempt = $2 and j.state + 0 = 1 and j.budget is not null`,
  );

  return async (jobId: string, attempt: number, usage: Usage): Promise<boolean> => {
    const [row] = await db.write(write, [jobId, attempt, JSON.stringify(usage)], { repeat: true });
    if (row !== undefined) return true;
    const [[no] = []] = await db.read(covered, [jobId, attempt]);
    if (no === undefined) return false;
    return (await writeCovered([{ no: no as number, jobId, attempt, usage }])) !== NOT_HELD;
  };
}

/** Of two usages, as JSON text or null, the larger number in each field: reported usage never shrinks. */
function mostOf(stored: string, reported: string): string {
  const field = (name: string) =>
    `'${name}', greatest((${stored}::json ->> '${name}')::numeric, (${reported}::json ->> '${name}')::numeric)`;
  const fields = ["tokensIn", "tokensOut", "costUsd"].map(field).join(", ");
  return `case when ${stored} is null or ${reported} is null then coalesce(${reported}, ${stored})
    else json_build_object(${fields})::text end`;
}
