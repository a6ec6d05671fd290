/** NoETL's tables `noetl.workload`, `noetl.queue` and `noetl.event` as views over Perdure's tables in PostgreSQL, with the columns of
 *  NoETL's own. `noetl.event` has the rows of the event view (events.ts, run-events.ts), one for one: a stored event becomes up to
 *  four rows, and `run.advanced` up to two for each of its changes. Their order is that of `event_id`, as `eventId` makes it.
 *
 *  Views only read, with the rights of who asks (PostgreSQL 15). Rows come from the stored jobs, so they go when those are pruned.
 *  Events that version 0.1.0 stored have the step of a decision as `decided_by`. */
import type { SqlViews, SqlViewsOptions } from "../dialect.ts";
import { FINAL_STEPS, OWN_EVENTS, RUN_EVENTS, STEP_EVENTS } from "./sql-events.ts";

export const NOETL_SQL: SqlViews = {
  schema: "noetl",
  views: ["workload", "queue", "event"],
  statements: noetlStatements,
};

/** In their order; `create schema` is the caller's. */
function noetlStatements({ tables, into, isInvoker }: SqlViewsOptions): readonly string[] {
  const how = isInvoker ? " with (security_invoker = true)" : "";
  const named = { workload: WORKLOAD, queue: QUEUE, event: EVENT };
  return Object.entries(named).map(([name, text]) => {
    const body = text.replaceAll("$s.", `"${tables}".`).trim();
    return `create view "${into}".${name}${how} as\n${body}`;
  });
}

const WORKLOAD = `
select b.id as execution_id,
  to_timestamp(b.submitted_at / 1000.0) as created_at,
  coalesce(nullif(d.data::jsonb -> 'workload', 'null'), d.data::jsonb -> 'inputs') as data
from $s.run_data d join $s.submission b on b.job = d.run`;

/** The rows of a job that is not a run, in the order of its events, as `noetlQueueRow` makes them (view.ts). */
const QUEUE = `
select q.job as queue_id, q.execution_id, null::text as catalog_id, q.node_id, q.kind as action, null::jsonb as context,
  case when j.state in (0, 2) then 'queued' when j.state = 1 then 'leased' when j.state = 3 then 'done' else 'dead' end as status,
  j.priority::integer as priority,
  coalesce((array_agg(q.counts order by q.n desc) filter (where q.counts is not null))[1], 0)::integer as attempts,
  q.max_attempts,
  case when j.state <> 2 then to_timestamp(j.run_at / 1000.0) end as available_at,
  null::timestamptz as lease_until,
  case when j.state in (1, 3, 4, 5) then (select s.name from $s.session s where s.no = j.session) end as worker_id,
  null::timestamptz as last_heartbeat,
  to_timestamp(b.submitted_at / 1000.0) as created_at,
  to_timestamp(max(q.at) / 1000.0) as updated_at,
  null::text as parent_execution_id, null::bigint as parent_event_id, null::bigint as event_id,
  q.node_id as node_name, q.node_type, null::jsonb as meta,
  case when q.noetl_step is null then case when q.max_attempts <> 1 then jsonb_build_object('max_attempts', q.max_attempts)
    || case when p.body::jsonb #>> '{backoff,type}' <> 'exponential' then '{}' else jsonb_build_object(
      'initial_delay', (p.body::jsonb #>> '{backoff,initialMs}')::numeric / 1000,
      'backoff_multiplier', p.body::jsonb #> '{backoff,factor}',
      'max_delay', (p.body::jsonb #>> '{backoff,maxMs}')::numeric / 1000,
      'jitter', (p.body::jsonb #>> '{backoff,jitter}')::numeric > 0) end
    || jsonb_build_object('retry_when', p.body::jsonb -> 'retryWhen', 'stop_when', p.body::jsonb -> 'stopWhen') end
    else q.noetl_retry end as retry_config,
  (array_agg(q.error order by q.n desc) filter (where q.error is not null and q.redrives + 1 = j.chapter))[1] as last_error,
  ((array_agg(q.delay_ms order by q.n desc)
    filter (where q.delay_ms is not null and q.class is distinct from 'handback' and q.redrives + 1 = j.chapter))[1] / 1000
  )::double precision as retry_delay_seconds
from (
  select decided.*, case when redrives + 1 <> chapter then null when name = 'attempt.started' then attempt
      when class in ('handback', 'waiting') and kind_of_end is distinct from 'cancel' then next - 1 end as counts
  from (${STEP_EVENTS}) decided
) q
join $s.job j on j.no = q.job join $s.submission b on b.job = q.job join $s.policy p on p.no = j.policy
group by q.job, q.execution_id, q.node_id, q.node_type, q.kind, q.max_attempts, q.noetl_step, q.noetl_retry, p.body,
  j.state, j.priority, j.run_at, j.session, j.chapter, b.submitted_at`;

const EVENT = `
select execution_id, null::text as catalog_id, event_id, null::bigint as parent_event_id, parent_execution_id,
  to_timestamp(at / 1000.0) as created_at, event_type, node_id, node_name, node_type, status,
  null::double precision as duration, context, result, null::jsonb as meta, error, current_index, null::text as current_item,
  worker_id, null::text as distributed_state, null::text as context_key, null::text as context_value,
  null::jsonb as trace_component, null::text as stack_trace
from (
  select * from (${FINAL_STEPS}) steps
  union all
  select * from (${RUN_EVENTS}) changes
  union all
  select * from (${OWN_EVENTS}) own
) rows`;
