/** Which runs have something to react to, and what: unread messages and due timers. Costs what is due, not what is live. */
import type { FailReason } from "../../core/job/job.ts";
import { JOB_STATES, type JobState } from "../../core/job/job.ts";
import type { DueTimer, LoadedRun, RunMessage, RunMessageKind, StepEnd, StepRow } from "../../core/run/run.ts";
import { MESSAGES, STEP_COLUMN_NAMES, toStep } from "../run-row.ts";
import type { DueRuns, DueRunsQuery } from "../store.ts";
import { parseOrNull, toFacts, toFailure } from "../stored-job.ts";
import type { SqliteContext } from "./context.ts";
import type { SqliteReader } from "./read.ts";
import type { SqliteRunReader } from "./run-reader.ts";

export function dueReader({ db }: SqliteContext): (query: DueRunsQuery) => DueRuns {
  // Oldest first. A run with thousands of messages is passed over row by row, which costs a tenth of reading them.
  const unread = db.prepare("select job, at from inbox where kept = 0 order by no");
  const timers = db.prepare("select job, due_at from timer indexed by timer_due where due_at <= ? order by due_at");
  const next = db.prepare("select due_at from timer indexed by timer_due where due_at > ? order by due_at limit 1");
  const idOf = db.prepare("select id from job where no = ?");
  for (const statement of [unread, timers, next, idOf]) statement.setReturnArrays(true);

  return ({ now, limit, writtenBefore = Number.POSITIVE_INFINITY }) => {
    const since = new Map<number, number>();
    for (const row of unread.iterate()) {
      const [job, at] = row as [number, number];
      if (at < writtenBefore && !since.has(job)) since.set(job, at);
      if (since.size >= limit) break;
    }
    const ofTimers = new Set<number>();
    for (const row of timers.iterate(now)) {
      const [job, at] = row as [number, number];
      since.set(job, Math.min(at, since.get(job) ?? at));
      ofTimers.add(job);
      if (ofTimers.size >= limit) break;
    }
    const longest = [...since].sort((a, b) => a[1] - b[1]).slice(0, limit);
    const runs = longest.flatMap(([no]) => (idOf.get(no) as [string] | undefined)?.[0] ?? []);
    return { runs, nextAt: (next.get(now) as [number] | undefined)?.[0] ?? null };
  };
}

/** How the job of a step ended, with the row of the step. */
type EndRow = readonly [
  ...[id: string, n: number | null, state: number, reason: string | null],
  ...[failed: string | null, runFailed: string | null],
];

export function runLoader(
  { db }: SqliteContext,
  stored: SqliteReader["stored"],
  runOf: SqliteRunReader["ofJob"],
): (id: string, now: number) => LoadedRun | null {
  const unread = db.prepare(
    `select no, kind, ref, at, body from inbox indexed by inbox_unread where job = ? and kept = 0
     order by no limit ${MESSAGES + 1}`,
  );
  const due = db.prepare("select n, due_at from timer where job = ? and due_at <= ? order by due_at, n limit ?");
  const ends = db.prepare(
    `select j.id, j.step, j.state, j.reason,
       (select failure from attempt a where a.job = j.no order by attempt desc limit 1),
       (select failure from run r where r.job = j.no)
     from json_each(?) as want cross join job j on j.id = want.value where j.run = ?`,
  );
  const columns = STEP_COLUMN_NAMES.map((name) => `s.${name}`).join(", ");
  const steps = db.prepare(
    `select ${columns} from json_each(?) as want cross join step s on s.run = ? and s.n = want.value order by s.n`,
  );
  const loopOf = db.prepare(
    `select ${columns} from step s where s.run = ? and s.node = ? and s.visit = ? and s.item = -1 order by s.try desc limit 1`,
  );
  for (const statement of [unread, due, ends, steps, loopOf]) statement.setReturnArrays(true);

  /** The rows that are meant, and those of the loops of items. */
  function stepsOf(run: number, numbers: ReadonlySet<number>): StepRow[] {
    if (numbers.size === 0) return [];
    const found = (steps.all(JSON.stringify([...numbers]), run) as unknown[][]).map(toStep);
    const loops = new Map<string, StepRow>();
    for (const { item, node, visit } of found) {
      const place = `${visit} ${node}`;
      if (item < 0 || loops.has(place)) continue;
      const row = loopOf.get(run, node, visit) as unknown[] | undefined;
      if (row !== undefined && !numbers.has(row[0] as number)) loops.set(place, toStep(row));
    }
    return loops.size === 0 ? found : [...found, ...loops.values()].sort((a, b) => a.n - b.n);
  }

  return (id, now) => {
    const job = stored(id);
    const run = job === null ? null : runOf(job);
    if (job === null || run === null) return null;
    const rows = unread.all(job.no) as [number, RunMessageKind, string | null, number, string | null][];
    const timers = (due.all(job.no, now, MESSAGES) as [number, number][]).map(([n, dueAt]): DueTimer => ({ n, dueAt }));
    if (rows.length + timers.length === 0) return null;
    const messages = rows
      .slice(0, MESSAGES)
      .map(([no, kind, ref, at, body]): RunMessage => ({ no, kind, ref, at, body: parseOrNull(body) }));
    const refs = messages.flatMap(({ kind, ref }) => (kind === "ended" && ref !== null ? [ref] : []));
    const numbers = new Set(timers.flatMap(({ n }) => (n > 0 ? [n] : [])));
    const found: Record<string, StepEnd> = {};
    for (const row of refs.length === 0 ? [] : (ends.all(JSON.stringify(refs), job.no) as unknown as EndRow[])) {
      const [ref, n, state, reason, failed, runFailed] = row;
      if (n !== null) numbers.add(n);
      const isFailed = JOB_STATES[state] === "failed";
      found[ref] = {
        state: JOB_STATES[state] as JobState,
        reason: reason as FailReason | null,
        failure: isFailed ? toFailure(runFailed ?? failed) : null,
      };
    }
    return {
      job: toFacts(job),
      run,
      messages,
      hasMoreMessages: rows.length > MESSAGES,
      timers,
      steps: stepsOf(job.no, numbers),
      ends: found,
    };
  };
}
