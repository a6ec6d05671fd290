/** Which runs have something to react to, and what: unread messages and due timers. Costs what is due, not what is live. */
import type { FailReason } from "../../core/job/job.ts";
import { JOB_STATES, type JobState } from "../../core/job/job.ts";
import type { DueTimer, LoadedRun, RunMessage, RunMessageKind, StepEnd, StepRow } from "../../core/run/run.ts";
import { MESSAGES, RUN_COLUMNS, STEP_COLUMN_NAMES, toRun, toStep } from "../run-row.ts";
import type { DueRuns, DueRunsQuery, KnownRuns } from "../store.ts";
import { parseOrNull, STATE_CODES, toFacts, toFailure } from "../stored-job.ts";
import type { SqliteContext } from "./context.ts";
import { JOB_COLUMNS, JOB_WIDTH, toJob } from "./rows.ts";

export function dueReader({ db }: SqliteContext): (query: DueRunsQuery) => DueRuns {
  // Oldest first. A run with thousands of messages is passed over row by row, which costs a tenth of reading them.
  const unread = db.prepare("select job, at from inbox where kept = 0 order by no");
  const timers = db.prepare("select job, due_at from timer indexed by timer_due where due_at <= ? order by due_at");
  const next = db.prepare("select due_at from timer indexed by timer_due where due_at > ? order by due_at limit 1");
  const idOf = db.prepare("select j.id from run r cross join job j on j.no = r.job where r.job = ?");
  for (const statement of [unread, timers, next, idOf]) statement.setReturnArrays(true);

  return ({ now, limit, writtenBefore = Number.POSITIVE_INFINITY }) => {
    const since = new Map<number, number>();
    for (const row of unread.iterate()) {
      const [job, at] = row as [number, number];
      // A time to come is that of a clock which was set back since: nobody handles the message.
      if ((at < writtenBefore || at > now) && !since.has(job)) since.set(job, Math.min(at, now));
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

type LoadRuns = (ids: readonly string[], now: number, known?: KnownRuns) => (LoadedRun | null)[];

type HeadRow = [id: string, no: number, revision: number];
type MessageRow = [job: number, no: number, kind: RunMessageKind, ref: string | null, at: number, body: string | null];
type TimerRow = [job: number, n: number, dueAt: number];

/** How the job of a step ended; the row of the step follows. */
type EndRow = [run: number, ref: string, state: number, reason: string | null, failure: string | null, ...unknown[]];
const END_COLUMNS = 5;

/** What is loaded of one run, before its row. */
interface DueParts {
  readonly messages: RunMessage[];
  readonly timers: DueTimer[];
  readonly ends: Record<string, StepEnd>;
  readonly steps: Map<number, StepRow>;
}

/** With more rows than this for all runs together, each is read alone: one may have thousands. */
const ROWS = 2_000;

/** Reads all runs of a call together: a statement costs as much as several rows. */
export function runLoader({ db, interned }: SqliteContext): LoadRuns {
  const columns = STEP_COLUMN_NAMES.map((name) => `s.${name}`).join(", ");
  const heads = db.prepare(
    "select j.id, j.no, j.revision from json_each(?) as want cross join job j on j.id = want.value cross join run r on r.job = j.no",
  );
  const rows = db.prepare(
    `select ${JOB_COLUMNS.replaceAll(/\w+/g, "j.$&")}, ${RUN_COLUMNS}
     from json_each(?) as want cross join job j on j.no = want.value cross join run r on r.job = j.no
     cross join run_data d on d.run = j.no cross join playbook p on p.no = r.playbook`,
  );
  const unread = db.prepare(
    `select job, no, kind, ref, at, body from inbox indexed by inbox_unread
     where job in (select value from json_each(?)) and kept = 0 order by job, no limit ?`,
  );
  const due = db.prepare(
    `select job, n, due_at from timer
     where job in (select value from json_each(?)) and due_at <= ? order by job, due_at, n limit ?`,
  );
  const ends = db.prepare(
    `select j.run, j.id, j.state, j.reason,
       case when j.state = ${STATE_CODES.failed} then coalesce(
         (select failure from run r where r.job = j.no),
         (select failure from attempt a where a.job = j.no order by attempt desc limit 1)) end, ${columns}
     from json_each(?) as want cross join job j on j.id = want.value cross join step s on s.run = j.run and s.n = j.step`,
  );
  const steps = db.prepare(
    `select s.run, ${columns} from json_each(?) as want
     cross join step s on s.run = want.value ->> 0 and s.n = want.value ->> 1`,
  );
  const loopOf = db.prepare(
    `select ${columns} from step s where s.run = ? and s.node = ? and s.visit = ? and s.item = -1 order by s.try desc limit 1`,
  );
  for (const statement of [heads, rows, unread, due, ends, steps, loopOf]) statement.setReturnArrays(true);

  function partsOf(numbers: readonly number[], now: number): Map<number, DueParts> {
    const parts = new Map<number, DueParts>();
    const of = (run: number): DueParts => {
      let found = parts.get(run);
      if (found === undefined) {
        found = { messages: [], timers: [], ends: {}, steps: new Map() };
        parts.set(run, found);
      }
      return found;
    };
    const refs: string[] = [];
    for (const [job, no, kind, ref, at, body] of pageOf(
      numbers,
      (list, limit) => unread.all(list, limit) as MessageRow[],
    )) {
      const { messages } = of(job);
      if (messages.length > MESSAGES) continue;
      messages.push({ no, kind, ref, at, body: parseOrNull(body) });
      if (messages.length > MESSAGES) continue; // only counts
      if (kind === "ended" && ref !== null) refs.push(ref);
    }
    const waits: [number, number][] = [];
    for (const [job, n, dueAt] of pageOf(numbers, (list, limit) => due.all(list, now, limit) as TimerRow[])) {
      const { timers } = of(job);
      if (timers.length >= MESSAGES) continue;
      timers.push({ n, dueAt });
      if (n > 0) waits.push([job, n]);
    }
    for (const row of refs.length === 0 ? [] : (ends.all(JSON.stringify(refs)) as unknown as EndRow[])) {
      const [run, ref, state, reason, failure] = row;
      const found = of(run);
      found.ends[ref] = {
        state: JOB_STATES[state] as JobState,
        reason: reason as FailReason | null,
        failure: toFailure(failure),
      };
      const step = toStep(row.slice(END_COLUMNS));
      found.steps.set(step.n, step);
    }
    for (const row of waits.length === 0 ? [] : (steps.all(JSON.stringify(waits)) as unknown[][])) {
      const step = toStep(row.slice(1));
      of(row[0] as number).steps.set(step.n, step);
    }
    for (const [run, found] of parts) addLoops(run, found.steps);
    return parts;
  }

  /** The rows of the loops of items. */
  function addLoops(run: number, found: Map<number, StepRow>): void {
    const places = new Set<string>();
    for (const { item, node, visit } of [...found.values()]) {
      const place = `${visit} ${node}`;
      if (item < 0 || places.has(place)) continue;
      places.add(place);
      const row = loopOf.get(run, node, visit) as unknown[] | undefined;
      if (row !== undefined) found.set(row[0] as number, toStep(row));
    }
  }

  return (ids, now, known) => {
    const found = new Map<string, HeadRow>();
    for (const row of heads.all(JSON.stringify(ids)) as HeadRow[]) found.set(row[0], row);
    const numbers = [...found.values()].map(([, no]) => no);
    const parts = partsOf(numbers, now);
    const facts = new Map<string, Pick<LoadedRun, "job" | "run">>();
    const unknown: number[] = [];
    for (const [id, no, revision] of found.values()) {
      if (!parts.has(no)) continue;
      const own = known?.(id, revision);
      if (own === undefined) unknown.push(no);
      else facts.set(id, own);
    }
    for (const row of unknown.length === 0 ? [] : (rows.all(JSON.stringify(unknown)) as unknown[][])) {
      const job = toJob(row, interned);
      facts.set(job.id, { job: toFacts(job), run: toRun(row.slice(JOB_WIDTH), job.id, job.namespace) });
    }
    return ids.map((id): LoadedRun | null => {
      const own = facts.get(id);
      const due = parts.get(found.get(id)?.[1] ?? 0);
      if (own === undefined || due === undefined) return null;
      const { messages, timers, ends, steps } = due;
      return {
        job: own.job,
        run: own.run,
        messages: messages.length > MESSAGES ? messages.slice(0, MESSAGES) : messages,
        hasMoreMessages: messages.length > MESSAGES,
        timers,
        steps: steps.size < 2 ? [...steps.values()] : [...steps.values()].sort((a, b) => a.n - b.n),
        ends,
      };
    });
  };
}

/** Rows of all these runs, at most one more of each than an advance reads. */
function pageOf<Row>(numbers: readonly number[], read: (list: string, limit: number) => Row[]): Row[] {
  const rows = read(JSON.stringify(numbers), ROWS);
  if (rows.length < ROWS) return rows;
  return numbers.flatMap((no) => read(JSON.stringify([no]), MESSAGES + 1));
}
