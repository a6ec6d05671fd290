/** Parts of the view `noetl.event` in SQL. Each mirrors a function in TypeScript, named beside it; a test compares the two row by
 *  row. `$s.` becomes the schema of Perdure's tables. */

/** A row for each stored event of a job that is not a run: of steps, with the run as execution, and of jobs by themselves. Both parts
 *  can be found by the id of the execution. */
const EVENTS_OF_JOBS = `
  select r.id as execution_id, e.job, e.seq, e.n, e.at, e.name, e.data::jsonb as data, s.item, l.kind,
    s.node as node_id,
    coalesce((select one -> 'action' ->> 'type' from jsonb_array_elements(y.body::jsonb -> 'steps') one
      where one ->> 'name' = s.node limit 1), 'router') as node_type,
    j.policy, j.chapter, b.annotations::jsonb as annotations
  from $s.submission r
    join $s.run u on u.job = r.job join $s.playbook y on y.no = u.playbook
    join $s.step s on s.run = r.job join $s.submission b on b.id = s.job join $s.lane l on l.no = b.lane
    join $s.job j on j.no = b.job join $s.event e on e.job = b.job
  where l.kind <> 'playbook'
  union all
  select b.id, e.job, e.seq, e.n, e.at, e.name, e.data::jsonb, null, l.kind,
    coalesce(b.annotations::jsonb ->> 'noetl/step', l.kind),
    coalesce(b.annotations::jsonb ->> 'noetl/type', case when l.kind = 'exec' then 'shell' else l.kind end),
    j.policy, j.chapter, b.annotations::jsonb
  from $s.submission b
    join $s.lane l on l.no = b.lane join $s.job j on j.no = b.job join $s.event e on e.job = b.job
  where j.run is null and l.kind <> 'playbook'`;

/** `counted` (attempt-numbers.ts): attempts as the budgets count them, from 1 after each redrive. */
const COUNTED = `
  select c.*, 1 + coalesce(max(failures) over before, 0) + coalesce(max(losses) over before, 0) as attempt,
    1 + max(failures) over upto + max(losses) over upto as next
  from (
    select a.*, count(*) filter (where name = 'job.redriven') over (partition by execution_id, job order by n) as redrives,
      coalesce((data #>> '{counters,failures}')::bigint, 0) as failures,
      coalesce((data #>> '{counters,losses}')::bigint, 0) as losses
    from (${EVENTS_OF_JOBS}) a
  ) c
  window before as (partition by execution_id, job, redrives order by n rows between unbounded preceding and 1 preceding),
    upto as (partition by execution_id, job, redrives order by n rows unbounded preceding)`;

/** What an event decided: `decisionName` and `errorIn` (events.ts). */
export const STEP_EVENTS = `
  select d.*, case
    when name in ('attempt.failed', 'attempt.timed_out') then
      case when class = 'polled' then 'the result matched retry_when' else data #>> '{failure,message}' end
    when name = 'attempt.lost' then 'worker lost: ' || replace(data ->> 'why', '_', ' ')
    when name = 'attempt.interrupted' then case when class <> 'handback' then 'worker lost: ' || decided_by end
    when name = 'job.over_budget' then coalesce('the budget of ' || (shortage ->> 'jobId') || ' (' || (shortage ->> 'limit') || ' '
      || case shortage ->> 'part' when 'tokens' then 'tokens' else 'USD' end || ', ' || (shortage ->> 'used') || ' spent'
      || coalesce(', ' || (shortage ->> 'reserved') || ' reserved', '') || ') has '
      || case when (shortage ->> 'wanted')::numeric > (shortage ->> 'left')::numeric and (shortage ->> 'left')::numeric > 0
        then (shortage ->> 'left') || ' left, and an attempt is estimated at ' || (shortage ->> 'wanted') else 'nothing left' end,
      'the budget is spent')
    when name = 'job.queue_timeout' then case when data ->> 'why' = 'deadline' then 'no worker started it before its deadline'
      else 'no worker started it in time' end
    end as error
  from (
    select k.*, case
      when match is null then case step when 'poison' then 'poison guard' else step end
      when match ->> 'by' = 'condition' then case match ->> 'condition' when 'retryWhen' then 'retry_when' else 'stop_when' end
      when match ->> 'by' = 'rule' then 'rules[' || (match ->> 'index') || ']'
      when match ->> 'by' = 'preset' then 'preset ' || (match ->> 'preset')
      when match ->> 'by' in ('list', 'exitCodes') then match ->> 'list'
      when match ->> 'by' = 'task' then 'rejected by the task'
      when match ->> 'by' = 'invalidInput' then 'invalid input'
      when match ->> 'by' = 'queueTimeout' then 'queue timeout'
      when match ->> 'by' = 'loss' then match ->> 'why'
      when match ->> 'by' = 'handbacks' then 'handed back ' || (match ->> 'count') || ' times in a row'
      else match ->> 'by' end as decided_by
    from (
      select o.*, data #>> '{decision,class}' as class, data #>> '{decision,kind}' as kind_of_end,
        case when jsonb_typeof(data #> '{decision,step}') <> 'number' then data #>> '{decision,step}'
          when data #>> '{decision,kind}' = 'block' then 'children' when data #>> '{decision,reason}' = 'poison' then 'poison'
          else (array['completed', 'cancel', 'budget', 'handback', 'deadline', 'exhausted', 'not_retryable', 'exhausted',
            'elapsed', 'retry'])[(data #>> '{decision,step}')::integer] end as step,
        nullif(data #> '{decision,match}', 'null') as match, data #> '{decision,shortage}' as shortage,
        data #>> '{decision,reason}' as reason, (data #>> '{decision,delay,delayMs}')::numeric as delay_ms,
        case when data -> 'decision' ? 'conditionError'
          then jsonb_build_object('condition_error', data #> '{decision,conditionError}') else '{}' end as condition_error,
        (p.body::jsonb ->> 'maxAttempts')::integer as max_attempts,
        annotations ->> 'noetl/step' as noetl_step, (annotations ->> 'noetl/retry')::jsonb as noetl_retry,
        case when annotations ->> 'noetl/step' is null then (p.body::jsonb ->> 'maxAttempts')::integer <> 1
          else annotations ->> 'noetl/retry' is not null end as is_retried
      from (${COUNTED}) o join $s.policy p on p.no = o.policy
    ) k
  ) d`;

/** Milliseconds as text, as in JSON. */
const iso = (ms: string) =>
  `to_char(to_timestamp((${ms})::bigint / 1000.0) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
const seconds = "to_jsonb(delay_ms / 1000)";
const ENDS =
  "('attempt.succeeded', 'attempt.failed', 'attempt.timed_out', 'attempt.lost', 'attempt.waiting', 'attempt.interrupted', " +
  "'job.queue_timeout', 'job.over_budget')";
const given = (path: string, name: string) =>
  `case when coalesce(data #> '${path}', 'null') = 'null' then '{}' else jsonb_build_object('${name}', data #> '${path}') end`;

/** `ended`: what the end of an attempt is. */
const ENDED = `
      select 0 as k, case when is_completed then 'action_completed' when name = 'attempt.waiting' then 'step_waiting'
          when name = 'job.over_budget' then 'step_over_budget' when name = 'job.queue_timeout' then 'step_queue_timeout'
          when name = 'attempt.interrupted' and class = 'handback' then 'action_released' else 'action_error' end as event_type,
        case when is_completed then 'COMPLETED'
          when name = 'attempt.waiting' or name = 'attempt.interrupted' and class = 'handback' then 'PENDING'
          else 'FAILED' end as status,
        jsonb_build_object('attempt', attempt) || case
          when is_completed then '{"success": true}' || condition_error
          when name = 'attempt.waiting' then jsonb_build_object('waits_for', data -> 'waitsFor')
          when name = 'job.over_budget' then jsonb_build_object('budget_of', shortage -> 'jobId')
          when name = 'attempt.interrupted' and class = 'handback'
            then jsonb_build_object('reason', data -> 'why', 'delay_seconds', ${seconds})
          when name in ('job.queue_timeout', 'attempt.interrupted') then jsonb_build_object('reason', data -> 'why')
          when name = 'attempt.lost' then jsonb_build_object('reason', 'worker_lost', 'why', data -> 'why')
          else ${given("{failure,status}", "status_code")} || ${given("{failure,exitCode}", "exit_code")} end as context,
        case when is_completed then nullif(t.answer::jsonb, 'null') end as result,
        case when is_completed or name = 'attempt.waiting' or name = 'attempt.interrupted' and class = 'handback'
          then null else error end as error
      where name in ${ENDS}`;

/** `consequences`: what the decision means for the step and the execution. */
const CONSEQUENCES = `
      select 1, 'step_completed', 'COMPLETED', jsonb_build_object('attempt', attempt), nullif(t.answer::jsonb, 'null'), null
      where name in ${ENDS} and kind_of_end = 'succeed'
      union all
      select 1, 'execution_cancelled', 'CANCELLED', jsonb_build_object('attempt', attempt), null, error
      where name in ${ENDS} and kind_of_end = 'cancel'
      union all
      select 1, 'step_retry', 'PENDING', jsonb_build_object('attempt', attempt, 'next_attempt', next,
        'max_attempts', max_attempts, 'delay_seconds', ${seconds}, 'last_error', error), null, null
      where name in ${ENDS} and kind_of_end = 'retry' and class <> 'handback'
      union all
      select 1, 'step_retry_exhausted', 'FAILED', jsonb_build_object('attempts', next - 1, 'max_attempts', max_attempts),
        null, error
      where name in ${ENDS} and kind_of_end = 'fail' and step = 'exhausted' and is_retried
      union all
      select case when step = 'exhausted' and is_retried then 2 else 1 end, 'step_failed_terminal', 'FAILED',
        jsonb_build_object('attempt', attempt, 'reason', why.reason,
          'decided_by', case when step = 'exhausted' then 'max_attempts' else decided_by end)
          || ${given("{decision,detail}", "detail")} || condition_error, null, error
      where name in ${ENDS} and kind_of_end = 'fail'
      union all
      select case when step = 'exhausted' and is_retried then 3 else 2 end, 'execution_failed', 'FAILED',
        jsonb_build_object('reason', why.reason), null, error
      where name in ${ENDS} and kind_of_end = 'fail'`;

/** `partsOf`: the rows of an event. */
const PARTS = `
      select 0, 'action_started', 'STARTED', jsonb_build_object('retry', jsonb_build_object(
        'attempt', attempt, 'max_attempts', max_attempts, 'is_retry', attempt > 1)), null, null
      where name = 'attempt.started'
      union all
      select 0, event, state, jsonb_build_object('by', data -> 'by')
          || case when event in ('step_rescheduled', 'step_resumed', 'execution_restarted')
            then jsonb_build_object('available_at', ${iso("data ->> 'runAt'")}) else '{}' end
          || case when event = 'execution_restarted' then jsonb_build_object('chapter', redrives + 1) else '{}' end, null, null
      from (values ('job.cancel_requested', 'execution_cancel_requested', 'PENDING'),
        ('job.cancelled', 'execution_cancelled', 'CANCELLED'), ('job.discarded', 'execution_discarded', 'FAILED'),
        ('job.rescheduled', 'step_rescheduled', 'PENDING'), ('job.unblocked', 'step_resumed', 'PENDING'),
        ('job.redriven', 'execution_restarted', 'PENDING')) as command (stored, event, state)
      where stored = name`;

/** With the number of a row among those of its event: `eventId`. */
export const FINAL_STEPS = `
    select execution_id, seq * 65536 + k as event_id, null::text as parent_execution_id, at, event_type, node_id, node_id as node_name, node_type,
      status,
      context || case when item >= 0 then jsonb_build_object('loop_index', item) else '{}' end as context,
      result, part.error, nullif(item, -1) as current_index,
      case when name = 'attempt.started' then data ->> 'worker' end as worker_id
    from (
      select x.*, name = 'attempt.succeeded' or coalesce(class = 'polled', false) as is_completed from (${STEP_EVENTS}) x
    ) d
    left join lateral (
      select a.result as answer from $s.attempt a
      where a.job = d.job and a.attempt = (d.data ->> 'attempt')::integer and d.name in ${ENDS}
    ) t on true
    cross join lateral (
      select case when step = 'exhausted' and not is_retried then 'no_retry_configured' else reason end as reason
    ) why
    cross join lateral (${ENDED}
      union all ${CONSEQUENCES}
      union all ${PARTS}
    ) part
    where item is null or event_type not like 'execution\\_%'
      and (item < 0 or event_type not in ('step_completed', 'step_failed_terminal'))`;

/** `ofChange` (run-events.ts): what `run.advanced` shows of steps. */
export const RUN_EVENTS = `
    select b.id as execution_id, e.seq * 65536 + 4 * (c.place - 1) + part.k as event_id, above.id as parent_execution_id, e.at, part.event_type,
      coalesce(s.node, 'unknown') as node_id, coalesce(s.node, 'unknown') as node_name, coalesce(type.name, 'router') as node_type, part.status, part.context,
      null::jsonb as result, c.change ->> 'why' as error, (c.change ->> 'item')::integer as current_index, null::text as worker_id
    from $s.submission b
      join $s.run u on u.job = b.job join $s.playbook y on y.no = u.playbook join $s.job own on own.no = b.job
      join $s.event e on e.job = b.job and e.name = 'run.advanced'
      left join $s.submission above on above.job = own.run
      cross join lateral jsonb_array_elements(e.data::jsonb -> 'changes') with ordinality as c (change, place)
      left join $s.step s on s.run = b.job and s.n = (c.change ->> 'n')::integer
      left join $s.submission sb on sb.id = s.job
      left join $s.job sj on sj.no = sb.job
      left join lateral (select one -> 'action' ->> 'type' as name from jsonb_array_elements(y.body::jsonb -> 'steps') one
        where one ->> 'name' = s.node limit 1) type on true
      cross join lateral (select case c.change ->> 'state' when 'succeeded' then 'COMPLETED' when 'skipped' then 'COMPLETED'
        when 'cancelled' then 'CANCELLED' when 'handled' then 'FAILED' when 'failed' then 'FAILED' else 'COMPLETED' end as status) ended
      cross join lateral (
        select 0 as k, 'step_started' as event_type, 'STARTED' as status,
          case when (c.change ->> 'visit')::integer > 1 then jsonb_build_object('visit', c.change -> 'visit') else '{}' end
            || case when c.change ? 'items' then jsonb_build_object('items', c.change -> 'items') else '{}' end as context
        where c.change ->> 'do' = 'start' and not c.change ? 'item'
        union all
        select 0, 'loop_iteration', ended.status, jsonb_build_object('loop_index', c.change -> 'item')
        where c.change ->> 'do' = 'end' and c.change ? 'item'
        union all
        select 0, 'loop_completed', ended.status, '{}'
        where c.change ->> 'do' = 'end' and not c.change ? 'item' and s.items is not null
        union all
        select case when s.items is null then 0 else 1 end, case c.change ->> 'state' when 'succeeded' then 'step_completed'
          when 'skipped' then 'step_skipped' when 'cancelled' then 'step_cancelled' else 'step_failed_terminal' end, ended.status, '{}'
        where c.change ->> 'do' = 'end' and not c.change ? 'item' and (s.items is not null or s.job is null or type.name = 'playbook'
          or c.change ->> 'state' in ('cancelled', 'skipped') or c.change ->> 'state' in ('handled', 'failed') and sj.state = 3)
      ) part`;

/** `ofRun`: the run itself. */
export const OWN_EVENTS = `
    select b.id as execution_id, e.seq * 65536 as event_id, above.id as parent_execution_id, e.at, shown.event_type,
      coalesce(y.body::jsonb ->> 'path', y.body::jsonb ->> 'name') as node_id, y.body::jsonb ->> 'name' as node_name, 'playbook' as node_type,
      shown.status,
      case e.name
        when 'job.submitted' then jsonb_build_object('path', y.body::jsonb -> 'path', 'version', case
          when b.body::jsonb #>> '{playbook,hash}' = y.hash and jsonb_typeof(b.body::jsonb #> '{playbook,version}') = 'number'
          then b.body::jsonb #> '{playbook,version}' end)
        when 'run.ended' then case when shown.status = 'FAILED'
          then jsonb_build_object('reason', e.data::jsonb -> 'reason', 'step', e.data::jsonb -> 'step') else '{}' end
        else jsonb_build_object('by', e.data::jsonb -> 'by') end as context,
      case when shown.event_type = 'execution_complete' and own.state = 3 then nullif(u.result::jsonb, 'null') end as result,
      case when shown.event_type = 'execution_failed' then e.data::jsonb ->> 'message' end as error,
      null::integer as current_index, null::text as worker_id
    from $s.submission b
      join $s.run u on u.job = b.job join $s.playbook y on y.no = u.playbook join $s.job own on own.no = b.job
      join $s.event e on e.job = b.job
      left join $s.submission above on above.job = own.run
      join (values ('job.submitted', null, 'execution_start', 'STARTED'),
        ('job.cancel_requested', null, 'execution_cancel_requested', 'PENDING'),
        ('job.redriven', null, 'execution_restarted', 'PENDING'), ('job.discarded', null, 'execution_discarded', 'FAILED'),
        ('run.ended', 'succeeded', 'execution_complete', 'COMPLETED'), ('run.ended', 'cancelled', 'execution_cancelled', 'CANCELLED'),
        ('run.ended', 'failed', 'execution_failed', 'FAILED')) as shown (name, state, event_type, status)
        on shown.name = e.name and (shown.state is null or shown.state = e.data::jsonb ->> 'state')`;
