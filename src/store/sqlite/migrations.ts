/** The schema, as numbered steps forward. A step that has been released is never edited. States are small numbers
 *  (`STATE_CODES`); times are milliseconds UTC; a job is `no` inside the database and `id` outside. */

/** "PERD": identifies a database file as ours. */
export const APPLICATION_ID = 0x50455244;

export const MIGRATIONS: readonly string[] = [
  `
  create table meta (name text primary key, value) without rowid;

  create table policy (no integer primary key, hash text not null unique, body text not null);

  create table lane (
    no integer primary key,
    namespace text not null, queue text not null, kind text not null, labels text not null,
    unique (namespace, queue, kind, labels)
  );

  -- autoincrement: rows and caches name a session by its number, so one that was pruned must not come back as another
  create table session (
    no integer primary key autoincrement,
    id text not null unique,
    namespace text not null, name text not null, host text not null, pid integer not null, process text,
    kinds text not null, queues text, labels text not null, slots integer not null,
    lease_ms integer not null,
    started_at integer not null, renewed_at integer not null, lease_ends_at integer not null,
    ended_at integer,
    -- 1 once it has ended and holds nothing: the reaper looks at the others only; 2 once it is kept only for its id
    reaped integer not null default 0
  );
  create index session_unreaped on session (lease_ends_at) where reaped = 0;

  -- The hot row: payload, result, key and history live elsewhere, because SQLite writes a row anew at each change.
  create table job (
    no integer primary key autoincrement,
    id text not null unique,
    lane integer not null, policy integer not null, priority integer not null,
    state integer not null, run_at integer not null,
    revision integer not null, chapter integer not null, attempt integer not null,
    failures integer not null default 0, losses integer not null default 0, defers integer not null default 0,
    handbacks integer not null default 0, streak integer not null default 0,
    streak_session text, rule_counts text, reason text,
    session integer, avoid_session integer,
    submitted_at integer not null, started_at integer, first_started_at integer, finished_at integer,
    expires_at integer, check_at integer, deadline_at integer, expire_in integer, timeout_ms integer,
    cancel_requested_at integer, discarded_at integer,
    usage text, live_usage text, progress text, key text, tags text,
    check (priority between 0 and 9),
    check ((state in (3, 4, 5)) = (finished_at is not null)),
    check ((state = 4) = (reason is not null))
  );
  -- Every start and every success is written to each index it touches: hence one per wait, and none for success.
  create index job_ready on job (lane, priority, run_at, no) where state = 0;
  create index job_check on job (check_at) where state = 0 and check_at is not null;
  create index job_running on job (session, cancel_requested_at) where state = 1;
  -- blocked, failed, cancelled
  create index job_aside on job (state, no, lane) where state = 2 or state >= 4;
  create index job_lane on job (lane, no);

  create table payload (job integer primary key, body text not null);

  -- Also the stub that outlives a pruned job: then "until" is set.
  create table submit_key (
    namespace text not null, key text not null,
    id text not null, body_hash text not null,
    state integer, chapter integer, until integer,
    primary key (namespace, key)
  ) without rowid;
  create index submit_key_stub on submit_key (until) where until is not null;

  -- With a rowid: without one, a result or a stack of more than a quarter of a page would get a page of its own.
  create table attempt (
    no integer primary key,
    job integer not null, attempt integer not null, chapter integer not null,
    session integer, started_at integer not null, ended_at integer not null,
    outcome text not null, failure text, usage text, result text, report_id text,
    after_state integer not null, after_reason text, after_run_at integer
  );
  create unique index attempt_job on attempt (job, attempt);

  create table log_chunk (
    job integer not null, attempt integer not null, n integer not null, body text not null,
    primary key (job, attempt, n)
  ) without rowid;

  create table late_report (
    job integer not null, attempt integer not null, at integer not null, session text, outcome text not null,
    primary key (job, attempt)
  ) without rowid;

  -- autoincrement: without it numbers are reused after a prune, and a reader's cursor would skip events
  create table event (
    seq integer primary key autoincrement,
    job integer, n integer not null, at integer not null, name text not null, data text not null
  );
  create unique index event_job on event (job, n) where job is not null;
  create index event_engine on event (at) where job is null;

  create table tag (tag text not null, job integer not null, primary key (tag, job)) without rowid;

  create table queue (
    namespace text not null, queue text not null, paused_at integer not null,
    primary key (namespace, queue)
  ) without rowid;
  create table past_pause (
    namespace text not null, queue text not null, from_at integer not null, to_at integer not null,
    primary key (namespace, queue, from_at)
  ) without rowid;

  create table claim (
    session integer not null, claim_id text not null, at integer not null, jobs text not null,
    primary key (session, claim_id)
  ) without rowid;
  `,
  `
  alter table session add column health text;
  alter table session add column draining_at integer;

  create table access_token (
    id text primary key,
    name text not null, hash text not null unique, scopes text not null, namespace text,
    created_at integer not null, expires_at integer, revoked_at integer
  ) without rowid;
  `,
  `
  -- The job whose child it is, and how many there are above it. By its id: a child may outlive its parent.
  alter table job add column parent text;
  alter table job add column depth integer not null default 0;
  create index job_parent on job (parent, no) where parent is not null;
  alter table payload add column annotations text;

  -- Blocked jobs: the ids that each waits for, as JSON, and the run that began to wait.
  create table blocked (job integer primary key, attempt integer not null, waits text not null, since integer not null);
  -- Jobs whose cancel is still to be passed on to their children.
  create table cascade (job integer primary key);
  `,
  `
  -- The last job there was when it was put out of sight: once those up to it are gone, no row names the session.
  alter table session add column last_job integer;
  update session set last_job = (select coalesce(max(no), 0) from job) where reaped = 2;
  `,
  `
  -- Null: it is called by its kind, as most jobs are.
  alter table job add column name text;
  alter table job add column action text;
  create index job_name on job (name, no) where name is not null;
  create index job_action on job (action, no) where action is not null;
  `,
  `
  alter table claim add column deliveries integer not null default 1;

  -- What running jobs take of the cpu and memory of their host. A row counts while its job runs that attempt: it is left
  -- behind by the attempt's end, and deleted by a later claim on that host.
  create table hold (
    job integer primary key, attempt integer not null, session integer not null, host text not null,
    cpu integer not null, memory integer not null
  );
  create index hold_host on hold (host);
  `,
  `
  -- autoincrement: lanes of single runs are deleted, and processes keep in memory what the numbers mean
  create table lane_numbered (
    no integer primary key autoincrement,
    namespace text not null, queue text not null, kind text not null, labels text not null,
    unique (namespace, queue, kind, labels)
  );
  insert into lane_numbered select no, namespace, queue, kind, labels from lane order by no;
  drop table lane;
  alter table lane_numbered rename to lane;
  create index lane_run on lane (no) where queue glob 'run-[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]';
  `,
  `
  -- What a worker publishes of its tasks, as JSON by kind; null: nothing.
  alter table session add column defaults text;
  create index session_defaults on session (namespace, no) where defaults is not null;
  `,
  `
  -- The nearest job, from itself upwards, that has a budget of tokens or money; null where none has.
  alter table job add column budget integer;
  -- What has been spent of each budget, as JSON; "above" is the next budget above it.
  create table budget (job integer primary key, above integer, body text not null);
  `,
  `
  -- The replies to a claim that did not get through, as a JSON list of their numbers.
  alter table claim add column undelivered text not null default '[]';
  `,
  `
  -- When it was last noted that jobs are submitted to it; whoever made it, as quotas count. What is there counts as in use for
  -- a week, and what an earlier version adds for ever: it notes nothing.
  alter table lane add column used_at integer not null default 8640000000000000;
  update lane set used_at = unixepoch() * 1000 + 604800000;
  alter table lane add column owner text;
  create index lane_owner on lane (namespace, owner) where owner is not null;
  -- autoincrement: policies are deleted, and processes keep in memory what the numbers mean
  create table policy_numbered (
    no integer primary key autoincrement, hash text not null unique, body text not null,
    used_at integer not null default 8640000000000000
  );
  insert into policy_numbered (no, hash, body, used_at)
    select no, hash, body, unixepoch() * 1000 + 604800000 from policy order by no;
  drop table policy;
  alter table policy_numbered rename to policy;
  `,
  `
  -- What the losses of its streak say against a job.
  alter table job add column evidence integer not null default 0;
  -- It tries a suspect, and takes nothing else until then.
  alter table session add column alone_until integer;
  -- When it was found to be lost, how many attempts its process held, and which job, if it was the only one.
  alter table session add column lost_at integer;
  alter table session add column lost_with integer;
  alter table session add column lost_job integer;
  `,
  `
  -- No change of tables. Servers no longer keep their signing secret in meta, and an earlier version would make one there.
  `,
  `
  -- The token that opened it; null: none did.
  alter table session add column owner text;
  create index session_owner on session (owner) where reaped = 0 and owner is not null;
  `,
  `
  -- The sessions of a process, which die together.
  create index session_process on session (process, pid) where reaped < 2;
  `,
  `
  -- A short name for what it can run, to compare sessions by; those from before, which have none, count as alike.
  alter table session add column pool text not null default '';
  `,
  `
  -- No change of tables. Events are written in format 2, which an earlier version does not know; those in format 1 stay, and are
  -- read as format 2 (core/job/event-formats.ts).
  `,
  `
  -- Compiled playbooks, each stored once. autoincrement: they are deleted, and rows name them by number. used_at: when one was last
  -- saved, to keep what a run is about to name.
  create table playbook (
    no integer primary key autoincrement, hash text not null unique, used_at integer not null, body text not null
  );
  create table catalog (
    namespace text not null, path text not null, version integer not null,
    playbook integer not null, source text not null, at integer not null, pushed_by text,
    primary key (namespace, path, version)
  );
  create index catalog_playbook on catalog (playbook);
  -- The code of steps, once and not in each payload.
  create table asset (hash text primary key, body blob not null);

  -- Runs, by the number of their job. This row is written anew at each advance, so what is long and rarely changes is beside it.
  -- phase: also "pruned", once its job is deleted, until those of its steps are.
  create table run (
    job integer primary key, playbook integer not null,
    phase text not null, open integer not null, made integer not null, state text not null,
    deadline_at integer, origin text, result text, failure text
  );
  create index run_playbook on run (playbook);
  create index run_pruned on run (job) where phase = 'pruned';
  create table run_data (run integer primary key, pins text not null, data text not null);

  -- state: the index in STEP_STATES; below 3 it has not ended. tokens: how it was reached, as JSON; null for none. items: the
  -- list of a loop. result and failure: only of steps without a job.
  create table step (
    run integer not null, n integer not null,
    node text not null, visit integer not null, item integer not null, try integer not null,
    state integer not null, job text, due integer, tokens text, at integer not null, ended_at integer,
    items text, result text, failure text,
    primary key (run, n)
  ) without rowid;
  create unique index step_place on step (run, node, visit, item, try);
  create index step_open on step (run, n) where state < 3;

  create table variable (run integer not null, name text not null, value text not null, primary key (run, name));

  -- What a run must react to. kept: 0 unread, 1 a stored signal, 2 read, kept for its id. autoincrement: an advance deletes rows by
  -- number, so a number must not come back as another message.
  create table inbox (
    no integer primary key autoincrement,
    job integer not null, kind text not null, name text, id text, ref text, at integer not null, body text,
    kept integer not null default 0
  );
  create index inbox_unread on inbox (job) where kept = 0;
  create unique index inbox_id on inbox (job, id) where id is not null;

  create table timer (job integer not null, n integer not null, due_at integer not null, primary key (job, n)) without rowid;
  create index timer_due on timer (due_at);

  -- Of a step: the number of its run, which is its parent, and the number of its row in step.
  alter table job add column run integer;
  alter table job add column step integer;
  `,
];
