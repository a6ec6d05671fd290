/** Starts due jobs that a budget covers: each reserves what it is estimated to spend, or fails where a budget above it has too
 *  little left. The statement of a claim only finds them, so that jobs without a budget cost nothing more. */
import { type Settlement, startJob } from "../../core/lifecycle.ts";
import type { EndedJob } from "../store.ts";
import type { StoredJob } from "../stored-job.ts";
import { bigints, texts } from "./arrays.ts";
import type { Connection } from "./connections.ts";
import type { Context } from "./context.ts";
import type { Value } from "./driver.ts";
import { tellJobs } from "./events.ts";
import { ledgerBook } from "./ledgers.ts";
import { JOB_COLUMNS, learnRows, progressValues, toJob, WRITE_MOVES } from "./rows.ts";

export interface Admitted {
  /** The numbers of those that were started, and their attempts. */
  readonly begun: readonly (readonly [number, number])[];
  readonly overBudget: readonly EndedJob[];
}

export function admission(context: Context) {
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
     ${tellJobs("begun", "$2", "'attempt.started'", "$4::text || begun.attempt || $5::text")}
     select no, attempt from begun`,
  );
  const end = sql("admit_end", WRITE_MOVES);

  /** `told` is the text of a start before and after the number of the attempt. Within a transaction. */
  return async (
    { ask }: Connection,
    session: number,
    numbers: readonly number[],
    now: number,
    told: readonly [Value, Value],
  ): Promise<Admitted> => {
    if ((await ask(mayClaim, [session, now])).length === 0) return { begun: [], overBudget: [] };
    const rows = await ask(lock, [bigints(numbers), now]);
    const names = await learnRows(interned, rows, { ask });
    const jobs = rows.map((row) => toJob(row, names));
    const ledgers = await book.lock(
      jobs.map(({ budget }) => budget),
      ask,
    );
    const chosen: number[] = [];
    const ended: { job: StoredJob; made: Settlement }[] = [];
    // As they stand in line: a job that comes first has the first right to what is left.
    for (const job of jobs.toSorted(byLine)) {
      const made = startJob(job, now, ledgers.budgets(job.budget));
      if (made !== null) {
        ended.push({ job, made });
        continue;
      }
      ledgers.start(job);
      chosen.push(job.no);
    }
    const begun = chosen.length === 0 ? [] : await ask(begin, [session, now, bigints(chosen), ...told]);
    if (ended.length > 0) await ask(end, endValues(ended, now));
    await book.write(ledgers, ask);
    return {
      begun: begun as unknown as Admitted["begun"],
      overBudget: ended.map(({ job: { id, parentId } }) => ({ jobId: id, parentId })),
    };
  };
}

/** By priority, then longest due. */
export function byLine(a: StoredJob, b: StoredJob): number {
  return a.priority - b.priority || a.runAt - b.runAt || a.no - b.no;
}

function endValues(list: readonly { job: StoredJob; made: Settlement }[], now: number): Value[] {
  const sorted = list.toSorted((a, b) => a.job.no - b.job.no);
  return [
    ...progressValues(sorted.map(({ job, made }) => ({ job, next: made.next, avoidSession: null }))),
    bigints(sorted.map(() => now)),
    texts(sorted.map(({ made }) => made.event.name)),
    texts(sorted.map(({ made }) => JSON.stringify(made.event.data))),
  ];
}
