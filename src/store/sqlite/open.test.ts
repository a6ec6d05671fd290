/** Opening files: ours, foreign, newer, damaged, locked, new to several processes at once (F34, F35, S35). */
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { namedPipe } from "../../../test/kit.ts";
import { IS_FULL } from "../../../test/tier.ts";
import { PerdureError } from "../../core/errors.ts";
import { allJobs } from "../conformance/audit.ts";
import { broke, decideAt, newJob, newSession, reportOf, T0 } from "../conformance/kit.ts";
import { startRival } from "../conformance/rivals.ts";
import type { InsertAnswer, Store } from "../store.ts";
import { openDatabase } from "./driver.ts";
import { APPLICATION_ID, MIGRATIONS } from "./migrations.ts";
import { openSqlite } from "./open.ts";

const directory = mkdtempSync(join(tmpdir(), "perdure-open-"));
afterAll(() => rmSync(directory, { recursive: true }));
let files = 0;
const fresh = (name = "jobs.db") => {
  files += 1;
  return join(directory, `${files}`, name);
};
const newSecret = () => "the secret of a store in tests";
const open = (path: string) => openSqlite({ path, random: Math.random, newSecret });

function put(path: string, content: string | Uint8Array): string {
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, content);
  return path;
}
async function refused(path: string): Promise<PerdureError> {
  const outcome = await open(path).catch((error: unknown) => error);
  expect(outcome).toBeInstanceOf(PerdureError);
  expect((outcome as Error).message).toContain(path);
  return outcome as PerdureError;
}

test("is refused if the path is a named pipe, without blocking", async () => {
  const path = fresh();
  mkdirSync(join(path, ".."), { recursive: true });
  expect(await refused(namedPipe(path))).toMatchObject({ code: "store_io", message: expect.stringContaining("ENXIO") });
});

describe("a new file", () => {
  test("is private to its owner, and so are its directories and companions", async () => {
    const before = process.umask(0);
    try {
      const path = fresh(join("a", "b", "jobs.db"));
      const store = await open(path);
      await store.insert([newJob()], T0);
      const mode = (name: string) => (statSync(name).mode & 0o777).toString(8);
      for (const name of [path, `${path}-wal`, `${path}-shm`]) expect([name, mode(name)]).toEqual([name, "600"]);
      for (const up of ["..", "../..", "../../.."]) expect(mode(join(path, up))).toBe("700");
      await store.close();
    } finally {
      process.umask(before);
    }
  });

  test("can be opened by two connections of one process at once", async () => {
    const path = fresh();
    const stores = await Promise.all(Array.from({ length: 6 }, () => open(path)));
    for (const store of stores) await store.insert([newJob()], T0);
    expect(await allJobs(stores[0] as Store)).toHaveLength(6);
    for (const store of stores) await store.close();
  });

  test("can be opened by several processes at once", async () => {
    const path = fresh();
    const rivals = [startRival(path), startRival(path), startRival(path)];
    try {
      const store = await open(path);
      await Promise.all(rivals.map((rival) => rival.opened));
      const answers = await Promise.all(
        rivals.map((rival, i) => rival.ask<InsertAnswer[]>({ do: "submit", keys: ["all", `own-${i}`], now: T0 })),
      );
      expect(answers.flat().filter((answer) => answer.status === "inserted")).toHaveLength(4);
      expect(await allJobs(store)).toHaveLength(4);
      await store.close();
    } finally {
      await Promise.all(rivals.map((rival) => rival.close()));
    }
  });

  test("may exist as an empty file", async () => {
    const store = await open(put(fresh(), ""));
    expect(await store.insert([newJob()], T0)).toMatchObject([{ status: "inserted" }]);
    await store.close();
  });
});

describe("a file that is not ours", () => {
  const texts = { "a few words": "hello", "a long text": "x".repeat(100_000), zeros: new Uint8Array(8_192) };
  for (const [what, content] of Object.entries(texts)) {
    test(`${what}: is refused and not changed`, async () => {
      const path = put(fresh(), content);
      expect(await refused(path)).toMatchObject({ code: "store_not_a_database" });
      expect(readFileSync(path).equals(Buffer.from(content as string))).toBe(true);
    });
  }

  test("a database of another program is refused and not changed", async () => {
    for (const mark of ["create table customer (id)", "pragma application_id = 7", "pragma user_version = 1"]) {
      const path = put(fresh(), "");
      const db = await openDatabase(path);
      db.exec(mark);
      db.close();
      const before = readFileSync(path);
      const error = await refused(path);
      expect([mark, error.code]).toEqual([mark, "store_not_a_database"]);
      expect(error.message).toMatch(/another program/);
      expect(readFileSync(path).equals(before)).toBe(true);
    }
  });

  test("a database of a newer version is refused, with both numbers", async () => {
    const path = fresh();
    await (await open(path)).close();
    const db = await openDatabase(path);
    db.exec("pragma user_version = 99");
    db.close();
    const error = await refused(path);
    expect(error.code).toBe("store_newer");
    expect(error.message).toMatch(new RegExp(`99.*${MIGRATIONS.length}`));
  });

  test("a directory, and a path through a file, are refused", async () => {
    const path = fresh();
    mkdirSync(path, { recursive: true });
    expect(await refused(path)).toMatchObject({ code: "store_io" });
    const file = put(fresh(), "x");
    expect(await refused(join(file, "jobs.db"))).toMatchObject({ code: "store_io" });
  });
});

describe("a place that may not be written", () => {
  /** Root may write anywhere, so it becomes nobody for a moment. */
  async function asNobody(work: () => Promise<void>): Promise<void> {
    const root = process.geteuid?.() === 0;
    if (root) process.seteuid?.(65_534);
    try {
      await work();
    } finally {
      if (root) process.seteuid?.(0);
    }
  }

  test("is refused: a directory that cannot be entered, and one that cannot be written", async () => {
    for (const mode of [0o000, 0o555]) {
      const path = fresh();
      mkdirSync(join(path, ".."), { recursive: true });
      chmodSync(directory, 0o755);
      chmodSync(join(path, ".."), mode);
      await asNobody(async () => {
        expect(await refused(path)).toMatchObject({ code: "store_io" });
      });
      chmodSync(join(path, ".."), 0o755);
    }
  });

  test("is refused: a file of ours that can only be read", async () => {
    const path = fresh();
    await (await open(path)).close();
    chmodSync(join(path, ".."), 0o755);
    chmodSync(path, 0o444);
    const before = readFileSync(path);
    await asNobody(async () => {
      expect(await refused(path)).toMatchObject({ code: "store_io" });
    });
    expect(readFileSync(path).equals(before)).toBe(true);
  });
});

describe("a damaged file", () => {
  /** The bytes of a database with data in every table. */
  async function whole(): Promise<Buffer> {
    const path = fresh();
    const store = await open(path);
    const session = newSession();
    await store.sessions.open(session, T0);
    await store.insert(
      Array.from({ length: 150 }, (_, i) =>
        newJob({ key: `key-${i}`, tags: ["tag"], payload: `"${"x".repeat(200)}"` }),
      ),
      T0,
    );
    const [answer] = await store.claim([{ session: session.id, limit: 100, claimId: "c" }], T0);
    const reports = (answer?.jobs ?? []).map((job) => reportOf(job, broke(), { log: "log" }));
    await store.settle(reports.slice(10), T0, decideAt(T0));
    await store.close();
    return readFileSync(path);
  }

  /** Opens a damaged copy and uses it. Every error must have our message, and nothing may be discarded. */
  async function use(bytes: Buffer): Promise<"worked" | PerdureError> {
    const path = put(fresh(), bytes);
    let store: Store | null = null;
    try {
      store = await open(path);
      const jobs = await allJobs(store);
      for (const job of jobs) await store.history(job.id);
      (await store.events.page({ after: 0, limit: 10_000 })).events;
      await store.queues.counts(null, T0);
      await store.sessions.list();
      await store.insert([newJob({ key: `${Math.random()}` })], T0);
      return "worked";
    } catch (error) {
      if (!(error instanceof PerdureError)) throw error;
      expect(["store_io", "store_not_a_database", "store_newer"]).toContain(error.code);
      return error;
    } finally {
      await store?.close();
      expect(statSync(path).size).toBeGreaterThanOrEqual(Math.min(bytes.length, 512));
      // A file that was refused at opening was not touched.
      if (store === null) expect(readFileSync(path).equals(bytes)).toBe(true);
    }
  }

  const FLIPS = IS_FULL ? 100 : 20;

  test("with bytes flipped anywhere is never replaced, and the damage is reported", async () => {
    const bytes = await whole();
    const pages = Math.floor(bytes.length / 4_096);
    const outcomes: ("worked" | PerdureError)[] = [];
    for (let i = 0; i < FLIPS; i++) {
      const damaged = Buffer.from(bytes);
      // Each page in turn: in its header, and somewhere in it.
      const page = (i % pages) * 4_096;
      const at = page + (i % 3 === 0 ? i % 12 : (i * 1_103) % 4_096);
      for (let k = 0; k < 1 + (i % 8); k++) damaged[at + k] = (damaged[at + k] as number) ^ (1 + ((i * 37) % 255));
      outcomes.push(await use(damaged));
    }
    expect(outcomes.filter((outcome) => outcome !== "worked").length).toBeGreaterThan(FLIPS / 5);
  });

  test("without its header is not treated as a new file", async () => {
    const bytes = await whole();
    for (const length of [16, 100, 4_096]) {
      const damaged = Buffer.from(bytes);
      damaged.fill(0, 0, length);
      expect(await use(damaged)).toBeInstanceOf(PerdureError);
    }
  });

  test("truncated at any page is refused when missing data is needed", async () => {
    const bytes = await whole();
    for (const size of [100, 512, 4_095, 4_096, 8_192, 40_960, bytes.length - 4_096, bytes.length - 1]) {
      const path = put(fresh(), bytes);
      truncateSync(path, size);
      const outcome = await use(readFileSync(path));
      expect([size, outcome]).toEqual([size, expect.any(PerdureError)]);
    }
  });

  test("with only its application id left is refused", async () => {
    const path = put(fresh(), "");
    const db = await openDatabase(path);
    db.exec(`pragma application_id = ${APPLICATION_ID}; pragma user_version = ${MIGRATIONS.length}`);
    db.close();
    expect(await refused(path)).toMatchObject({ code: "store_io" });
  });
});
