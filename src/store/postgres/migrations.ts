/** The schema, as numbered steps forward; `$s` stands for its name. A step that has been released is never edited.
 *  States are small numbers (`STATE_CODES`); times are milliseconds UTC; a job is `no` inside and `id` outside.
 *
 *  A job is two rows. What was submitted never changes and carries the index by id; what changes is short,
 *  and is written anew with each change of state, together with an entry in every index of its table. */

const SMALL = "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200";
/** Queue tables have many dead rows: vacuum often and without pauses, so that claims do not read dead entries. */
const BUSY =
  "autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0, " +
  "autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 10000";
/** Mostly appended to: the freezing of old rows is spread out. */
const GROWING = "autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0.2";

export const MIGRATIONS: readonly string[] = [
  `
  create table $s.meta (name text collate "C" primary key, value text not null) with (fillfactor = 50, ${SMALL});

  create table $s.policy (
    no integer generated always as identity primary key,
    hash text collate "C" not null unique, body text not null
  );

  create table $s.lane (
    no integer generated always as identity primary key,
    namespace text collate "C" not null, queue text collate "C" not null, kind text collate "C" not null,
    labels text collate "C" not null,
    unique (namespace, queue, kind, labels)
  );

  create table $s.session (
    no integer generated always as identity primary key,
    id text collate "C" not null unique,
    namespace text collate "C" not null, name text not null, host text not null, pid bigint not null, process text,
    kinds text not null, queues text, labels text not null, slots integer not null,
    lease_ms bigint not null,
    started_at bigint not null, renewed_at bigint not null, lease_ends_at bigint not null,
    ended_at bigint,
    -- 1 once it has ended and holds nothing: the reaper looks at the others only; 2 once it is kept only for its id
    reaped smallint not null default 0
  ) with (fillfactor = 50, ${SMALL});
  create index session_unreaped on $s.session (no) where reaped = 0;

  create sequence $s.job_no;
  create table $s.submission (
    job bigint not null,
    id text collate "C" not null unique,
    lane integer not null, submitted_at bigint not null,
    deadline_at bigint, expire_in bigint, timeout_ms bigint,
    key text collate "C", tags text, body text not null,
    primary key (job) include (lane) -- so that jobs are counted by lane without their rows
  ) with (${GROWING});

  create table $s.job (
    no bigint not null,
    run_at bigint not null, started_at bigint, first_started_at bigint, finished_at bigint,
    expires_at bigint, check_at bigint, cancel_requested_at bigint, discarded_at bigint,
    lane integer not null, policy integer not null, session integer, avoid_session integer,
    revision integer not null, chapter integer not null, attempt integer not null,
    failures integer not null default 0, losses integer not null default 0, defers integer not null default 0,
    handbacks integer not null default 0, streak integer not null default 0,
    priority smallint not null check (priority between 0 and 9), state smallint not null,
    reason text, streak_session text, rule_counts text, usage text, live_usage text, progress text,
    check ((state in (3, 4, 5)) = (finished_at is not null)),
    check ((state = 4) = (reason is not null))
  ) with (fillfactor = 70, ${BUSY});
  -- Not unique: that it is follows from submission, and every change of a row would look for the others of its number.
  create index job_no_key on $s.job (no);
  create index job_ready on $s.job (lane, priority, run_at, no) where state = 0;
  create index job_suspect on $s.job (lane, priority, run_at, no) where state = 0 and streak >= 2;
  create index job_check on $s.job (check_at) where state = 0 and check_at is not null;
  create index job_running on $s.job (session) where state = 1;
  -- blocked, failed, cancelled
  create index job_aside on $s.job (state, no) include (lane) where state = 2 or state >= 4;

  -- Also the stub that outlives a pruned job: then "until" is set.
  create table $s.submit_key (
    namespace text collate "C" not null, key text collate "C" not null,
    id text collate "C" not null, body_hash text not null, at bigint not null,
    state smallint, chapter integer, until bigint,
    primary key (namespace, key)
  );
  create index submit_key_stub on $s.submit_key (until) where until is not null;
  create index submit_key_key on $s.submit_key (key);

  create table $s.attempt (
    job bigint not null, started_at bigint not null, ended_at bigint not null,
    attempt integer not null, chapter integer not null, session integer,
    outcome text not null, failure text, usage text, result text, report_id text,
    after_state smallint not null, after_reason text, after_run_at bigint,
    primary key (job, attempt)
  ) with (${GROWING});

  create table $s.log_chunk (
    job bigint not null, attempt integer not null, n integer not null, body text not null,
    primary key (job, attempt, n)
  );

  create table $s.late_report (
    job bigint not null, attempt integer not null, at bigint not null, session text, outcome text not null,
    primary key (job, attempt)
  );

  create sequence $s.event_seq;
  create table $s.event (
    seq bigint primary key,
    job bigint, at bigint not null, n integer not null, name text not null, data text not null
  ) with (${GROWING});
  create unique index event_job on $s.event (job, n) where job is not null;
  create index event_engine on $s.event (at) where job is null;

  create table $s.tag (tag text collate "C" not null, job bigint not null, primary key (tag, job));

  create table $s.queue (
    namespace text collate "C" not null, queue text collate "C" not null, paused_at bigint not null,
    primary key (namespace, queue)
  );
  create table $s.past_pause (
    namespace text collate "C" not null, queue text collate "C" not null,
    from_at bigint not null, to_at bigint not null,
    primary key (namespace, queue, from_at)
  );

  create table $s.claim (
    session integer not null, claim_id text collate "C" not null, at bigint not null, jobs text not null,
    primary key (session, claim_id)
  );
  `,
  `
  alter table $s.session add column health text;
  alter table $s.session add column draining_at bigint;

  create table $s.access_token (
    id text collate "C" primary key,
    name text not null, hash text collate "C" not null unique, scopes text not null, namespace text collate "C",
    created_at bigint not null, expires_at bigint, revoked_at bigint
  );

  -- What attempts leave: a row for each file, and its bytes in pieces, each at its place in the file.
  create table $s.blob (
    job text collate "C" not null, attempt integer not null, name text collate "C" not null,
    size bigint not null, sha256 text,
    primary key (job, attempt, name)
  ) with (fillfactor = 70, ${SMALL});
  create table $s.blob_chunk (
    job text collate "C" not null, attempt integer not null, name text collate "C" not null,
    off bigint not null, body bytea not null,
    primary key (job, attempt, name, off)
  ) with (${GROWING});
  `,
  `
  -- The job whose child it is, and how many there are above it. By its id: a child may outlive its parent.
  alter table $s.submission add column parent text collate "C", add column depth smallint, add column annotations text;
  create index submission_parent on $s.submission (parent, job) where parent is not null;

  -- Blocked jobs: the ids that each waits for, as JSON, and the run that began to wait.
  create table $s.blocked (job bigint primary key, attempt integer not null, waits text not null, since bigint not null)
    with (${SMALL});
  -- Jobs whose cancel is still to be passed on to their children.
  create table $s.cascade (job bigint primary key) with (${SMALL});
  `,
  `
  -- The last job there was when it was put out of sight: once those up to it are gone, no row names the session.
  alter table $s.session add column last_job bigint;
  update $s.session set last_job = (select coalesce(max(no), 0) from $s.job) where reaped = 2;
  `,
  `
  -- Null: it is called by its kind, as most jobs are.
  alter table $s.submission add column name text collate "C", add column action text collate "C";
  create index submission_name on $s.submission (name, job) where name is not null;
  create index submission_action on $s.submission (action, job) where action is not null;
  `,
  `
  alter table $s.claim add column deliveries integer not null default 1;

  -- What running jobs take of the cpu and memory of their host. A row counts while its job runs that attempt: it is left
  -- behind by the attempt's end, and deleted by a later claim on that host.
  create table $s.hold (
    job bigint primary key, attempt integer not null, session integer not null, host text collate "C" not null,
    cpu bigint not null, memory bigint not null
  ) with (${SMALL});
  create index hold_host on $s.hold (host);
  `,
  `
  -- Inputs that jobs brought along: found without reading all files, to remove those that no job was submitted for.
  create index blob_input on $s.blob (job) where attempt = 0;
  `,
  `
  -- Jobs in lanes of single runs: such a lane is deleted when no job is left that names it.
  create table $s.run_job (id text collate "C" primary key, lane integer not null) with (${SMALL});
  create index run_job_lane on $s.run_job (lane);
  create index lane_run on $s.lane (no) where queue ~ '^run-[0-9a-f]{16}$';
  insert into $s.run_job (id, lane) select b.id, b.lane from $s.submission b join $s.lane l on l.no = b.lane
    where l.queue ~ '^run-[0-9a-f]{16}$';
  `,
  `
  -- What a worker publishes of its tasks, as JSON by kind; null: nothing.
  alter table $s.session add column defaults text;
  create index session_defaults on $s.session (namespace, no) where defaults is not null;
  `,
  `
  -- The nearest job, from itself upwards, that has a budget of tokens or money; null where none has.
  alter table $s.job add column budget bigint;
  -- What has been spent of each budget, as JSON; "above" is the next budget above it.
  create table $s.budget (job bigint primary key, above bigint, body text not null) with (fillfactor = 50, ${SMALL});
  `,
  `
  -- The replies to a claim that did not get through, as a JSON list of their numbers.
  alter table $s.claim add column undelivered text not null default '[]';
  `,
  `
  -- When it was last noted that jobs are submitted to it; whoever made it, as quotas count. What is there counts as in use for
  -- a week, and what an earlier version adds for ever: it notes nothing.
  alter table $s.lane add column used_at bigint not null default 8640000000000000, add column owner text collate "C";
  alter table $s.policy add column used_at bigint not null default 8640000000000000;
  update $s.lane set used_at = (extract(epoch from now()) * 1000)::bigint + 604800000;
  update $s.policy set used_at = (extract(epoch from now()) * 1000)::bigint + 604800000;
  create index lane_owner on $s.lane (namespace, owner) where owner is not null;
  alter table $s.lane set (${SMALL});
  alter table $s.policy set (${SMALL});
  `,
  `
  -- What the losses of its streak say against a job.
  alter table $s.job add column evidence integer not null default 0;
  -- It tries a suspect, and takes nothing else until then.
  alter table $s.session add column alone_until bigint;
  -- When it was found to be lost, how many attempts its process held, and which job, if it was the only one.
  alter table $s.session add column lost_at bigint, add column lost_with integer, add column lost_job bigint;
  `,
  `
  -- No change of tables. Servers no longer keep their signing secret in meta, and an earlier version would make one there.
  `,
  `
  -- The token that opened it; null: none did.
  alter table $s.session add column owner text collate "C";
  create index session_owner on $s.session (owner) where reaped = 0 and owner is not null;
  `,
  `
  -- The sessions of a process, which die together.
  create index session_process on $s.session (process, pid) where reaped < 2;
  `,
  `
  -- A short name for what it can run, to compare sessions by; those from before, which have none, count as alike.
  alter table $s.session add column pool text not null default '';
  `,
  `
  -- No change of tables. Events are written in format 2, which an earlier version does not know; those in format 1 stay, and are
  -- read as format 2 (core/job/event-formats.ts).
  `,
  `
  -- Compiled playbooks, each stored once. used_at: when one was last saved, to keep what a run is about to name.
  create table $s.playbook (
    no integer generated always as identity primary key,
    hash text collate "C" not null unique, body text not null, used_at bigint not null
  ) with (fillfactor = 70, ${SMALL});
  create table $s.catalog (
    namespace text collate "C" not null, path text collate "C" not null, version integer not null,
    playbook integer not null, source text not null, at bigint not null, pushed_by text,
    primary key (namespace, path, version)
  );
  create index catalog_playbook on $s.catalog (playbook);
  -- The code of steps, once and not in each payload.
  create table $s.asset (hash text collate "C" primary key, body bytea not null);

  -- Runs, by the number of their job. This row is written anew at each advance, so what is long and rarely changes is beside it.
  create table $s.run (
    job bigint primary key, playbook integer not null,
    phase text not null, open integer not null, made integer not null, state text not null,
    deadline_at bigint, origin text, result text, failure text
  ) with (fillfactor = 50, ${BUSY});
  create index run_playbook on $s.run (playbook);
  create index run_pruned on $s.run (job) where phase = 'pruned';
  create table $s.run_data (run bigint primary key, pins text not null, data text not null);

  -- state: the index in STEP_STATES, below 3 it has not ended. tokens: how it was reached, as JSON, null for none. items: the
  -- list of a loop. result and failure: only of steps without a job. No index names the state: its change stays in the page.
  create table $s.step (
    run bigint not null, n integer not null,
    visit integer not null, item integer not null, try integer not null, state smallint not null,
    at bigint not null, due bigint, ended_at bigint,
    node text collate "C" not null, job text collate "C", tokens text, items text, result text, failure text,
    primary key (run, n)
  ) with (fillfactor = 80, ${BUSY});
  -- The node first: with the run first, a plan made for an empty table might find a row by its run alone.
  create unique index step_place on $s.step (node, run, visit, item, try);

  create table $s.variable (
    run bigint not null, name text collate "C" not null, value text not null, primary key (run, name)
  ) with (fillfactor = 70);

  -- What a run must react to. kept: 0 unread, 1 a stored signal, 2 read, kept for its id.
  create table $s.inbox (
    no bigint generated always as identity primary key,
    job bigint not null, at bigint not null, kept smallint not null default 0,
    kind text not null, name text, id text collate "C", ref text collate "C", body text
  ) with (${BUSY});
  create index inbox_unread on $s.inbox (job, no) where kept = 0;
  create unique index inbox_id on $s.inbox (job, id) where id is not null;

  create table $s.timer (job bigint not null, n integer not null, due_at bigint not null, primary key (job, n))
    with (fillfactor = 70, ${BUSY});
  create index timer_due on $s.timer (due_at);

  -- Of a step: the number of its run, which is its parent, and the number of its row in step.
  alter table $s.job add column run bigint;
  alter table $s.submission add column step integer;
  `,
];
