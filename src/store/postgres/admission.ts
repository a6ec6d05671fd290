/** What limits the due jobs that a claim may start: budgets above them, and cpu and memory held by running jobs of the
 *  host. Claims that need capacity of the same host are serialized. */

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

// Starts due jobs covered by a budget: each reserves its estimated spending, or fails if a budget above it has too
// little left. The claim statement only finds them, so jobs without a budget cost nothing extra.

export interface PostgresAdmitted {
  /** The started jobs by number, with their attempts. */
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
  // Skips jobs that another claim has started meanwhile.
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

  /** `eventParts` is the JSON of a start event before and after the attempt number. Within a transaction. */
  return async (
    { ask }: PgConnection,
    session: number,
    numbers: readonly number[],
    now: number,
    eventParts: readonly [PgValue, PgValue],
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
    // In claim order: a job that comes first has the first right to what is left.
    for (const job of jobs.toSorted(byLine)) {
      const change = startJob(job, now, ledgers.budgets(job.budget));
      if (change !== null) {
        ended.push({ job, change, at: now, avoidSession: null });
        continue;
      }
      ledgers.start(job);
      chosen.push(job.no);
    }
    const begun = chosen.length === 0 ? [] : await ask(begin, [session, now, bigints(chosen), ...eventParts]);
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

// Cpu and memory held on a host: one row per running job with needs, written by its claim. A row counts only while its
// job runs that attempt, so code that ends attempts need not delete it. Claims on one host are serialized by a lock of
// the transaction: capacity must not be given away twice.

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
    /** A snapshot: another claim on the host may take some before it is used. */
    taken: async (facts: SessionFacts): Promise<TakenResources> =>
      toTaken(await db.read(sum, [facts.no, hostName(facts)])),
    /** Locks the host's capacity until the transaction ends. */
    async lockedTaken(connection: PgConnection, facts: SessionFacts): Promise<TakenResources> {
      const host = hostName(facts);
      await connection.ask(lock, [`${generation}${host}`]);
      return toTaken(await connection.ask(sum, [facts.no, host]));
    },
    /** Records the needs of jobs and attempts that were just started. */
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
