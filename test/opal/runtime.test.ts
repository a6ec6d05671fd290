/** The runtime folder of a server in this process, on a real disk: its content, and what happens when it is damaged or
 *  deleted, when the disk is full, or when something else is in its place. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  unlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { describe, expect, it, onTestFinished } from "vitest";
import { resolvePolicy } from "../../src/core/policy/resolve-policy.ts";
import { RUNTIME_FOLDERS, type RuntimeFiles } from "../../src/dialects/opal/server/runtime-files.ts";
import { RuntimeFolder, type RuntimeOptions } from "../../src/dialects/opal/server/runtime-folder.ts";
import { opalPolicy, opalSettings } from "../../src/dialects/opal/settings.ts";
import { MirrorFolder } from "../../src/files/mirror-folder.ts";
import type { StoreName } from "../server/kit.ts";
import { inFull } from "../tier.ts";
import { type OpalKit, type OpalServer, startOpal } from "./kit.ts";

interface Wish extends Partial<Pick<RuntimeOptions, "sweepEveryMs">> {
  readonly path?: string;
  readonly wrap?: (files: RuntimeFiles) => RuntimeFiles;
}

interface Runtime {
  readonly path: string;
  /** The kinds of the folder's log lines. */
  readonly logged: { readonly message: string; readonly fields: Record<string, unknown> }[];
  text(...names: string[]): string;
  json(...names: string[]): Record<string, unknown>;
  /** The paths below a folder; empty folders end with `/`. */
  tree(...names: string[]): string[];
  log(): { readonly event: string; readonly worker: string }[];
  stop(): Promise<void>;
}

async function follow({ engine, blobs }: OpalServer, { path: given, wrap = (files) => files, ...rest }: Wish = {}) {
  const place = realpathSync(mkdtempSync(join(tmpdir(), "perdure-runtime-")));
  onTestFinished(() => rmSync(place, { recursive: true, force: true }));
  const path = given ?? join(place, "runtime");
  const mark = { name: ".mark", text: "a copy\n" };
  const folder = await MirrorFolder.open(path, { folders: RUNTIME_FOLDERS, mark, lock: async () => () => {} });
  const logged: Runtime["logged"] = [];
  const log: RuntimeOptions["log"] = (_level, message, fields = {}) => void logged.push({ message, fields });
  const runtime = new RuntimeFolder({ engine, blobs, files: wrap(folder), log, ...rest });
  runtime.start();
  onTestFinished(() => runtime.stop());
  const at = (...names: string[]) => join(path, ...names);
  const answer: Runtime = {
    ...{ path, logged, stop: () => runtime.stop() },
    text: (...names) => readFileSync(at(...names), "utf8"),
    json: (...names) => JSON.parse(readFileSync(at(...names), "utf8")),
    tree: (...names) =>
      readdirSync(at(...names), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile() || readdirSync(join(entry.parentPath, entry.name)).length === 0)
        .map((entry) => join(entry.parentPath, entry.name).slice(at(...names).length + 1) + (entry.isFile() ? "" : "/"))
        .sort(),
    log: () =>
      readdirSync(at("logs", "worker_pool"))
        .sort()
        .flatMap((name) => answer.text("logs", "worker_pool", name).trim().split("\n"))
        .map((line) => JSON.parse(line)),
  };
  return answer;
}

/** The file operations of the folder, of which tests replace some. */
function through(files: RuntimeFiles): RuntimeFiles {
  return {
    isWhole: () => files.isWhole(),
    checkSpace: (bytes) => files.checkSpace(bytes),
    write: (...args) => files.write(...args),
    append: (...args) => files.append(...args),
    makeFolder: (path) => files.makeFolder(path),
    modifiedAt: (path) => files.modifiedAt(path),
    names: (path) => files.names(path),
    remove: (path) => files.remove(path),
  };
}

const SCRIPT = `case "$OPAL_PROMPT" in fail) exit 7;; own) printf '{ "mine": 1 }' > result.json;; esac; echo hi > artifacts/out.txt; mkdir artifacts/deep; echo ho > artifacts/deep/in.txt`;
const SESSION = { namespace: "default", host: "h", pid: 1, kinds: ["exec"], queues: null, labels: {}, slots: 9 };

async function start(options: OpalKit = {}) {
  const server = await startOpal({ engine: ["sh", "-c", `cd "$PERDURE_OUTPUT_DIR"; ${SCRIPT}`], ...options });
  return {
    ...server,
    async submit(id: string, prompt = "paint") {
      expect((await server.call("POST", "/api/jobs", { body: { prompt, job_id: id } })).status).toBe(201);
    },
    /** Claims all due jobs with a worker; the returned function loses that worker. */
    async claim(name: string) {
      const session = await server.engine.openSession({ ...SESSION, name });
      await server.engine.claim(session, { limit: 9, waitMs: 0, claimId: null });
      return async () => {
        await server.engine.closeSession(session);
        await server.engine.reap();
      };
    },
  };
}

describe.each(inFull<StoreName>(["sqlite", "postgres"]))("the runtime folder over %s", (store) => {
  it('has "job_leases/<job_id>.json" while a worker holds the job, its attempt store, and a log of each worker', async () => {
    const server = await start({ store });
    const runtime = await follow(server);
    await server.submit("job_1");
    await expect.poll(() => runtime.tree()).toContain("job_attempts/job_1.json");
    expect(runtime.json("job_attempts", "job_1.json")).toMatchObject({ job_id: "job_1", attempts: 0, reclaim: null });
    expect(runtime.tree("opal_artifacts")).toEqual([]); // no attempt, no folder
    const lose = await server.claim("host-7");
    await expect.poll(() => runtime.tree()).toContain("job_leases/job_1.json");
    const lease = runtime.json("job_leases", "job_1.json");
    expect(Object.keys(lease)).toEqual(["job_id", "worker_id", "attempt", "acquired_at", "expires_at"]);
    expect(lease).toMatchObject({ job_id: "job_1", worker_id: "host-7", attempt: 1 });
    await expect
      .poll(() => runtime.tree("opal_artifacts"))
      .toEqual(["job_1/attempt_1/artifacts/", "job_1/attempt_1/result.json"]);
    const result = ["opal_artifacts", "job_1", "attempt_1", "result.json"];
    expect(runtime.json(...result)).toMatchObject({ status: "running" });

    await lose();
    await expect
      .poll(() => runtime.json("job_attempts", "job_1.json").reclaim)
      .toMatchObject({ reason: "lease_expired" });
    await expect
      .poll(() => runtime.json(...result))
      .toMatchObject({ status: "failed", error: "lease_expired_retry_1" });
    expect(runtime.tree("job_leases")).toEqual([]);
    expect(readdirSync(join(runtime.path, "logs/worker_pool")).sort()).toEqual([
      "worker_host-7.log",
      "worker_test.log",
    ]);
    expect(runtime.log().map(({ worker, event }) => `${worker}: ${event}`)).toEqual([
      "host-7: [Worker] Running job job_1 (Attempt 1/2)",
      "test: [Lease] ♻️ Reclaiming job job_1 (Attempt 1/2) -> QUEUED (backoff=8s)",
    ]);
  });
});

describe("the runtime folder", () => {
  it("moves the end of a lease on as the worker renews it", async () => {
    const server = await start({ leaseMs: 4_000 });
    const runtime = await follow(server);
    await server.submit("job_1");
    const session = await server.engine.openSession({ ...SESSION, name: "w" });
    await server.engine.claim(session, { limit: 1, waitMs: 0, claimId: null });
    const end = () => Date.parse(runtime.json("job_leases", "job_1.json").expires_at as string);
    await expect.poll(() => runtime.tree("job_leases")).toEqual(["job_1.json"]);
    const before = end();
    await expect
      .poll(async () => {
        await server.engine.renew(session, []);
        return end();
      })
      .toBeGreaterThan(before);
  });

  it('has "attempt_N/" with what the attempt left, as files of their own, and the engine\'s result.json byte for byte', async () => {
    const server = await start();
    const runtime = await follow(server);
    for (const id of ["paint", "own", "fail"]) await server.submit(id, id);
    await server.submit("others", "x");
    await server.work();
    for (const id of ["paint", "own", "fail", "others"]) await server.ended(id);
    await runtime.stop(); // all up to the last event
    const files = ["attempt_1/artifacts/deep/in.txt", "attempt_1/artifacts/out.txt", "attempt_1/result.json"];
    expect(runtime.tree("opal_artifacts", "paint")).toEqual(files);
    expect(runtime.tree("opal_artifacts", "fail")).toEqual(["attempt_1/artifacts/", "attempt_1/result.json"]);
    expect(runtime.text("opal_artifacts", "paint", "attempt_1", "artifacts", "out.txt")).toBe("hi\n");
    expect(runtime.text("opal_artifacts", "own", "attempt_1", "result.json")).toBe('{ "mine": 1 }');
    expect(runtime.json("opal_artifacts", "fail", "attempt_1", "result.json")).toMatchObject({ exit_code: 7 });
    // A change there does not affect the original: it is a copy.
    const [job] = (await server.store.find({ key: "opal:paint" })).jobs;
    const original = await server.blobs.get(job?.id as string, 1, "artifacts/out.txt");
    original?.destroy();
    expect(original).not.toBeNull();
    expect(runtime.tree("job_leases")).toEqual([]);
  });

  it("checks the newest attempt of a job with many, and not all of them at each change", async () => {
    const server = await start();
    let checks = 0;
    const runtime = await follow(server, {
      wrap: (files) => ({
        ...through(files),
        modifiedAt(path) {
          checks += 1;
          return files.modifiedAt(path);
        },
      }),
    });
    const body = { prompt: "x", job_id: "job_1", retry: { max_retries: 100, backoff: [0] } };
    expect((await server.call("POST", "/api/jobs", { body })).status).toBe(201);
    const attempt = async (n: number) => {
      const lose = await server.claim(`w${n}`);
      await lose();
      const file = join(runtime.path, "opal_artifacts", "job_1", `attempt_${n}`, "result.json");
      await expect.poll(() => existsSync(file) && readFileSync(file, "utf8")).toContain('"failed"');
    };
    for (let n = 1; n <= 20; n++) await attempt(n);
    checks = 0;
    await attempt(21);
    expect(checks).toBeLessThan(20);
    await runtime.stop();
    rmSync(join(runtime.path, "opal_artifacts", "job_1", "attempt_3"), { recursive: true });
    const again = await follow(server, { path: runtime.path });
    await expect.poll(() => again.tree("opal_artifacts")).toHaveLength(42); // a start checks all
  });

  it("has jobs of OPAL's in namespace default, and no id leads out of it", async () => {
    const server = await start();
    const policy = resolvePolicy(opalPolicy(opalSettings({})));
    const job = { kind: "exec", payload: "null", policy } as const;
    await server.engine.submit([
      { ...job, key: "opal:../../escaped", tags: ["opal"] },
      { ...job, key: "opal:..", tags: ["opal"] },
      { ...job, key: "mine", tags: ["opal"] },
      { ...job, key: "opal:untagged", tags: [] },
      { ...job, key: "opal:other", tags: ["opal"], namespace: "other" },
    ]);
    await server.submit("job_1");
    const runtime = await follow(server);
    await server.submit("job_2");
    await runtime.stop();
    expect(runtime.tree().filter((name) => !name.startsWith("."))).toEqual([
      ...["job_attempts/job_1.json", "job_attempts/job_2.json", "job_leases/", "logs/worker_pool/", "opal_artifacts/"],
    ]);
    expect(existsSync(join(runtime.path, "../escaped.json"))).toBe(false);
  });

  it("loses the files of jobs that are pruned, and keeps those of others", async () => {
    const server = await start({ retention: { succeeded: 1, failed: null, cancelled: null } });
    const runtime = await follow(server, { sweepEveryMs: 3_600_000 });
    for (const id of ["old", "failed"]) await server.submit(id, id === "old" ? "paint" : "fail");
    await server.work();
    for (const id of ["old", "failed"]) await server.ended(id);
    await expect.poll(() => runtime.tree("opal_artifacts").length).toBe(5);
    await expect.poll(() => server.engine.prune("ada")).toBe(1); // it must have ended some time ago
    await expect.poll(() => runtime.tree("job_attempts")).toEqual(["failed.json"]);
    await expect.poll(() => readdirSync(join(runtime.path, "opal_artifacts"))).toEqual(["failed"]);
  });
});

describe("a runtime folder that was deleted", () => {
  const NAMES = ["job_attempts", "job_leases", "opal_artifacts", "logs"];
  const treeOf = (runtime: Runtime) => NAMES.flatMap((name) => runtime.tree(name).map((file) => `${name}/${file}`));

  it("is rebuilt: while the server runs, and by the next start", async () => {
    const server = await start();
    const first = await follow(server);
    await server.submit("job_1");
    const lose = await server.claim("w");
    await server.submit("job_2", "fail");
    await expect.poll(() => treeOf(first).length).toBe(6);
    await expect.poll(() => first.log().length).toBe(1);
    const [tree, log] = [treeOf(first), first.log()];
    rmSync(first.path, { recursive: true });
    await expect.poll(() => existsSync(first.path) && treeOf(first)).toEqual(tree);
    await expect.poll(() => first.log()).toEqual(log);
    await first.stop();

    rmSync(first.path, { recursive: true });
    await lose(); // no server watches
    const second = await follow(server, { path: first.path });
    await expect.poll(() => second.log().length).toBe(2);
    await expect.poll(() => second.tree("job_leases")).toEqual([]);
    expect(second.json("job_attempts", "job_1.json")).toMatchObject({ attempts: 1, backoff_secs_applied: 8 });
    await second.stop();

    // A start with existing files: no line is written twice, and stale files are removed.
    const written: string[] = [];
    const third = await follow(server, {
      path: first.path,
      wrap: (files) => ({
        ...through(files),
        write(path, ...rest) {
          written.push(path.join("/"));
          return files.write(path, ...rest);
        },
      }),
    });
    await server.submit("job_3");
    await expect.poll(() => third.tree("job_attempts").length).toBe(3);
    await third.stop();
    expect(written).toContain("job_attempts/job_3.json");
    expect(written.filter((path) => path.startsWith("opal_artifacts"))).toEqual([]); // nothing is copied twice
    expect(third.log()).toEqual(second.log());
    expect(third.log()).toHaveLength(2);
  });
});

describe("a runtime folder that is deleted while outputs are copied", () => {
  it("has all of them in the end, those copied before too", async () => {
    const server = await start();
    let goOn = () => {};
    const isFree = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    let copies = 0;
    const runtime = await follow(server, {
      wrap: (files) => ({
        ...through(files),
        async write(path, content, file) {
          if (typeof content !== "string" && ++copies === 2) await isFree;
          await files.write(path, content, file);
        },
      }),
    });
    await server.submit("job_1");
    await server.work();
    await server.ended("job_1");
    await expect.poll(() => copies).toBe(2);
    rmSync(runtime.path, { recursive: true });
    await expect.poll(() => existsSync(join(runtime.path, ".mark"))).toBe(true);
    goOn();
    await expect.poll(() => runtime.tree("job_attempts")).toEqual(["job_1.json"]);
    await expect.poll(() => runtime.tree("opal_artifacts").filter((name) => !name.endsWith("/")).length).toBe(3);
  });
});

describe("a runtime folder with many old jobs", () => {
  it("reads and writes at a start only those of which files are missing", async () => {
    const server = await start();
    const { store } = server.engine;
    const first = await follow(server);
    await server.submit("kept", "own");
    await server.submit("damaged");
    await server.work();
    for (const id of ["kept", "damaged"]) await server.ended(id);
    await first.stop();
    rmSync(join(first.path, "opal_artifacts", "damaged", "attempt_1"), { recursive: true });
    const policy = resolvePolicy(opalPolicy(opalSettings({})));
    for (let i = 0; i < 10; i++) {
      // As many as the log keeps: all of these are written.
      const items = Array.from({ length: 100 }, (_, k) => ({ key: `opal:j${i}-${k}`, tags: ["opal"], queue: "idle" }));
      await server.engine.submit(items.map((item) => ({ kind: "exec", payload: "null", policy, ...item })));
    }
    const [read, history] = [new Set<string>(), store.history.bind(store)];
    store.history = (id, ...rest) => {
      read.add(id);
      return history(id, ...rest);
    };
    const second = await follow(server, { path: first.path });
    await expect
      .poll(() => existsSync(join(second.path, "opal_artifacts/damaged/attempt_1/artifacts/out.txt")))
      .toBe(true);
    await expect.poll(() => second.tree("job_attempts").length).toBe(1_002);
    await second.stop();
    const idOf = async (id: string) => (await store.find({ key: `opal:${id}` })).jobs[0]?.id;
    expect([read.has((await idOf("damaged")) as string), read.has((await idOf("kept")) as string)]).toEqual([
      true,
      false,
    ]);
  });
});

describe("a runtime folder in trouble", () => {
  it("logs it once, catches up when the disk works, and loses nothing; the server continues", async () => {
    const server = await start();
    let isFull: boolean | "for copies" = true;
    const sources: Readable[] = [];
    let failures = 0;
    const fail = () => {
      failures += 1;
      return Promise.reject(Object.assign(new Error("ENOSPC: no space left on device"), { code: "ENOSPC" }));
    };
    const wrap = (files: RuntimeFiles): RuntimeFiles => ({
      ...through(files),
      write(path, content, file) {
        if (typeof content !== "string") sources.push(content as Readable);
        return isFull === true || (isFull && typeof content !== "string") ? fail() : files.write(path, content, file);
      },
      append: (...args) => (isFull === true ? fail() : files.append(...args)),
      makeFolder: (...args) => (isFull === true ? fail() : files.makeFolder(...args)),
    });
    const runtime = await follow(server, { wrap });
    for (const id of ["job_1", "job_2"]) await server.submit(id);
    await server.work();
    for (const id of ["job_1", "job_2"]) await server.ended(id);
    await expect.poll(() => failures).toBeGreaterThan(6);
    expect(runtime.logged).toMatchObject([{ message: "opal.runtime", fields: { kind: "ENOSPC" } }]);
    expect(runtime.tree("job_attempts")).toEqual([]);
    isFull = "for copies";
    await expect.poll(() => sources.length).toBeGreaterThan(1);
    isFull = false;
    await expect.poll(() => runtime.tree("opal_artifacts").length).toBe(6);
    await expect.poll(() => sources.every(({ destroyed }) => destroyed)).toBe(true); // no file is left open
    await runtime.stop();
    expect(runtime.tree("job_attempts")).toEqual(["job_1.json", "job_2.json"]);
    expect(
      runtime
        .log()
        .map(({ event }) => event.replace(/^\[Worker\] /, ""))
        .sort(),
    ).toEqual([
      ...["Finished job job_1 (Attempt 1/2) -> SUCCEEDED", "Finished job job_2 (Attempt 1/2) -> SUCCEEDED"],
      ...["Running job job_1 (Attempt 1/2)", "Running job job_2 (Attempt 1/2)"],
    ]);
  });

  it("by a disk that is nearly full has all but the copies, however many are skipped; they come when there is room", async () => {
    const server = await start();
    const policy = resolvePolicy(opalPolicy(opalSettings({})));
    let isNearlyFull = true;
    const refused = new Set<string>();
    const low = (path: readonly string[]) => {
      refused.add(path[1] as string);
      return Promise.reject(Object.assign(new Error("no room for a copy"), { code: "low_space" }));
    };
    const runtime = await follow(server, {
      wrap: (files) => ({
        ...through(files),
        write: (path, ...rest) =>
          isNearlyFull && path[0] === "opal_artifacts" ? low(path) : files.write(path, ...rest),
      }),
    });
    const session = await server.engine.openSession({ ...SESSION, name: "w", slots: 1_100 });
    for (let i = 0; i < 11; i++) {
      const items = Array.from({ length: 100 }, (_, k) => ({ key: `opal:j${i}-${k}`, tags: ["opal"] }));
      await server.engine.submit(items.map((item) => ({ kind: "exec", payload: "null", policy, ...item })));
      await server.engine.claim(session, { limit: 100, waitMs: 0, claimId: null });
    }
    await expect.poll(() => refused.size).toBe(1_100);
    await server.submit("after");
    await expect.poll(() => runtime.tree("job_attempts")).toContain("after.json");
    await expect.poll(() => runtime.tree("job_leases").length).toBe(1_100);
    isNearlyFull = false;
    await expect.poll(() => readdirSync(join(runtime.path, "opal_artifacts")).length).toBe(1_100);
    await expect.poll(() => runtime.logged.length).toBe(2);
    expect(runtime.logged).toMatchObject([
      { message: "opal.runtime", fields: { kind: "low_space", cause: "no room for a copy" } },
      { message: "opal.runtime_over", fields: { kind: "low_space", skipped: 1_100 } },
    ]);
  });

  it("by a copy that takes long holds up nothing else", async () => {
    const server = await start();
    let goOn = () => {};
    const isFree = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    let copies = 0;
    const runtime = await follow(server, {
      wrap: (files) => ({
        ...through(files),
        async write(path, content, file) {
          if (typeof content !== "string" && copies++ === 0) await isFree;
          await files.write(path, content, file);
        },
      }),
    });
    await server.submit("large");
    await server.work();
    await server.ended("large");
    await expect.poll(() => copies).toBe(1);
    await server.submit("small");
    await server.ended("small");
    await expect
      .poll(() => runtime.log().map(({ event }) => event))
      .toContainEqual(expect.stringContaining("Finished job small"));
    expect(copies).toBe(1); // one at a time
    goOn();
    await expect.poll(() => runtime.tree("opal_artifacts").filter((name) => !name.endsWith("/")).length).toBe(6);
  });

  it("by a directory in place of an attempt document has no lease of a job that has ended", async () => {
    const server = await start();
    const runtime = await follow(server);
    await server.submit("job_1");
    const lose = await server.claim("w");
    await expect.poll(() => runtime.tree("job_leases")).toEqual(["job_1.json"]);
    rmSync(join(runtime.path, "job_attempts", "job_1.json"));
    mkdirSync(join(runtime.path, "job_attempts", "job_1.json"));
    await lose();
    await expect.poll(() => runtime.tree("job_leases")).toEqual([]);
    rmSync(join(runtime.path, "job_attempts", "job_1.json"), { recursive: true });
    await expect.poll(() => runtime.tree("job_attempts")).toEqual(["job_1.json"]);
  });

  it.each(["job_leases", "logs"])(
    "by a link in place of %s leaves the other folders as they should be",
    async (name) => {
      const server = await start();
      const runtime = await follow(server);
      const outside = realpathSync(mkdtempSync(join(tmpdir(), "perdure-outside-")));
      onTestFinished(() => rmSync(outside, { recursive: true, force: true }));
      await expect.poll(() => existsSync(join(runtime.path, name))).toBe(true);
      rmSync(join(runtime.path, name), { recursive: true });
      symlinkSync(outside, join(runtime.path, name));
      await server.submit("job_1");
      await server.work();
      await server.ended("job_1");
      await expect.poll(() => runtime.tree("job_attempts")).toEqual(["job_1.json"]);
      await expect.poll(() => runtime.tree("opal_artifacts").length).toBe(3);
      await expect.poll(() => runtime.logged.length).toBe(1);
      expect(runtime.logged[0]).toMatchObject({ fields: { kind: "refused", cause: expect.stringContaining(name) } });
      expect(readdirSync(outside)).toEqual([]);
      unlinkSync(join(runtime.path, name));
      await expect.poll(() => existsSync(join(runtime.path, "logs/worker_pool")) && runtime.log().length).toBe(2);
    },
  );

  it("by a link in place of a job's folder leaves that job behind, and no other; nothing is written there", async () => {
    const server = await start();
    const runtime = await follow(server);
    const outside = realpathSync(mkdtempSync(join(tmpdir(), "perdure-outside-")));
    onTestFinished(() => rmSync(outside, { recursive: true, force: true }));
    await expect.poll(() => existsSync(join(runtime.path, "opal_artifacts"))).toBe(true);
    symlinkSync(outside, join(runtime.path, "opal_artifacts", "bad"));
    for (const id of ["bad", "good"]) await server.submit(id);
    await server.work();
    for (const id of ["bad", "good"]) await server.ended(id);
    await expect
      .poll(() => readdirSync(join(runtime.path, "opal_artifacts", "good", "attempt_1", "artifacts")))
      .toContain("out.txt");
    await expect.poll(() => runtime.logged.length).toBe(1);
    expect(runtime.logged[0]).toMatchObject({
      ...{
        message: "opal.runtime",
        fields: { kind: "refused", cause: expect.stringMatching(/bad is a symbolic link.*remove it/) },
      },
    });
    expect(readdirSync(outside)).toEqual([]);
    unlinkSync(join(runtime.path, "opal_artifacts", "bad"));
    await expect.poll(() => runtime.tree("opal_artifacts").filter((name) => name.startsWith("bad/")).length).toBe(3);
  });

  it("keeps a bounded number of jobs waiting, and has all of them in the end", async () => {
    const server = await start();
    const { store } = server.engine;
    const policy = resolvePolicy(opalPolicy(opalSettings({})));
    let isFull = false;
    const wrap = (files: RuntimeFiles): RuntimeFiles => ({
      ...through(files),
      write: (...args) => (isFull ? Promise.reject(new Error("full")) : files.write(...args)),
    });
    const [asked, known] = [new Set<string>(), store.facts.bind(store)];
    let reads = 0;
    store.facts = (ids) => {
      for (const id of ids) asked.add(id);
      reads += ids.length;
      return known(ids);
    };
    const runtime = await follow(server, { wrap });
    await server.submit("first");
    await expect.poll(() => runtime.tree("job_attempts")).toEqual(["first.json"]);
    isFull = true;
    asked.clear();
    for (let i = 0; i < 15; i++) {
      const items = Array.from({ length: 100 }, (_, k) => ({ key: `opal:j${i}-${k}`, tags: ["opal"] }));
      await server.engine.submit(items.map((item) => ({ kind: "exec", payload: "null", policy, ...item })));
    }
    await expect.poll(() => reads).toBeGreaterThan(3_500); // it has retried all of them
    expect(asked.size).toBeLessThanOrEqual(1_100); // a thousand that wait, and those being written
    isFull = false;
    await expect.poll(() => runtime.tree("job_attempts").length).toBe(1_501);
  });
});
