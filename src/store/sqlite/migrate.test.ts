/** A file of an earlier version is migrated with all its data. */
import { copyFileSync, existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { tempFile } from "../../../test/kit.ts";
import { submitJob } from "../../core/job/lifecycle.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import type { ClaimedJob } from "../../core/worker-protocol.ts";
import { Bench } from "../conformance/bench.ts";
import { done, LEASE, placeOf, SECOND, T0, TWICE, waiting } from "../conformance/kit.ts";
import { openDatabase } from "./driver.ts";
import { APPLICATION_ID, MIGRATIONS } from "./migrations.ts";
import { openSqlite } from "./open.ts";

let secrets = 0;
const open = (path: string) =>
  openSqlite({ path, random: Math.random, newSecret: () => `secret ${secrets++} `.repeat(9) });

/** As version 1 created it, with a running job. */
async function versionOne(path: string): Promise<void> {
  const db = await openDatabase(path);
  db.exec(MIGRATIONS[0] as string);
  db.exec(`insert into meta (name, value) values ('generation', 'first'), ('secret', 'of cursors');
    insert into lane (no, namespace, queue, kind, labels) values (1, 'default', 'default', 'work', '{}');
    insert into session (no, id, namespace, name, host, pid, kinds, labels, slots, lease_ms, started_at, renewed_at, lease_ends_at)
      values (1, 'ses_old', 'default', 'w', 'h', 1, '["work"]', '{}', 5, ${LEASE}, ${T0}, ${T0}, ${T0 + LEASE});
    insert into event (n, at, name, data) values (0, ${T0}, 'worker.started', '{"v":1,"session":"ses_old"}');
    pragma application_id = ${APPLICATION_ID}; pragma user_version = 1`);
  db.close();
}

describe("a file of version 1", () => {
  it("is migrated and works, with its data", async () => {
    const path = tempFile();
    await versionOne(path);
    const bench = new Bench(async () => ({ store: await open(path) }));
    await bench.begin();
    expect(await bench.store.sessions.list()).toMatchObject([{ id: "ses_old", health: null, drainingAt: null }]);
    const id = await bench.submit({ at: T0 + SECOND });
    const job = await bench.take("ses_old", T0 + SECOND);
    expect(job).toMatchObject({ id, token: "1.first.ses_old.1" });
    expect(await bench.store.sessions.drain("ses_old", T0 + SECOND)).toBe("draining");
    expect(await bench.renew("ses_old", [placeOf(job)], T0 + 2 * SECOND)).toMatchObject({ drain: true, lost: [] });
    await bench.report(job, undefined, T0 + 2 * SECOND);
    await bench.store.tokens.add({
      ...{ id: "t", name: "n", hash: "h", scopes: ["read"], namespace: null },
      ...{ createdAt: T0, expiresAt: null, revokedAt: null },
    });
    expect(await bench.store.tokens.list()).toHaveLength(1);
    expect((await bench.store.events.page({ after: 0, limit: 99 })).events).toHaveLength(6);
    // An old event of a worker has no namespace.
    expect((await bench.store.events.page({ after: 0, limit: 99, namespace: "default" })).events).toHaveLength(4);
    await bench.end();
  });

  it("is migrated once by many that open it at the same time", async () => {
    const path = tempFile();
    await versionOne(path);
    const stores = await Promise.all(Array.from({ length: 6 }, () => open(path)));
    for (const store of stores) await store.close();
    const db = await openDatabase(path);
    expect(db.prepare("pragma user_version").get()).toEqual({ user_version: MIGRATIONS.length });
    expect(db.prepare("select value from meta where name = 'secret'").get()).toEqual({ value: "of cursors" });
    db.close();
  });
});

describe("a file with the secret of its servers", () => {
  it("has the secret until it is erased, and then nowhere in its bytes", async () => {
    const path = tempFile();
    const secret = "the-signing-secret-of-an-earlier-version";
    await versionOne(path);
    const db = await openDatabase(path);
    const add = db.prepare("insert into meta (name, value) values (?, ?)");
    add.run("signing_secret", secret);
    // Rows beside it are added and deleted, and leave copies of it elsewhere in its page.
    for (let i = 0; i < 40; i++) add.run(`setting.${i}`, "x".repeat(60));
    db.exec(
      "delete from meta where name like 'setting.%'; update meta set value = value where name = 'signing_secret'",
    );
    db.close();
    const holdsIt = () => [path, `${path}-wal`].some((file) => existsSync(file) && readFileSync(file).includes(secret));
    const store = await open(path);
    await store.settings.setIfAbsent("outputs", "kept");
    expect(await store.settings.formerSecret()).toBe(secret);
    expect(holdsIt()).toBe(true);
    await store.settings.eraseFormerSecret();
    expect(await store.settings.formerSecret()).toBeNull();
    expect(holdsIt()).toBe(false);
    expect(await store.settings.get("outputs")).toBe("kept");
    await store.close();
    expect(holdsIt()).toBe(false);
    const again = await open(path);
    expect(await again.settings.get("outputs")).toBe("kept");
    await again.close();
  });

  it("has it nowhere after the next open, if a crash prevented the truncation of its log", async () => {
    const [path, copy] = [tempFile(), tempFile()];
    const secret = "the-signing-secret-of-an-earlier-version";
    await versionOne(path);
    const store = await open(path);
    const reader = await openDatabase(path);
    reader.prepare("insert into meta (name, value) values ('signing_secret', ?)").run(secret);
    // Keeps the log from being truncated; the files as they are then are those after a crash.
    reader.exec("begin");
    reader.prepare("select count(*) from meta").get();
    await store.settings.eraseFormerSecret();
    for (const part of ["", "-wal"]) copyFileSync(path + part, copy + part);
    reader.exec("commit");
    reader.close();
    await store.close();
    const holdsIt = () => readFileSync(copy).includes(secret) || readFileSync(`${copy}-wal`).includes(secret);
    expect(holdsIt()).toBe(true);
    for (const _ of [1, 2]) {
      const again = await open(copy);
      expect(holdsIt()).toBe(false);
      expect(await again.settings.formerSecret()).toBeNull();
      await again.close();
    }
  });

  it("is refused by an earlier version, which would create another secret", async () => {
    const path = tempFile();
    await (await open(path)).close();
    const db = await openDatabase(path);
    const { user_version: version } = db.prepare("pragma user_version").get() as { user_version: number };
    db.close();
    expect(version).toBeGreaterThan(10); // the last one with a secret
  });
});

const LANE = { kind: "work", queue: "default", namespace: "default" };

/** As version 2 created it: a running job, and one that waits. */
async function versionTwo(path: string): Promise<void> {
  const db = await openDatabase(path);
  for (const step of MIGRATIONS.slice(0, 2)) db.exec(step);
  const policy = JSON.stringify(resolvePolicy(TWICE));
  const event = (job: number, n: number, name: string, data: object) =>
    `(${job}, ${n}, ${T0}, '${name}', '${JSON.stringify(data)}')`;
  const submitted = submitJob({ ...LANE, runAt: T0, expireInMs: null, policy: resolvePolicy(TWICE) }, T0).event.data;
  const started = { v: 1, attempt: 1, session: "ses_old", worker: "w" };
  db.exec(`insert into meta (name, value) values ('generation', 'second'), ('secret', 'of cursors');
    insert into policy (no, hash, body) values (1, 'hash', '${policy}');
    insert into lane (no, namespace, queue, kind, labels) values (1, 'default', 'default', 'work', '{}');
    insert into session (no, id, namespace, name, host, pid, kinds, labels, slots, lease_ms, started_at, renewed_at, lease_ends_at)
      values (1, 'ses_old', 'default', 'w', 'h', 1, '["work"]', '{}', 5, ${LEASE}, ${T0}, ${T0}, ${T0 + LEASE});
    insert into job (no, id, lane, policy, priority, state, run_at, revision, chapter, attempt, session, submitted_at,
      started_at, first_started_at) values
      (1, 'job_running', 1, 1, 5, 1, ${T0}, 2, 1, 1, 1, ${T0}, ${T0}, ${T0}),
      (2, 'job_waiting', 1, 1, 5, 0, ${T0}, 1, 1, 0, null, ${T0}, null, null);
    insert into payload (job, body) values (1, '"one"'), (2, '"two"');
    insert into event (job, n, at, name, data) values ${event(1, 1, "job.submitted", submitted)},
      ${event(1, 2, "attempt.started", started)}, ${event(2, 1, "job.submitted", submitted)};
    pragma application_id = ${APPLICATION_ID}; pragma user_version = 2`);
  db.close();
}

describe("a file of version 2", () => {
  it("continues its jobs, which may have children now", async () => {
    const path = tempFile();
    await versionTwo(path);
    const bench = new Bench(async () => ({ store: await open(path) }));
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

describe("a file of version 3", () => {
  it("keeps sessions that exist only for their ids, as long as jobs may refer to them", async () => {
    const path = tempFile();
    await versionTwo(path);
    const db = await openDatabase(path);
    db.exec(MIGRATIONS[2] as string);
    db.exec(`pragma user_version = 3;
      insert into session (no, id, namespace, name, host, pid, kinds, labels, slots, lease_ms, started_at, renewed_at,
        lease_ends_at, ended_at, reaped)
      values (2, 'ses_kept', 'default', 'w', 'h', 1, '[]', '{}', 5, ${LEASE}, ${T0}, ${T0}, ${T0}, ${T0}, 2)`);
    const store = await open(path);
    const query = { now: T0, endedBefore: {}, keyWindowMs: 1, sessionsEndedBefore: T0 + SECOND, limit: 9 };
    await store.prune(query);
    await store.close();
    expect(db.prepare("select no, last_job from session order by no").all()).toEqual([
      { no: 1, last_job: null },
      { no: 2, last_job: 2 },
    ]);
    db.close();
  });
});
