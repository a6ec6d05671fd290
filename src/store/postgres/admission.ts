/** What limits the due jobs that a claim may start: budgets above them, and the cpu and memory that running jobs of
 *  the host hold. Claims of one host that take any are serialized. */

import type { Resources } from "../../core/input/resources.ts";
import { startJob } from "../../core/job/lifecycle.ts";
import { hostName, type TakenResources } from "../lane-fairness.ts";
import type { OverBudgetJob } from "../store.ts";
import type { StoredJob } from "../stored-job.ts";
import { bigints, ints } from "./arrays.ts";
import type { PgConnection } from "./connections.ts";
import type { PostgresContext } from "./context.ts";
import type { PgRow, PgValue } from "./driver.ts";
import { writeJobEvents } from "./events.ts";
import { ledgerBook } from "./ledgers.ts";
import { JOB_COLUMNS, learnRows, type Move, moveValues, toJob, WRITE_MOVES } from "./rows.ts";
import type { SessionFacts } from "./sessions.ts";

// Starts due jobs that a budget covers: each reserves what it is estimated to spend, or fails where a budget above it
// has too little left. The statement of a claim only finds them, so that jobs without a budget cost nothing more.

export interface PostgresAdmitted {
  /** The numbers of those that were started, and their attempts. */
  readonly begun: readonly (readonly [number, number])[];
  readonly overBudget: readonly OverBudgetJob[];
}

export function admission(context: PostgresContext) {
  const { sql, interned } = context;
  const book = ledgerBook(context);
  const mayClaim = sql(
    "admit_session",
    `select 1 from $s.session where no = $1 and reaped = 0 and ended_at is null and draining_at is null
     and lease_ends_at >= $2 for key share`,
  );
  // Another claim may have been sooner: then it is left to that one.
  const lock = sql(
    "admit_lock",
    `select ${JOB_COLUMNS} from $s.job j join $s.submission b on b.job = j.no
     where j.no = any ($1::bigint[]) and j.state + 0 = 0 and j.run_at <= $2 order by j.no for update of j skip locked`,
  );
  const begin = sql(
    "admit_start",
    `with begun as (
       update $s.job j set state = 1, attempt = j.attempt + 1, revision = j.revision + 1, session = $1, started_at = $2,
         first_started_at = coalesce(j.first_started_at, $2), expires_at = null, check_at = null, avoid_session = null,
         progress = null, live_usage = null
       where j.no = any ($3::bigint[]) returning j.no, j.revision, j.attempt
     ),
     ${writeJobEvents("begun", "$2", "'attempt.started'", "$4::text || begun.attempt || $5::text")}
     select no, attempt from begun`,
  );
  const end = sql("admit_end", WRITE_MOVES);

  /** `told` is the text of a start before and after the number of the attempt. Within a transaction. */
  return async (
    { ask }: PgConnection,
    session: number,
    numbers: readonly number[],
    now: number,
    told: readonly [PgValue, PgValue],
  ): Promise<PostgresAdmitted> => {
    if ((await ask(mayClaim, [session, now])).length === 0) return { begun: [], overBudget: [] };
    const rows = await ask(lock, [bigints(numbers), now]);
    const names = await learnRows(interned, rows, { ask });
    const jobs = rows.map((row) => toJob(row, names));
    const ledgers = await book.lock(
      jobs.map(({ budget }) => budget),
      ask,
    );
    const chosen: number[] = [];
    const ended: Move[] = [];
    // As they stand in line: a job that comes first has the first right to what is left.
    for (const job of jobs.toSorted(byLine)) {
      const change = startJob(job, now, ledgers.budgets(job.budget));
      if (change !== null) {
        ended.push({ job, change, at: now, avoidSession: null });
        continue;
      }
      ledgers.start(job);
      chosen.push(job.no);
    }
    const begun = chosen.length === 0 ? [] : await ask(begin, [session, now, bigints(chosen), ...told]);
    if (ended.length > 0) await ask(end, moveValues(ended.toSorted((a, b) => a.job.no - b.job.no)));
    await book.write(ledgers, ask);
    return {
      begun: begun as unknown as PostgresAdmitted["begun"],
      overBudget: ended.map(({ job: { id, parentId } }) => ({ jobId: id, parentId })),
    };
  };
}

/** By priority, then longest due. */
export function byLine(a: StoredJob, b: StoredJob): number {
  return a.priority - b.priority || a.runAt - b.runAt || a.no - b.no;
}

// What running jobs take of their host's cpu and memory: one row for each that takes any, written by its claim. A row
// counts while its job runs that attempt, so that no way to end an attempt has to know of it. Claims of one host that
// take any go one after the other, under a lock of the transaction: two must not be promised the same.

export function holdKeeper({ db, sql, generation }: PostgresContext) {
  const isRunning = "j.no = h.job and j.state + 0 = 1 and j.attempt = h.attempt";
  const sum = sql(
    "hold_sum",
    `select coalesce(sum(h.cpu), 0)::bigint, coalesce(sum(h.memory), 0)::bigint,
       coalesce(sum(h.cpu) filter (where h.session = $1), 0)::bigint,
       coalesce(sum(h.memory) filter (where h.session = $1), 0)::bigint
     from $s.hold h join $s.job j on ${isRunning} where h.host = $2`,
  );
  const lock = sql("hold_lock", "select pg_advisory_xact_lock(hashtextextended($1::text, 0))");
  const dropEnded = sql(
    "hold_drop",
    `delete from $s.hold h where h.host = $1 and not exists (select from $s.job j where ${isRunning})`,
  );
  const add = sql(
    "hold_add",
    `insert into $s.hold (job, attempt, session, host, cpu, memory)
     select m.job, m.attempt, $3, $4, $5, $6 from unnest($1::bigint[], $2::int[]) as m (job, attempt)
     on conflict (job) do update set attempt = excluded.attempt, session = excluded.session, host = excluded.host,
       cpu = excluded.cpu, memory = excluded.memory`,
  );

  const toTaken = ([row = []]: PgRow[]): TakenResources => {
    const [hostCpu, hostMemory, cpu, memory] = row as number[];
    return {
      byHost: { cpu: hostCpu ?? 0, memory: hostMemory ?? 0 },
      bySession: { cpu: cpu ?? 0, memory: memory ?? 0 },
    };
  };

  return {
    /** As of now: by the time it is used, another claim of the host may have taken some. */
    taken: async (facts: SessionFacts): Promise<TakenResources> =>
      toTaken(await db.read(sum, [facts.no, hostName(facts)])),
    /** Nobody else on this host takes any until the transaction ends. */
    async lockedTaken(connection: PgConnection, facts: SessionFacts): Promise<TakenResources> {
      const host = hostName(facts);
      await connection.ask(lock, [`${generation}${host}`]);
      return toTaken(await connection.ask(sum, [facts.no, host]));
    },
    /** These jobs, of these attempts, were started just now, and take so much each. */
    async hold(
      connection: PgConnection,
      facts: SessionFacts,
      begun: readonly (readonly [number, number])[],
      needs: Resources,
    ) {
      const host = hostName(facts);
      await connection.ask(dropEnded, [host]);
      const [jobs, attempts] = [begun.map(([job]) => job), begun.map(([, attempt]) => attempt)];
      await connection.ask(add, [bigints(jobs), ints(attempts), facts.no, host, needs.cpu, needs.memory]);
    },
  };
}
