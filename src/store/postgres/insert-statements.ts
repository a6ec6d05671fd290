/** The statements that write new jobs, and their values. One statement writes all rows of a list. Those for lists without
 *  parents, annotations, names and budgets do not mention them: most lists have none. */
import { hasBudget } from "../../core/budget.ts";
import { submittedText } from "../../core/lifecycle.ts";
import { newLedger } from "../ledger.ts";
import type { NewJob } from "../store.ts";
import { checkAt, STATE_CODES } from "../stored-job.ts";
import { bigints, ints, smallints, texts } from "./arrays.ts";
import type { Context } from "./context.ts";
import type { Statement, Value } from "./driver.ts";
import { BATCH } from "./events.ts";
import type { Interned } from "./interned.ts";

export interface InsertItem {
  readonly job: NewJob;
  readonly now: number;
  /** The number of the nearest job above it that has a budget. */
  readonly above?: number | null;
}

/** One number for the jobs and one for the events of the statement; the transaction has its own before (feed.ts). */
const NUMBERS = `drawn as materialized (
    select nextval('$s.job_no') * ${BATCH} as jobs, nextval('$s.event_seq') * ${BATCH} as events
    where pg_current_xact_id() is not null
  )`;

const TYPES =
  "$1::text[], $2::int[], $3::int[], $4::smallint[], $5::smallint[], $6::bigint[], $7::bigint[], $8::bigint[], " +
  "$9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::text[], $15::text[], $16::text[]";
const NAMES =
  "id, lane, policy, priority, state, run_at, submitted_at, expires_at, check_at, deadline_at, expire_in, " +
  "timeout_ms, key, tags, body, data";
/** The values of keys come after all others. */
const KEYS_AFTER = { usual: 17, whole: 24 };

/** A repeat writes to the log in any case: a commit that wrote nothing waits neither for the disk nor for a standby, and
 *  would acknowledge what only the first try wrote. */
export const LOGGED = "pg_logical_emit_message(true, 'perdure', 'repeat')::text";

interface Shape {
  readonly isRepeat: boolean;
  /** With parents, annotations, names and budgets. */
  readonly isWhole: boolean;
}

const columns = ({ isWhole }: Shape) =>
  isWhole
    ? `unnest(${TYPES}, $17::text[], $18::smallint[], $19::text[], $20::text[], $21::text[], $22::bigint[], $23::text[])
       with ordinality as u (${NAMES}, parent, depth, annotations, name, action, above, ledger, ord)`
    : `unnest(${TYPES}) with ordinality as u (${NAMES}, ord)`;

/** The rows of the jobs in `new`. In a repeat, only of those that turn out not to be there: the first try may still be
 *  under way, and then its end is waited for. */
function rows({ isRepeat, isWhole }: Shape): string {
  const fresh = isRepeat ? "fresh" : "new";
  const more = isWhole ? ", parent, depth, annotations, name, action" : "";
  return `
  sub as (
    insert into $s.submission (job, id, lane, submitted_at, deadline_at, expire_in, timeout_ms, key, tags, body${more})
    select no, id, lane, submitted_at, deadline_at, expire_in, timeout_ms, key, tags, body${more} from new
    ${isRepeat ? "on conflict (id) do nothing returning job" : ""}
  ),
  ${isRepeat ? "fresh as materialized (select * from new where no in (select job from sub))," : ""}
  hot as (
    insert into $s.job (no, lane, policy, priority, state, run_at, revision, chapter, attempt, expires_at, check_at${
      isWhole ? ", budget" : ""
    })
    select no, lane, policy, priority, state, run_at, 1, 1, 0, expires_at, check_at${
      isWhole ? ", case when ledger is null then above else no end" : ""
    } from ${fresh}
  ),
  ${isWhole ? `ledgers as (insert into $s.budget (job, above, body) select no, above, ledger from ${fresh} where ledger is not null),` : ""}
  tagged as (
    insert into $s.tag (tag, job)
    select t.tag, f.no from ${fresh} f cross join lateral json_array_elements_text(f.tags::json) as t (tag)
    where f.tags is not null on conflict do nothing
  ),
  told as (
    insert into $s.event (seq, job, n, at, name, data) select seq, no, 1, submitted_at, 'job.submitted', data from ${fresh}
  )`;
}

const numbered = (shape: Shape) =>
  `select drawn.jobs + ord as no, drawn.events + ord as seq, u.* from drawn cross join ${columns(shape)}`;

function plain(shape: Shape): string {
  return `with ${NUMBERS}, new as materialized (${numbered(shape)}), ${rows(shape)}
    select ${shape.isRepeat ? LOGGED : "1 where false"}`;
}

function keyed(shape: Shape): string {
  const first = shape.isWhole ? KEYS_AFTER.whole : KEYS_AFTER.usual;
  const arrays = ["text", "text", "text", "text", "bigint"].map((type, i) => `$${first + i}::${type}[]`).join(", ");
  return `with ${NUMBERS}, k as (
      insert into $s.submit_key (namespace, key, id, body_hash, at)
      select * from unnest(${arrays}) as n (namespace, key, id, h, at)
      order by namespace, key
      -- a stub whose window is over gives way; a repeat finds its own
      on conflict (namespace, key) do update
        set id = excluded.id, body_hash = excluded.body_hash, at = excluded.at, state = null, chapter = null, until = null
        where submit_key.until <= excluded.at or submit_key.id = excluded.id
      returning id
    ),
    new as materialized (${numbered(shape)} where (u.key is null or u.id in (select id from k))), ${rows(shape)}
    select id from k`;
}

/** By what the list needs: with keys, and with parents or annotations. */
export function insertStatements(sql: Context["sql"]) {
  const make = (name: string, text: (shape: Shape) => string, isWhole: boolean) => {
    const first = sql(name, text({ isRepeat: false, isWhole }));
    const again = sql(`${name}_again`, text({ isRepeat: true, isWhole }));
    return (tries: number): Statement => (tries === 0 ? first : again);
  };
  return {
    usual: { plain: make("insert", plain, false), keyed: make("insert_keyed", keyed, false) },
    whole: { plain: make("insert_whole", plain, true), keyed: make("insert_whole_keyed", keyed, true) },
  };
}

export function isWhole(items: readonly InsertItem[]): boolean {
  return items.some(
    ({ job }) =>
      job.parent !== null ||
      job.annotations !== null ||
      job.name !== null ||
      job.action !== null ||
      hasBudget(job.policy),
  );
}

/** What the lanes and policies of these jobs are called. */
export interface NameNumbers {
  readonly lanes: Pick<Interned, "laneNo">;
  /** By hash. */
  readonly policies: ReadonlyMap<string, number>;
}

export function rowValues(items: readonly InsertItem[], { lanes, policies }: NameNumbers): Value[] {
  const jobs = items.map((item) => item.job);
  const usual = [
    texts(jobs.map((job) => job.id)),
    ints(jobs.map((job) => lanes.laneNo(job))),
    ints(jobs.map((job) => policies.get(job.policyHash) as number)),
    smallints(jobs.map((job) => job.priority)),
    smallints(jobs.map((job) => STATE_CODES[job.transition.next.state])),
    bigints(jobs.map((job) => job.transition.next.runAt)),
    bigints(items.map((item) => item.now)),
    bigints(jobs.map((job) => job.transition.next.expiresAt)),
    bigints(jobs.map((job) => checkAt(job.transition.next.expiresAt, job.deadlineAt))),
    bigints(jobs.map((job) => job.deadlineAt)),
    bigints(jobs.map((job) => job.expireInMs)),
    bigints(jobs.map((job) => job.timeoutMs)),
    texts(jobs.map((job) => job.key)),
    texts(jobs.map((job) => (job.tags.length === 0 ? null : JSON.stringify(job.tags)))),
    texts(jobs.map((job) => job.payload)),
    texts(jobs.map((job) => submittedText(job.transition.event.data))),
  ];
  if (!isWhole(items)) return usual;
  return [
    ...usual,
    texts(jobs.map((job) => job.parent?.id ?? null)),
    smallints(jobs.map((job) => (job.parent === null ? null : job.depth))),
    texts(jobs.map((job) => job.annotations)),
    texts(jobs.map((job) => job.name)),
    texts(jobs.map((job) => job.action)),
    bigints(items.map(({ above = null }) => above)),
    texts(jobs.map((job) => (hasBudget(job.policy) ? newLedger(job.id, job.policy) : null))),
  ];
}

export function keyValues(items: readonly InsertItem[]): Value[] {
  return [
    texts(items.map(({ job }) => job.namespace)),
    texts(items.map(({ job }) => job.key)),
    texts(items.map(({ job }) => job.id)),
    texts(items.map(({ job }) => job.bodyHash)),
    bigints(items.map(({ now }) => now)),
  ];
}
