/** Closes attempts that this process started, in one statement and without reading them first; all others are passed to
 *  settle-locked.ts. */
import { NO_BUDGETS } from "../../core/decision/budget.ts";
import { storedFailure, succeededText } from "../../core/job/lifecycle.ts";
import type { SettleAnswer } from "../../core/worker-protocol.ts";
import { acceptedAnswer, mayClose, reportIdOf, resultOf, type SettleItem, type SettleMove } from "../plan/settle.ts";
import { isPlainRetry, isPlainSuccess, STATE_CODES } from "../stored-job.ts";
import { bigints, ints, texts } from "./arrays.ts";
import type { PostgresContext } from "./context.ts";
import type { PgValue } from "./driver.ts";
import { writeJobEvents } from "./events.ts";
import { GroupCommit, type GroupVerb } from "./group.ts";

// Settles attempts in one round trip. A job that this process started and nobody changed since is cached: it is decided
// here, and the statement writes the decision only if the row, under its lock, still has that revision. Jobs that are
// not cached, have changed, or need more are locked, decided and written by settle-locked.ts.

/** True: written. False: the row had changed, and nothing was written. */
type Written = boolean;

const STILL = "j.no = m.no and j.revision = m.revision and j.state + 0 = 1 and j.live_usage is null";

export function settler(context: PostgresContext, locked: GroupCommit<SettleItem, SettleAnswer>) {
  const { started, generation, marks } = context;
  const succeed = new GroupCommit(succeedVerb(context), context.clock);
  const retry = new GroupCommit(retryVerb(context), context.clock);

  /** What can be decided without a read, or null. */
  function decideKnown(item: SettleItem): SettleMove | null {
    const { report, now } = item;
    const { outcome, from } = report;
    if (from.kind !== "worker" || (outcome.kind !== "completed" && outcome.kind !== "failed")) return null;
    if (report.log !== null || report.progress || report.usage !== null) return null;
    const job = started.get(report.jobId);
    if (job === undefined || job.handbacks > 0 || job.streak > 0) return null;
    started.delete(report.jobId);
    if (!mayClose(job, report, { now, generation, lease: null })) return null;
    try {
      const settlement = item.decide(job, report, {
        session: job.worker,
        renewedAt: null,
        ended: false,
        usage: null,
        budgets: NO_BUDGETS,
      });
      return { item, job, settlement };
    } catch {
      return null; // it will throw again where a single item can be refused
    }
  }

  return {
    async settle(items: readonly SettleItem[]): Promise<SettleAnswer[]> {
      const answers: SettleAnswer[] = new Array(items.length);
      const done: [number, SettleMove][] = [];
      const again: [number, SettleMove][] = [];
      const rest: number[] = [];
      // Several reports of one job are processed in order under its lock.
      const alone = new Set(items.map(({ report }) => report.jobId)).size === items.length;
      items.forEach((item, i) => {
        const decided = alone ? decideKnown(item) : null;
        if (decided === null) rest.push(i);
        else if (isPlainSuccess(decided.job, decided.settlement.next)) done.push([i, decided]);
        else if (isPlainRetry(decided.job, decided.settlement.next)) again.push([i, decided]);
        else rest.push(i);
      });
      const through = async (group: GroupCommit<SettleMove, Written>, list: readonly [number, SettleMove][]) => {
        const written = await group.submit(list.map(([, decided]) => decided));
        list.forEach(([i, decided], k) => {
          if (written[k] === true) answers[i] = answerOf(decided);
          else rest.push(i);
        });
      };
      await Promise.all([through(succeed, done), through(retry, again)]);
      const others = await locked.submit(rest.map((i) => items[i] as SettleItem));
      rest.forEach((i, k) => {
        answers[i] = others[k] as SettleAnswer;
      });
      return answers;
    },
    async drained(): Promise<void> {
      await Promise.all([succeed.drained(), retry.drained()]);
    },
  };

  function answerOf({ job, settlement }: SettleMove): SettleAnswer {
    const { state, runAt } = settlement.next;
    if (state === "queued") marks.put(job.lane, job.priority, runAt);
    return acceptedAnswer(settlement);
  }
}

function succeedVerb({ db, sql, wrote }: PostgresContext): GroupVerb<SettleMove, Written> {
  const [before, after] = succeededText(0).split('"attempt":0') as [string, string];
  const statement = sql(
    "succeed",
    `with done as (
       update $s.job j set state = ${STATE_CODES.succeeded}, finished_at = m.at, revision = j.revision + 1
       from unnest($1::bigint[], $2::int[], $3::bigint[], $4::text[], $5::text[]) with ordinality
         as m (no, revision, at, result, report_id, ord)
       where ${STILL}
       returning j.no, j.run, j.revision, j.attempt, j.chapter, j.session, j.started_at, m.at, m.result, m.report_id, m.ord
     ),
     closed as (
       insert into $s.attempt (job, attempt, chapter, session, started_at, ended_at, outcome, result, report_id, after_state)
       select no, attempt, chapter, session, started_at, at, 'completed', result, report_id, ${STATE_CODES.succeeded}
       from done
     ),
     -- the run of a step must react to its end
     sent as (
       insert into $s.inbox (job, kind, ref, at)
       select d.run, 'ended', b.id, d.at from done d join $s.submission b on b.job = d.no where d.run is not null
     ),
     ${writeJobEvents("done", "at", "'attempt.succeeded'", `'${before}"attempt":' || attempt || '${after}'`, "ord")}
     select no from done`,
  );
  return {
    inFlight: 2,
    together: 500,
    weigh: ({ item }) => resultOf(item.report)?.length ?? 0,
    async run(list) {
      const sorted = inOrder(list);
      const results = sorted.map(({ item }) => resultOf(item.report));
      const rows = await db.write(statement, [...known(sorted), texts(results), reportIds(sorted)], { repeat: true });
      wrote();
      return writtenOf(
        list,
        rows.map(([no]) => no as number),
      );
    },
  };
}

function retryVerb({ db, sql, wrote }: PostgresContext): GroupVerb<SettleMove, Written> {
  const statement = sql(
    "retry",
    `with again as (
       update $s.job j set state = ${STATE_CODES.queued}, run_at = m.run_at, failures = j.failures + 1,
         revision = j.revision + 1
       from unnest($1::bigint[], $2::int[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[],
         $9::text[]) with ordinality as m (no, revision, at, run_at, outcome, failure, report_id, data, result, ord)
       where ${STILL}
       returning j.no, j.revision, j.attempt, j.chapter, j.session, j.started_at, m.at, m.run_at, m.outcome, m.failure,
         m.report_id, m.data, m.result, m.ord
     ),
     closed as (
       insert into $s.attempt (job, attempt, chapter, session, started_at, ended_at, outcome, failure, result,
         report_id, after_state, after_run_at)
       select no, attempt, chapter, session, started_at, at, outcome, failure, result, report_id, ${STATE_CODES.queued},
         run_at
       from again
     ),
     ${writeJobEvents("again", "at", "'attempt.failed'", "data", "ord")}
     select no from again`,
  );
  return {
    inFlight: 2,
    together: 500,
    weigh: ({ item }) => resultOf(item.report)?.length ?? 0,
    async run(list) {
      const sorted = inOrder(list);
      const rows = await db.write(
        statement,
        [
          ...known(sorted),
          bigints(sorted.map(({ settlement }) => settlement.next.runAt)),
          texts(sorted.map(({ item }) => item.report.outcome.kind)),
          texts(sorted.map(failureJson)),
          reportIds(sorted),
          texts(sorted.map(({ settlement }) => JSON.stringify(settlement.event.data))),
          // The result of a completed attempt that is run again.
          texts(sorted.map(({ item }) => resultOf(item.report))),
        ],
        { repeat: true },
      );
      wrote();
      return writtenOf(
        list,
        rows.map(([no]) => no as number),
      );
    },
  };
}

function failureJson({ item, settlement }: SettleMove): string {
  return JSON.stringify(storedFailure(item.report.outcome, settlement.event));
}

/** Rows are always locked in the order of their numbers. */
function inOrder(list: readonly SettleMove[]): readonly SettleMove[] {
  return list.toSorted((a, b) => a.job.no - b.job.no);
}

function known(list: readonly SettleMove[]): PgValue[] {
  return [
    bigints(list.map(({ job }) => job.no)),
    ints(list.map(({ job }) => job.revision)),
    bigints(list.map(({ item }) => item.now)),
  ];
}

function reportIds(list: readonly SettleMove[]): PgValue {
  return texts(list.map(({ item }) => reportIdOf(item.report)));
}

function writtenOf(list: readonly SettleMove[], written: readonly number[]): Written[] {
  if (written.length === list.length) return list.map(() => true);
  const numbers = new Set(written);
  return list.map(({ job }) => numbers.has(job.no));
}

/** Appends log text to attempts: $1 jobs, $2 attempts, $3 texts. */
export const logStatement = `
  insert into $s.log_chunk (job, attempt, n, body)
  select m.job, m.attempt,
    coalesce((select max(l.n) from $s.log_chunk l where l.job = m.job and l.attempt = m.attempt), 0) + 1, m.body
  from unnest($1::bigint[], $2::int[], $3::text[]) as m (job, attempt, body)`;
