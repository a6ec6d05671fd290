/** A schema of an earlier version is migrated with all its data. */
import { describe, expect, it } from "vitest";
import { ask } from "../../../test/postgres/client.ts";
import { newSchema, type Schema } from "../../../test/postgres/kit.ts";
import { submitJob } from "../../core/job/lifecycle.ts";
import { runQueue } from "../../core/names.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import type { ClaimedJob } from "../../core/worker-protocol.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { Bench } from "../conformance/bench.ts";
import { done, LEASE, lanesIn, placeOf, SECOND, T0, TWICE, waiting } from "../conformance/kit.ts";
import { MIGRATIONS } from "./migrations.ts";
import { openPostgres } from "./open.ts";

const JOB = "job_01m7gekg9zevv9a6xvvwmt1v8g";
let secrets = 0;
const open = (url: string) =>
  openPostgres({
    ...{ url, random: Math.random, clock: systemClock, connections: 2 },
    newSecret: () => `secret ${secrets++} `.repeat(9),
  });

/** As version 1 created it, with a session. */
async function versionOne({ url, schema }: Schema): Promise<void> {
  await ask(url, `create schema ${schema}`);
  await ask(url, (MIGRATIONS[0] as string).replaceAll("$s", schema));
  await ask(
    url,
    `insert into ${schema}.meta (name, value) values ('generation', 'first'), ('secret', 'of cursors'), ('version', '1'),
       ('beat_at', ''), ('held_until', '0');
     insert into ${schema}.session (id, namespace, name, host, pid, kinds, labels, slots, lease_ms, started_at, renewed_at,
       lease_ends_at)
     values ('ses_old', 'default', 'w', 'h', 1, '["work"]', '{}', 5, ${LEASE}, ${T0}, ${T0}, ${T0 + LEASE})`,
  );
}

describe("a schema of version 1", () => {
  it("is migrated and works, with its data", async () => {
    const made = newSchema("migrate");
    await versionOne(made);
    const bench = new Bench(async () => ({ store: await open(made.url) }));
    await bench.begin();
    expect(await bench.store.sessions.list()).toMatchObject([{ id: "ses_old", health: null, drainingAt: null }]);
    const id = await bench.submit({ at: T0 + SECOND });
    const job = await bench.take("ses_old", T0 + SECOND);
    expect(job).toMatchObject({ id, token: "1.first.ses_old.1" });
    expect(await bench.store.sessions.drain("ses_old", T0 + SECOND)).toBe("draining");
    expect(await bench.renew("ses_old", [placeOf(job)], T0 + 2 * SECOND)).toMatchObject({ drain: true, lost: [] });
    await bench.report(job, undefined, T0 + 2 * SECOND);
    expect(await bench.store.tokens.list()).toEqual([]);
    expect(await bench.store.blobs?.().attempts(id)).toEqual([]);
    await bench.end();
  });

  it("keeps the lanes of single runs that have jobs, until those are pruned, and drops the others", async () => {
    const made = newSchema("migrate");
    await versionOne(made);
    const [used, unused] = [runQueue("1".repeat(16)), runQueue("2".repeat(16))];
    await ask(
      made.url,
      `insert into ${made.schema}.policy (hash, body) values ('h', '${JSON.stringify(resolvePolicy(1))}');
       insert into ${made.schema}.lane (namespace, queue, kind, labels)
         values ('default', '${used}', 'exec', '{}'), ('default', '${unused}', 'exec', '{}');
       insert into ${made.schema}.submission (job, id, lane, submitted_at, body) values (1, '${JOB}', 1, ${T0}, '{}');
       insert into ${made.schema}.job (no, run_at, finished_at, lane, policy, revision, chapter, attempt, priority, state)
         values (1, ${T0}, ${T0}, 1, 1, 1, 1, 0, 5, 5)`,
    );
    const store = await open(made.url);
    const prune = (at: number) =>
      store.prune({ now: at, keyWindowMs: 0, sessionsEndedBefore: 0, limit: 9, endedBefore: { cancelled: at } });
    await prune(T0);
    expect(await lanesIn(store)).toBe(1);
    expect(await store.jobs([JOB])).toMatchObject([{ queue: used }]);
    await prune(T0 + 1);
    expect(await lanesIn(store)).toBe(0);
    await store.close();
  });

  it("is migrated once by many that open it at the same time, and the secret of its servers can be moved", async () => {
    const made = newSchema("migrate");
    await versionOne(made);
    await ask(made.url, `insert into ${made.schema}.meta (name, value) values ('signing_secret', 'of its servers')`);
    const stores = await Promise.all(Array.from({ length: 5 }, () => open(made.url)));
    const secrets = await Promise.all(stores.map((store) => store.settings.formerSecret()));
    expect(new Set(secrets)).toEqual(new Set(["of its servers"]));
    await Promise.all(stores.map((store) => store.settings.eraseFormerSecret()));
    expect(await stores[0]?.settings.formerSecret()).toBeNull();
    for (const store of stores) await store.close();
    const rows = await ask<{ value: string }>(
      made.url,
      `select value from ${made.schema}.meta where name in ('version', 'secret') order by name`,
    );
    expect(rows.map(({ value }) => value)).toEqual(["of cursors", String(MIGRATIONS.length)]);
  });
});

const LANE = { kind: "work", queue: "default", namespace: "default" };

/** As version 2 created it: a running job, and one that waits. */
async function versionTwo({ url, schema: s }: Schema): Promise<void> {
  await ask(url, `create schema ${s}`);
  for (const step of MIGRATIONS.slice(0, 2)) await ask(url, step.replaceAll("$s", s));
  const policy = resolvePolicy(TWICE);
  const event = (seq: number, job: number, n: number, name: string, data: object) =>
    `(${seq}, ${job}, ${n}, ${T0}, '${name}', '${JSON.stringify(data)}')`;
  const submitted = submitJob({ ...LANE, runAt: T0, expireInMs: null, policy }, T0).event.data;
  const started = { v: 1, attempt: 1, session: "ses_old", worker: "w" };
  await ask(
    url,
    `insert into ${s}.meta (name, value) values ('generation', 'second'), ('secret', 'of cursors'), ('version', '2'),
       ('beat_at', ''), ('held_until', '0');
     insert into ${s}.policy (hash, body) values ('hash', '${JSON.stringify(policy)}');
     insert into ${s}.lane (namespace, queue, kind, labels) values ('default', 'default', 'work', '{}');
     insert into ${s}.session (id, namespace, name, host, pid, kinds, labels, slots, lease_ms, started_at, renewed_at,
       lease_ends_at)
     values ('ses_old', 'default', 'w', 'h', 1, '["work"]', '{}', 5, ${LEASE}, ${T0}, ${T0}, ${T0 + LEASE});
     select nextval('${s}.job_no'), nextval('${s}.event_seq');
     insert into ${s}.submission (job, id, lane, submitted_at, body) values
       (1, 'job_running', 1, ${T0}, '"one"'), (2, 'job_waiting', 1, ${T0}, '"two"');
     insert into ${s}.job (no, lane, policy, priority, state, run_at, revision, chapter, attempt, session, started_at,
       first_started_at) values
       (1, 1, 1, 5, 1, ${T0}, 2, 1, 1, 1, ${T0}, ${T0}), (2, 1, 1, 5, 0, ${T0}, 1, 1, 0, null, null, null);
     insert into ${s}.event (seq, job, n, at, name, data) values ${event(1, 1, 1, "job.submitted", submitted)},
       ${event(2, 1, 2, "attempt.started", started)}, ${event(3, 2, 1, "job.submitted", submitted)}`,
  );
}

describe("a schema of version 2", () => {
  it("continues its jobs, which may have children now", async () => {
    const made = newSchema("migrate");
    await versionTwo(made);
    const bench = new Bench(async () => ({ store: await open(made.url) }));
    await bench.begin();
    const alone = { parentId: null, depth: 0, annotations: {} };
    expect(await bench.row("job_running")).toMatchObject({ ...alone, state: "running", payload: '"one"' });
    expect(await bench.row("job_waiting")).toMatchObject({ ...alone, state: "queued" });
    const running = { id: "job_running", attempt: 1, token: "1.second.ses_old.1" } as ClaimedJob;
    const child = await bench.submit({ parent: { id: "job_running", attempt: 1 }, depth: 1, annotations: '{"a":"b"}' });
    expect(await bench.report(running, waiting([child]), T0 + 1)).toMatchObject({ state: "blocked" });
    const jobs = await bench.claim("ses_old", 5, T0 + 2);
    expect(jobs.map(({ id }) => id)).toEqual(["job_waiting", child]);
    for (const job of jobs) await bench.report(job, done(), T0 + 3);
    const found = await bench.store.children.unblockable({ parents: null, limit: 9 });
    expect(found.jobs).toEqual([{ jobId: "job_running", attempt: 1 }]);
    await bench.amend("job_running", { kind: "unblock", attempt: 1, runAt: T0 + 4 }, T0 + 4);
    await bench.report(await bench.take("ses_old", T0 + 4), done(), T0 + 5);
    expect(await bench.row(child)).toMatchObject({ parentId: "job_running", depth: 1, annotations: { a: "b" } });
    await bench.end();
  });
});

describe("a schema of version 3", () => {
  it("keeps sessions that exist only for their ids, as long as jobs may refer to them", async () => {
    const made = newSchema("migrate");
    const { url, schema: s } = made;
    await versionTwo(made);
    await ask(url, (MIGRATIONS[2] as string).replaceAll("$s", s));
    await ask(
      url,
      `update ${s}.meta set value = '3' where name = 'version';
       insert into ${s}.session (id, namespace, name, host, pid, kinds, labels, slots, lease_ms, started_at, renewed_at,
         lease_ends_at, ended_at, reaped)
       values ('ses_kept', 'default', 'w', 'h', 1, '[]', '{}', 5, ${LEASE}, ${T0}, ${T0}, ${T0}, ${T0}, 2)`,
    );
    const store = await open(url);
    const query = { now: T0, endedBefore: {}, keyWindowMs: 1, sessionsEndedBefore: T0 + SECOND, limit: 9 };
    await store.prune(query);
    await store.close();
    const rows = await ask<{ id: string; last_job: unknown }>(url, `select id, last_job from ${s}.session order by no`);
    expect(rows.map((row) => [row.id, row.last_job === null ? null : Number(row.last_job)])).toEqual([
      ["ses_old", null],
      ["ses_kept", 2],
    ]);
  });
});
