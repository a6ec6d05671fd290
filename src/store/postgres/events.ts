/** How events are numbered. A statement draws one number for all its events, when the rows they tell of are written and
 *  locked: so a job's events are in the order of their numbers, and the transaction has its own number before (feed.ts).
 *  Drawn row by row they cost as much as the rows themselves. */

/** More than the events of any statement. */
export const BATCH = 4_096;

/** The number of the statement's batch, once all of `rows` is there; no row where there is none. */
export function batchAfter(rows: string): string {
  return `batch as materialized (
    select nextval('$s.event_seq') * ${BATCH} as base from (select count(*) as n from ${rows}) counted where n > 0
  )`;
}

/** Writes an event for each of `rows`, as parts of a statement. */
export function tell(
  rows: string,
  event: { job: string; n: string; at: string; name: string; data: string },
  place = "row_number() over ()",
): string {
  return `${batchAfter(rows)},
  told as (
    insert into $s.event (seq, job, n, at, name, data)
    select batch.base + ${place}, ${event.job}, ${event.n}, ${event.at}, ${event.name}, ${event.data}
    from batch cross join ${rows}
  )`;
}

/** Events of jobs: `rows` has no and revision, and may have each row's place among them. */
export function tellJobs(rows: string, at: string, name: string, data: string, place?: string): string {
  return tell(rows, { job: `${rows}.no`, n: `${rows}.revision`, at, name, data }, place);
}

/** Events of the engine itself. */
export function tellEngine(rows: string, at: string, name: string, data: string): string {
  return tell(rows, { job: "null::bigint", n: "0", at, name, data });
}
