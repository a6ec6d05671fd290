/** Events of the engine itself, as a part of a statement: one for each row of `rows`. Written after those rows, so that
 *  the transaction has its number before the event has its own (feed.ts). */
export function tellEngine(rows: string, at: string, name: string, data: string): string {
  return `told as (
    insert into $s.event (job, n, at, name, data) select null, 0, ${at}, ${name}, ${data} from ${rows}
  )`;
}
