/** Shared by tests of several folders: gates to wait on, temporary files, and an engine on a virtual clock with access
 *  to its parts, for faults that users of the library cannot cause. */

import { execFileSync, spawn } from "node:child_process";
import { randomFillSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { resolvePolicy } from "../src/core/policy/resolve-policy.ts";
import type { AnyTask } from "../src/core/task/task.ts";
import type { ClaimedJob, Report } from "../src/core/worker-protocol.ts";
import { localLink } from "../src/embedded/local-worker.ts";
import { Engine } from "../src/engine/engine.ts";
import type { EngineObserver } from "../src/engine/observer.ts";
import type { EngineOptions, Log } from "../src/engine/parts.ts";
import type { SubmitItem } from "../src/engine/submit-item.ts";
import type { Clock } from "../src/lib/clock.ts";
import { idMaker } from "../src/lib/id.ts";
import { withFields } from "../src/lib/log.ts";
import { systemLoop } from "../src/lib/system-clock.ts";
import { openStore } from "../src/store/open.ts";
import { openDatabase } from "../src/store/sqlite/driver.ts";
import type { AttemptRow, JobRow, Store } from "../src/store/store.ts";
import { counted } from "../src/testing/real-work.ts";
import { VirtualClock } from "../src/testing/virtual-clock.ts";
import type { EngineLink } from "../src/worker/engine-link.ts";
import type { Executor } from "../src/worker/executor.ts";
import { Worker } from "../src/worker/worker.ts";

export interface Gate<T> {
  readonly passed: Promise<T>;
  readonly isOpen: boolean;
  open(value: T): void;
}

/** A promise that the test resolves. */
export function gate<T = void>(): Gate<T> {
  let resolve: (value: T) => void = () => {};
  let isOpen = false;
  const passed = new Promise<T>((done) => {
    resolve = done;
  });
  return {
    passed,
    get isOpen() {
      return isOpen;
    },
    open(value) {
      isOpen = true;
      resolve(value);
    },
  };
}

/** Resolves with the reason when the signal aborts. */
export function aborted(signal: AbortSignal): Promise<Error> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason as Error);
    else signal.addEventListener("abort", () => resolve(signal.reason as Error), { once: true });
  });
}

/** A file path in a temporary directory that is deleted after the test. */
export function tempFile(name = "jobs.db"): string {
  const directory = mkdtempSync(join(tmpdir(), "perdure-test-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return join(directory, name);
}

/** The number of policies in a SQLite file, read directly. */
export async function policiesIn(path: string): Promise<number> {
  const db = await openDatabase(path);
  const { count } = db.prepare("select count(*) as count from policy").get() as { count: number };
  db.close();
  return count;
}

/** A named pipe without a writer. A blocked reader is released after some seconds, so that its test fails instead of
 *  hanging. */
export function namedPipe(path = tempFile("pipe")): string {
  execFileSync("mkfifo", ["-m", "600", path]);
  const release = spawn("/bin/sh", ["-c", 'for _ in 1 2 3 4 5 6; do sleep 5; : <> "$0"; done', path], {
    stdio: "ignore",
  });
  onTestFinished(() => void release.kill());
  return path;
}

/** Everything an async generator yields. */
export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

export interface BenchOptions {
  readonly leaseMs?: number;
  /** Offset of the wall clock; a test may change it to make the clock jump. */
  readonly skew?: { ms: number };
  readonly wrapLink?: (link: EngineLink) => EngineLink;
  readonly outputs?: EngineOptions["outputs"];
  readonly observer?: EngineObserver;
  /** False: the test reaps by hand. */
  readonly services?: boolean;
  /** Of the store; in memory by default. */
  readonly url?: string;
}

export interface Bench {
  readonly engine: Engine;
  readonly store: Store;
  readonly clock: VirtualClock;
  readonly link: EngineLink;
  /** The log of engine and workers, as `level: message`. */
  readonly logged: string[];
  work(
    tasks: readonly AnyTask[],
    options?: { slots?: number; stopGraceMs?: number; executors?: readonly Executor[] },
  ): Promise<Worker>;
  submit(kind: string, item?: Partial<SubmitItem>): Promise<string>;
  job(id: string): Promise<JobRow>;
  attempts(id: string): Promise<AttemptRow[]>;
  /** Lets work in progress finish without moving time. */
  settled(): Promise<void>;
  advance(ms: number): Promise<void>;
}

const DEFAULT_POLICY = resolvePolicy();

/** An engine and a virtual clock, closed after the test. */
export async function openBench(options: BenchOptions = {}): Promise<Bench> {
  const {
    leaseMs = 15_000,
    skew = { ms: 0 },
    wrapLink = (link) => link,
    services = true,
    outputs,
    observer,
    url = ":memory:",
  } = options;
  const clock = new VirtualClock();
  const seen: Clock = {
    ...systemLoop,
    now: () => clock.now() + skew.ms,
    monotonic: () => clock.now(),
    after: (ms, call) => clock.after(ms, call),
  };
  const random = () => 0.5;
  const calls = { underWay: 0 };
  const opened = await openStore({ url, clock: seen, random, newSecret: () => "x".repeat(32) });
  const store = counted(opened, calls);
  const newId = idMaker({ now: clock.now, randomBytes: (bytes) => randomFillSync(bytes) });
  const logged: string[] = [];
  const log: Log = (level, message, fields) => void logged.push(`${level}: ${withFields(message, fields)}`);
  const engine = new Engine({
    store,
    clock: seen,
    random,
    newId,
    log,
    name: "bench",
    leaseMs,
    ...(outputs ? { outputs } : {}),
    ...(observer ? { observer } : {}),
  });
  if (services) engine.start();
  const link = wrapLink(localLink(engine));
  const workers: Worker[] = [];

  /** Quiet: nothing in progress in the store for several turns of the event loop. */
  async function settled(): Promise<void> {
    for (let quiet = 0; quiet < 5; ) {
      await new Promise((resolve) => setImmediate(resolve));
      quiet = calls.underWay === 0 ? quiet + 1 : 0;
    }
  }

  async function advance(ms: number): Promise<void> {
    const target = clock.now() + ms;
    await settled();
    for (let next = clock.nextAt(); next !== null && next <= target; next = clock.nextAt()) {
      clock.moveTo(next);
      await settled();
    }
    clock.moveTo(target);
    await settled();
  }

  onTestFinished(async () => {
    await engine.stop();
    await store.close();
    // Calls that wait for the clock find the store closed and end.
    for (const worker of workers) void worker.stop(0).catch(() => {});
    for (let step = 0; step < 50 && clock.nextAt() !== null; step++) {
      clock.moveTo(clock.nextAt() as number);
      await new Promise((resolve) => setImmediate(resolve));
    }
  });

  return {
    ...{ engine, store, clock, link, logged, settled, advance },
    async work(tasks, { slots = 10, stopGraceMs = 5_000, executors = [] } = {}) {
      const request = {
        ...{ namespace: "default", name: "bench", host: "here", pid: 1, queues: null, labels: {}, slots },
        kinds: [...tasks, ...executors].map(({ kind }) => kind),
      };
      const worker = new Worker({ link, clock: seen, tasks, executors, request, stopGraceMs, log });
      workers.push(worker);
      await worker.start();
      return worker;
    },
    async submit(kind, item = {}) {
      const [answer] = await engine.submit([{ kind, payload: "null", policy: DEFAULT_POLICY, ...item }]);
      if (answer?.status !== "ok") throw (answer as { error: Error }).error;
      return answer.id;
    },
    async job(id) {
      const [job] = await store.jobs([id]);
      return job as JobRow;
    },
    attempts: (id) => store.attempts(id),
  };
}

/** A bench whose worker can be disconnected from its engine, call by call. */
export async function openCuttable(options: BenchOptions = {}) {
  const cut = { renew: false, report: false, claim: false };
  const reports: Report[] = [];
  const refuse = (what: string) => Promise.reject(new Error(`${what}: disconnected`));
  const wrapLink = (link: EngineLink): EngineLink => ({
    ...link,
    renew: (...args) => (cut.renew ? refuse("renew") : link.renew(...args)),
    claim: (...args) => (cut.claim ? refuse("claim") : link.claim(...args)),
    report: (report, session) => {
      reports.push(report);
      return cut.report ? refuse("report") : link.report(report, session);
    },
  });
  const bench: Bench = await openBench({ wrapLink, ...options });
  return Object.assign(bench, { cut, reports });
}

/** A worker session played by the test itself, for jobs of kind `k`. */
export function openSession(bench: Pick<Bench, "engine">, kinds: readonly string[] = ["k"]): Promise<string> {
  const request = { namespace: "default", name: "w", host: "elsewhere", pid: 1, queues: null, labels: {}, slots: 100 };
  return bench.engine.openSession({ ...request, kinds });
}

/** A worker that claims all jobs of kind `k` and never reports again. */
export async function vanish(bench: Bench): Promise<readonly ClaimedJob[]> {
  const session = await openSession(bench);
  return (await bench.engine.claim(session, { limit: 100 })).jobs;
}

/** Events that belong to no job. */
export async function engineEvents(bench: Bench): Promise<{ name: string; data: unknown }[]> {
  const events = (await bench.store.events.page({ after: 0, limit: 10_000 })).events;
  return events.filter((event) => event.jobId === null).map(({ name, data }) => ({ name, data }));
}
