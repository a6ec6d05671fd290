/** Renewals: one write extends the lease of everything a session holds. What it tells of its attempts (usage,
 *  progress, log) is stored only where the attempt is still its own. Two statements, each a transaction by itself: no
 *  renewal ever waits for a job's row while it holds its session's. */
import { mostUsage, type Usage } from "../../core/job.ts";
import type { HeldAttempt, RenewAnswer } from "../../core/work.ts";
import type { Meanings } from "../job-row.ts";
import { isOverspent } from "../live-usage.ts";
import type { RenewRequest } from "../store.ts";
import { jsonOrNull, parseOrNull } from "../stored-job.ts";
import { bigints, ints, texts } from "./arrays.ts";
import type { Connection } from "./connections.ts";
import type { Context } from "./context.ts";
import type { Row } from "./driver.ts";
import { liveTeller } from "./live-ledgers.ts";
import { logStatement } from "./logs.ts";
import { mostOf } from "./waits.ts";

interface Told {
  readonly no: number;
  readonly attempt: HeldAttempt;
  /** A budget covers the job. */
  readonly isCovered: boolean;
}

type Place = { readonly jobId: string; readonly attempt: number };

export function renewVerb(context: Context) {
  const { db, sql, interned } = context;
  const tellCovered = liveTeller(context);
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
  const tell = sql(
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
    const lost: Place[] = [];
    const cancel: Place[] = [];
    const overspent: Place[] = [];
    const told: Told[] = [];
    for (const attempt of held) {
      const row = rows.get(attempt.jobId);
      if (row === undefined || row[2] !== attempt.attempt) {
        lost.push(named(attempt));
        continue;
      }
      rows.delete(attempt.jobId);
      if (row[4] !== null) cancel.push(named(attempt));
      if (row[8] === null && isSpent(row, attempt, names)) overspent.push(named(attempt));
      told.push({ no: row[0] as number, attempt, isCovered: row[8] !== null });
    }
    const covered = told.filter(({ isCovered }) => isCovered);
    const stopped = await tellCovered(
      covered.map(({ no, attempt }) => ({ ...attempt, no })),
      { reserved: true },
    );
    for (const { attempt } of covered) if (stopped.has(attempt.jobId)) overspent.push(named(attempt));
    await store(told);
    const unheard = [...rows.values()]
      .filter((row) => (row[3] as number) < now - unheardAfterMs)
      .map((row) => ({ jobId: row[1] as string, attempt: row[2] as number }));
    return { alive: true, leaseMs, drain, wasOver, lost, cancel, overspent, unheard };
  }

  async function runningOf(session: number): Promise<{ rows: Map<string, Row>; names: Meanings }> {
    const rows = await db.read(running, [session], { reserved: true });
    const policies = rows.map((row) => row[5] as number);
    const ask: Connection["ask"] = (statement, values) => db.read(statement, values, { reserved: true });
    const names = await interned.learn([], policies, [], ask);
    return { rows: new Map(rows.map((row) => [row[1] as string, row])), names };
  }

  function isSpent([, , , , , policy, before, live]: Row, { usage }: HeldAttempt, names: Meanings): boolean {
    const most = mostUsage(parseOrNull<Usage>(live as string | null), usage ?? null);
    return isOverspent(names.policy(policy as number), parseOrNull(before as string | null), most);
  }

  async function store(told: readonly Told[]): Promise<void> {
    const sorted = told.toSorted((a, b) => a.no - b.no);
    // What jobs under a budget have used was written together with their ledgers.
    const usageOf = ({ attempt, isCovered }: Told) => (isCovered ? null : (attempt.usage ?? null));
    const spoke = sorted.filter((each) => (usageOf(each) ?? each.attempt.progress ?? null) !== null);
    if (spoke.length > 0) {
      const values = [
        bigints(spoke.map(({ no }) => no)),
        ints(spoke.map(({ attempt }) => attempt.attempt)),
        texts(spoke.map((each) => jsonOrNull(usageOf(each)))),
        texts(spoke.map(({ attempt }) => attempt.progress ?? null)),
      ];
      await db.write(tell, values, { repeat: true, reserved: true });
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

function named({ jobId, attempt }: HeldAttempt): Place {
  return { jobId, attempt };
}
