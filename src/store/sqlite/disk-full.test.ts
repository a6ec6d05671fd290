/** A disk that is really full (F31): a small file system. Nothing is acknowledged that is not stored, nothing refused
 *  is stored, and when there is space again work continues. Mounting needs root; without it only the second half runs,
 *  and reports so: a limit on file size, which SQLite reports as a broken disk and not as a full one. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ClaimedJob } from "../../core/worker-protocol.ts";
import { allJobs, audit } from "../conformance/audit.ts";
import { broke, decideAt, decideCommandAt, newJob, newSession, reportOf, T0 } from "../conformance/kit.ts";
import type { Store } from "../store.ts";
import { openDatabase } from "./driver.ts";
import { openSqlite } from "./open.ts";

const directory = mkdtempSync(join(tmpdir(), "perdure-full-"));
const DISK_BYTES = 2 * 1_024 * 1_024;
const BALLAST_BYTES = DISK_BYTES / 2;
const disks: string[] = [];

/** A small file system; null if it may not be mounted. */
function newDisk(): string | null {
  const disk = join(directory, `disk-${disks.length}`);
  mkdirSync(disk);
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${DISK_BYTES}`, "tmpfs", disk], { stdio: "pipe" });
    disks.push(disk);
    return disk;
  } catch (error) {
    console.warn(`disk-full: cannot mount a file system (${String(error)}); only the limit on files is tested`);
    return null;
  }
}
const canMount = newDisk() !== null;
afterAll(() => {
  // Lazily: the driver for Node 20 releases its files only when its statements have been garbage-collected.
  for (const disk of disks) execFileSync("umount", ["-l", disk]);
  rmSync(directory, { recursive: true });
});

const open = (path: string) => openSqlite({ path, random: Math.random, newSecret: () => "a secret of the full disk" });
const FULL = { name: "PerdureError", code: "store_full", message: expect.stringMatching(/disk is full/) };

describe.runIf(canMount)("a full disk", () => {
  let disk: string;
  let path: string;
  let store: Store;

  beforeEach(async () => {
    disk = newDisk() as string;
    path = join(disk, "jobs.db");
    writeFileSync(join(disk, "ballast"), Buffer.alloc(BALLAST_BYTES));
    store = await open(path);
  });
  afterEach(async () => {
    await audit(store);
    await store.close();
    const db = await openDatabase(path);
    expect(db.prepare("pragma integrity_check").get()).toEqual({ integrity_check: "ok" });
    db.close();
  });

  /** Inserts until the disk is full; returns the ids that were acknowledged and those of the calls that were not. */
  async function fill(size: number): Promise<{ kept: string[]; refused: string[]; error: unknown }> {
    const kept: string[] = [];
    for (;;) {
      const jobs = Array.from({ length: 4 }, () => newJob({ payload: JSON.stringify("x".repeat(size)) }));
      const results = await Promise.allSettled(jobs.map((job) => store.insert([job], T0)));
      const done = jobs.filter((_, i) => results[i]?.status === "fulfilled").map((job) => job.id);
      kept.push(...done);
      const failed = results.find((result) => result.status === "rejected");
      if (failed === undefined) continue;
      return { kept, refused: jobs.map((job) => job.id).filter((id) => !done.includes(id)), error: failed.reason };
    }
  }
  const freeSpace = () => rmSync(join(disk, "ballast"));

  test("is reported clearly, keeps what was acknowledged and nothing else, and recovers", async () => {
    const { kept, refused, error } = await fill(4_000);
    expect(error).toMatchObject(FULL);
    expect(kept.length).toBeGreaterThan(20);
    expect((await allJobs(store)).map((job) => job.id).sort()).toEqual([...kept].sort());
    // Reads continue, and writes are still refused.
    expect(await store.jobs(refused)).toEqual(refused.map(() => null));
    const large = newJob({ payload: JSON.stringify("x".repeat(200_000)) });
    await expect(store.insert([large], T0)).rejects.toMatchObject(FULL);
    freeSpace();
    expect(await store.insert([large], T0)).toEqual([{ status: "inserted", id: large.id }]);
  });

  test("rolls back every verb as a whole, and each can be repeated when there is space", async () => {
    const session = newSession({ slots: 400 });
    await store.sessions.open(session, T0);
    const jobs = Array.from({ length: 200 }, () => newJob());
    await store.insert(jobs, T0);
    const request = { session: session.id, limit: 100, claimId: "first" };
    const held = (await store.claim([request], T0))[0]?.jobs as ClaimedJob[];
    await fill(4_000);
    await fill(1);

    const log = "x".repeat(2_000);
    const reports = held.map((job) => reportOf(job, broke(), { log }));
    const claims = [{ ...request, claimId: "second" }];
    const renewal = { session: session.id, held: held.map(({ id, attempt }) => ({ jobId: id, attempt, log })) };
    const cancels = jobs.slice(100).map(({ id }) => ({ jobId: id, command: { kind: "cancel" } as const }));
    const calls = {
      settle: () => store.settle(reports, T0, decideAt(T0)),
      renew: () => store.renew([{ ...renewal, unheardAfterMs: 1 }], T0),
      claim: () => store.claim(claims, T0),
      amend: () => store.amend(cancels, T0 + 1, decideCommandAt(T0 + 1)),
    };
    const before = await allJobs(store);
    const seq = await store.events.lastSeq();
    for (const call of Object.values(calls)) await expect(call()).rejects.toMatchObject(FULL);
    expect(await allJobs(store)).toEqual(before);
    expect(await store.events.lastSeq()).toBe(seq);

    freeSpace();
    const settled = await calls.settle();
    expect(settled.map((answer) => answer.status === "accepted" && !answer.repeated)).toEqual(held.map(() => true));
    expect((await calls.claim())[0]?.jobs).toHaveLength(100);
    expect((await calls.amend()).map((answer) => answer.status)).toEqual(cancels.map(() => "applied"));
    expect((await store.attempts(held[0]?.id as string))[0]?.log).toBe(log);
  });

  test("closed and opened while it is full, loses nothing", async () => {
    const { kept } = await fill(4_000);
    await fill(1);
    const all = (await allJobs(store)).length;
    await store.close();
    const reopened = await open(path).catch((error: unknown) => error);
    if (reopened instanceof Error) expect(reopened).toMatchObject({ code: expect.stringMatching(/^store_(full|io)$/) });
    else {
      expect(await allJobs(reopened as Store)).toHaveLength(all);
      await (reopened as Store).close();
    }
    freeSpace();
    store = await open(path);
    expect(await allJobs(store)).toHaveLength(all);
    expect((await store.jobs(kept)).every((job) => job !== null)).toBe(true);
    expect(await store.insert([newJob()], T0)).toMatchObject([{ status: "inserted" }]);
  });

  test("cannot hold a new store, and leaves nothing that blocks one later", async () => {
    await fill(4_000);
    await fill(1);
    const another = join(disk, "another.db");
    const refused = await open(another).catch((error: unknown) => error);
    expect(refused).toMatchObject({ name: "PerdureError", code: expect.stringMatching(/^store_(full|io)$/) });
    freeSpace();
    const opened = await open(another);
    expect(await opened.insert([newJob()], T0)).toMatchObject([{ status: "inserted" }]);
    await opened.close();
  });
});

describe("a disk that fails during a write", () => {
  /** Runs in a process with a limit on file size that is set at times: to SQLite that is an I/O error. */
  const script = (path: string) => `
    import { execFileSync } from "node:child_process";
    import { renameSync } from "node:fs";
    import { newJob, T0 } from "${new URL("../conformance/kit.ts", import.meta.url)}";
    import { openSqlite } from "${new URL("open.ts", import.meta.url)}";
    const told = [];
    const options = { random: () => 0, newSecret: () => crypto.randomUUID() };
    const other = await openSqlite({ path: "${path}.other", ...options });
    await other.close();
    const store = await openSqlite({ path: "${path}", ...options, report: (line) => told.push(line) });
    const limit = (to) => execFileSync("prlimit", ["--pid", String(process.pid), "--fsize=" + to + ":unlimited"]);
    const seen = [];
    const kept = [];
    const job = (size = 10) => newJob({ payload: JSON.stringify("x".repeat(size)) });
    const code = (call) => call.then((answers) => { kept.push(answers[0].id); return "stored"; }, (error) => error.code);
    const insert = () => code(store.insert([job()], T0));
    const healed = async () => { for (;;) { if ((await insert()) === "stored") return store.fault(); await new Promise((r) => setTimeout(r, 20)); } };
    for (let i = 0; i < 20; i++) await insert();
    let changes = 0;
    store.watch(() => { changes += 1; });

    limit(4096);
    const many = Array.from({ length: 3999 }, () => job(1000));
    const group = [code(store.insert(many, T0)), code(store.insert([job(), job()], T0))];
    seen.push(await Promise.all(group), await insert());
    while (!told.some((line) => line.includes("reopening the database failed"))) await new Promise((r) => setTimeout(r, 5));
    seen.push(store.fault() !== null, (await store.jobs(kept)).every((found) => found !== null));
    limit("unlimited");
    seen.push(await healed(), changes > 0);

    limit(4096);
    seen.push(await insert());
    limit("unlimited");
    for (const end of ["", "-wal", "-shm"]) try { renameSync("${path}" + end, "${path}.aside" + end); } catch {}
    renameSync("${path}.other", "${path}");
    while (!told.some((line) => line.includes("another database"))) await new Promise((r) => setTimeout(r, 5));
    seen.push(await insert());
    for (const end of ["", "-wal", "-shm"]) try { renameSync("${path}.aside" + end, "${path}" + end); } catch {}
    seen.push(await healed());
    const found = await store.jobs(kept);
    await store.close();
    console.log(JSON.stringify({ kept, seen, told, all: found.every((each) => each !== null) }));`;

  test("refuses writes, keeps reading, and is reopened automatically, but not on another file", async () => {
    const path = join(directory, "limited.db");
    const args = ["--import", "tsx", "--input-type=module", "-e", script(path)];
    const child = spawnSync(process.execPath, args, { encoding: "utf8" });
    expect(child.stderr).toBe("");
    const { kept, seen, told, all } = JSON.parse(child.stdout) as Record<"kept" | "seen" | "told", string[]> & {
      all: boolean;
    };
    expect(seen).toEqual([
      ["store_unknown", "store_unavailable"], // the second was not started
      "store_unavailable",
      ...[true, true], // it reports why, and reads
      ...[null, true], // it stores again, and notified watchers
      "store_unknown",
      "store_unavailable", // another database at its path is rejected
      null,
    ]);
    expect(told[0]).toBe(
      "store_down: the database is not accepting writes (disk I/O error); it will be reopened when the disk works",
    );
    expect(told.filter((line) => line.startsWith("store_up"))).toHaveLength(2);
    expect(all).toBe(true);
    const store = await open(path);
    expect((await store.jobs(kept)).map((job) => job?.id)).toEqual(kept);
    await audit(store);
    await store.close();
  });
});
