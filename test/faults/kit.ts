/** Shared by the fault tests: an engine with a worker on a PostgreSQL server, a stream of submits that continues
 *  through the fault and records every answer, and the final check: everything acknowledged exists once and has ended
 *  once, and no worker counts as lost because the database was away. */

import { setTimeout as pass } from "node:timers/promises";
import { expect, onTestFinished } from "vitest";
import type { Duration } from "../../src/core/duration.ts";
import { type OpenOptions, Perdure, task, type WorkerHandle } from "../../src/index.ts";
import { systemClock } from "../../src/lib/system-clock.ts";
import { allJobs, audit } from "../../src/store/conformance/audit.ts";
import { openStore } from "../../src/store/open.ts";
import type { JobRow, Store } from "../../src/store/store.ts";
import { gate } from "../kit.ts";
import { until } from "../postgres/client.ts";

export { pass };

/** Timeout of a whole test: longer than the deadlines within it, so that those are reported first. */
export const TEST_MS = 90_000;

export type Work = "quick" | "slow" | "fail-first" | "hold";

/** The n-th submit of a stream. */
function workOf(n: number): Work {
  return n % 10 === 7 ? "fail-first" : n % 10 === 3 ? "slow" : "quick";
}

export interface Scene {
  readonly perdure: Perdure;
  readonly worker: WorkerHandle;
  /** Attempts that have started, as `job attempt`. */
  readonly starts: string[];
  /** Attempts that were aborted. */
  readonly aborts: string[];
  /** The log of engine and worker, as `level: message`. */
  readonly logged: string[];
  /** Lets handlers of `hold` end. */
  release(): void;
}

export interface SceneOptions extends OpenOptions {
  readonly url: string;
  readonly concurrency?: number;
  /** How long a handler may run after it was aborted; one that was aborted only for a lost connection may continue. */
  readonly stopGrace?: Duration;
}

const KEPT = { succeeded: false, failed: false, cancelled: false } as const;

/** Closed after the test; register what it depends on first. */
export async function openScene({ concurrency = 8, stopGrace = "300ms", ...options }: SceneOptions): Promise<Scene> {
  const [starts, aborts, logged]: string[][] = [[], [], []];
  const logger = (level: string, message: string) => void logged?.push(`${level}: ${message}`);
  const perdure = await Perdure.open({ lease: "15s", retention: KEPT, logger, ...options });
  onTestFinished(() => perdure.close({ grace: 0 }).catch(() => {})); // the server may not come back
  const released = gate();
  const job = task("job", async ({ work }: { n: number; work: Work }, ctx) => {
    starts?.push(`${ctx.jobId} ${ctx.attempt}`);
    ctx.signal.addEventListener("abort", () => aborts?.push(`${ctx.jobId} ${ctx.attempt}`));
    if (work === "slow") await pass(30);
    if (work === "hold") await released.passed;
    if (work === "fail-first" && ctx.attempt === 1) throw new Error("not yet");
    return { attempt: ctx.attempt };
  });
  const worker = await perdure.work([job], { concurrency, stopGrace });
  onTestFinished(() => released.open());
  return { perdure, worker, starts, aborts, logged, release: () => released.open() } as Scene;
}

export const RETRY = { maxAttempts: 3, backoff: { type: "fixed", delay: "20ms" } } as const;

export interface Answers {
  /** The id for the n of each acknowledged submit. */
  readonly acknowledged: Map<number, string>;
  readonly refused: { readonly n: number; readonly code: string; readonly message: string }[];
}

export interface Stream extends Answers {
  /** Resolves when this many more submits have been acknowledged. */
  more(count: number): Promise<void>;
  /** Resolves when every submit in progress has its answer. */
  stop(): Promise<void>;
}

export interface StreamOptions {
  readonly writers?: number;
  readonly everyMs?: number;
  /** Which submits have a key; `n-<n>`. */
  readonly keyed?: (n: number) => boolean;
  /** Where it starts to count. */
  readonly from?: number;
}

export function stream(perdure: Perdure, options: StreamOptions = {}): Stream {
  const { writers = 4, everyMs = 12, keyed = (n) => n % 2 === 0, from = 0 } = options;
  const answers: Answers = { acknowledged: new Map(), refused: [] };
  let next = from;
  let going = true;
  const write = async () => {
    while (going) {
      const n = next++;
      await submitOne(perdure, n, keyed(n), answers);
      await pass(everyMs);
    }
  };
  const all = Promise.all(Array.from({ length: writers }, write));
  onTestFinished(() => {
    going = false;
  });
  return {
    ...answers,
    async more(count) {
      const goal = answers.acknowledged.size + count;
      await until(`${count} more submits are acknowledged`, async () => answers.acknowledged.size >= goal);
    },
    async stop() {
      going = false;
      await all;
    },
  };
}

/** One submit, with its answer recorded. */
export async function submitOne(perdure: Perdure, n: number, keyed: boolean, answers: Answers): Promise<void> {
  try {
    const input = { n, work: workOf(n) };
    const job = await perdure.submit("job", input, { retry: RETRY, ...(keyed ? { key: `n-${n}` } : {}) });
    answers.acknowledged.set(n, job.id);
  } catch (error) {
    const { code = "none", message } = error as Error & { code?: string };
    answers.refused.push({ n, code, message });
  }
}

/** Direct access to the store. */
export async function look<T>(url: string, use: (store: Store) => Promise<T>): Promise<T> {
  const random = Math.random;
  const store = await openStore({ url, clock: systemClock, random, newSecret: () => "x".repeat(32), connections: 2 });
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

/** Nothing is queued or running. */
export async function drained(perdure: Perdure): Promise<void> {
  await until("nothing is queued or running", async () => {
    const queues = await perdure.queues();
    return queues.every(({ counts }) => counts.queued + counts.running === 0);
  });
}

/** The final check: all workers of the scene have survived. Returns the rows by the n of their submit. */
export async function expectSound(url: string, scene: Scene, answers: Answers): Promise<Map<number, JobRow>> {
  await drained(scene.perdure);
  return look(url, async (store) => {
    const rows = new Map<number, JobRow>();
    for (const row of await allJobs(store)) {
      const { n } = JSON.parse(row.payload) as { n: number };
      expect(rows.has(n), `submit ${n} is stored once`).toBe(false);
      rows.set(n, row);
    }
    for (const [n, id] of answers.acknowledged) expect([n, rows.get(n)?.id]).toEqual([n, id]);
    for (const { n, code } of answers.refused) {
      if (code === "store_unavailable") expect(rows.has(n), `submit ${n} was reported as not stored`).toBe(false);
    }
    for (const row of rows.values()) expect([row.id, row.state, row.losses]).toEqual([row.id, "succeeded", 0]);
    const lost = await eventsNamed(store, ["attempt.lost", "worker.lost"]);
    expect(lost, "no live worker was reported as lost").toEqual([]);
    expect(new Set(scene.starts).size, "an attempt runs once").toBe(scene.starts.length);
    await audit(store);
    return rows;
  });
}

async function eventsNamed(store: Store, names: readonly string[]): Promise<object[]> {
  const found: object[] = [];
  for (let after = 0; ; ) {
    const page = (await store.events.page({ after, limit: 500 })).events;
    for (const event of page) if (names.includes(event.name)) found.push(event);
    if (page.length < 500) return found;
    after = page.at(-1)?.seq as number;
  }
}
