/** Whole lives at random: jobs of all sorts, workers that come, go, hang and are cut off, people who cancel, redrive and
 *  pause, on a virtual clock and a real store. After every few steps the invariants hold; when the faults stop, all
 *  jobs end. A failure names its seed: PERDURE_SEED=… runs that one alone, PERDURE_SOAK=1 runs many. */
import { describe, expect, it } from "vitest";
import { decideCommand } from "../src/core/command.ts";
import type { JobEvent } from "../src/core/event.ts";
import { NonRetryableError, RetryAfterError } from "../src/core/failure.ts";
import { evolve, foldEvents } from "../src/core/fold.ts";
import { isTerminal, JOB_STATES, type JobProgressFields } from "../src/core/job.ts";
import type { PolicyInput } from "../src/core/policy.ts";
import { resolvePolicy } from "../src/core/resolve-policy.ts";
import { task } from "../src/core/task.ts";
import { localLink } from "../src/embedded/local-link.ts";
import type { JobRow } from "../src/store/store.ts";
import type { EngineLink } from "../src/worker/engine-link.ts";
import { Worker } from "../src/worker/worker.ts";
import { aborted, type Bench, openBench } from "./kit.ts";

const LIVES = process.env.PERDURE_SOAK === "1" ? 400 : 8;
const SEEDS = process.env.PERDURE_SEED
  ? [Number(process.env.PERDURE_SEED)]
  : Array.from({ length: LIVES }, (_, i) => i + 1);
const STEPS = 120;
const LEASE_MS = 6_000;

const POLICIES: PolicyInput[] = [
  1,
  { maxAttempts: 3, backoff: { type: "none" } },
  { maxAttempts: 4, backoff: { type: "exponential", initial: "1s", factor: 2, max: "10s", jitter: 0 } },
  { maxAttempts: 2, backoff: { type: "fixed", delay: "3s" }, workerLost: { charge: "shared" } },
  { maxAttempts: 5, maxElapsed: "30s", workerLost: { maxRetries: 2, poison: false } },
  { atMostOnce: true },
];

class Dice {
  #state: number;
  constructor(seed: number) {
    this.#state = Math.imul(seed, 0x9e3779b9);
  }
  /** mulberry32 */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }
  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }
  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }
}

class Life {
  readonly bench: Bench;
  readonly dice: Dice;
  readonly ids = new Set<string>();
  readonly workers: { worker: Worker; cut: { renew: boolean; report: boolean; claim: boolean } }[] = [];
  readonly started = new Set<string>();
  readonly faults: string[] = [];
  healthy = false;

  constructor(bench: Bench, dice: Dice) {
    this.bench = bench;
    this.dice = dice;
  }

  /** A handler that does any of the things handlers do. */
  task() {
    const { bench, dice } = this;
    return task("k", async (_: unknown, ctx) => {
      const pair = `${ctx.jobId}.${ctx.attempt}`;
      if (this.started.has(pair)) this.faults.push(`${pair} was started twice`);
      this.started.add(pair);
      const done = { attempt: ctx.attempt };
      if (this.healthy) return done;
      if (dice.next() < 0.3) ctx.usage({ tokensIn: dice.below(10) });
      if (dice.next() < 0.3) ctx.progress(dice.below(100));
      if (dice.next() < 0.3) ctx.log("a line");
      const wait = new Promise<void>((resolve) => bench.clock.after(dice.below(9_000), resolve));
      switch (dice.below(9)) {
        case 0:
        case 1:
          return done;
        case 2:
          throw new Error("down");
        case 3:
          throw dice.next() < 0.5 ? new NonRetryableError("no") : new RetryAfterError("later", "4s");
        case 4:
          await wait;
          return done;
        case 5:
          await Promise.race([wait, aborted(ctx.signal)]);
          throw new Error("slowly down");
        case 6:
          throw await aborted(ctx.signal);
        case 7:
          await aborted(ctx.signal);
          return done; // done all the same
        default:
          return new Promise<never>(() => {}); // deaf
      }
    });
  }

  async startWorker(): Promise<void> {
    const cut = { renew: false, report: false, claim: false };
    const real = localLink(this.bench.engine);
    const refuse = () => Promise.reject(new Error("cut off"));
    const link: EngineLink = {
      ...real,
      renew: (...args) => (cut.renew ? refuse() : real.renew(...args)),
      claim: (...args) => (cut.claim ? refuse() : real.claim(...args)),
      report: (...args) => (cut.report ? refuse() : real.report(...args)),
    };
    const log = (level: string, message: string) => {
      if (level === "error") this.faults.push(message); // as when the store refuses a report
    };
    const worker = new Worker({
      ...{ link, clock: this.bench.clock, tasks: [this.task()], stopGraceMs: 2_000, log },
      request: {
        ...{ namespace: "default", name: "w", host: "h", pid: 1, kinds: ["k"], queues: null, labels: {} },
        slots: 1 + this.dice.below(4),
      },
    });
    await worker.start();
    this.workers.push({ worker, cut });
  }

  async step(): Promise<void> {
    const { bench, dice } = this;
    const id = dice.pick([...this.ids]);
    const dieRoll = dice.below(100);
    if (dieRoll < 25 || id === undefined) await this.submit();
    else if (dieRoll < 40) await this.command(id);
    else if (dieRoll < 46) {
      if (this.workers.length < 4) await this.startWorker();
    } else if (dieRoll < 50) {
      const [gone] = this.workers.splice(dice.below(Math.max(1, this.workers.length)), 1);
      void gone?.worker.stop(dice.below(5_000)).catch(() => {});
    } else if (dieRoll < 60) {
      const hit = dice.pick(this.workers);
      if (hit) Object.assign(hit.cut, { [dice.pick(["renew", "report", "claim"])]: dice.next() < 0.6 });
    } else if (dieRoll < 64) {
      await bench.engine.setPaused("default", dice.pick(["default", "q"]), dice.next() < 0.5);
    } else if (dieRoll < 66) {
      const session = dice.pick(this.workers)?.worker.session;
      if (session) await bench.engine.closeSession(session);
    } else await bench.advance(dice.below(dieRoll < 95 ? 2_500 : 20_000));
    await bench.settled();
  }

  async submit(): Promise<void> {
    const { bench, dice } = this;
    const maybe = (chance: number, value: number) => (dice.next() < chance ? value : null);
    const deadline = maybe(0.15, 10_000 + dice.below(60_000));
    const id = await bench
      .submit("k", {
        policy: resolvePolicy(dice.pick(POLICIES)),
        queue: dice.pick(["default", "default", "q"]),
        priority: dice.below(10),
        delayMs: dice.next() < 0.3 ? dice.below(10_000) : 0,
        timeoutMs: maybe(0.4, 1 + dice.below(5_000)),
        expireInMs: maybe(0.2, dice.below(15_000)),
        deadlineAt: deadline === null ? null : bench.clock.now() + deadline,
        key: dice.next() < 0.2 ? `key-${dice.below(5)}` : null,
      })
      .catch((error: { code: string }) => {
        if (error.code !== "key_conflict") throw error; // the same key in the other queue
        return null;
      });
    if (id !== null) this.ids.add(id);
  }

  async command(id: string): Promise<void> {
    const kind = this.dice.pick(["cancel", "retry", "redrive", "discard", "reschedule"] as const);
    const runAt = this.bench.clock.now() + this.dice.below(8_000);
    const command = kind === "reschedule" ? ({ kind, runAt } as const) : ({ kind } as const);
    await this.bench.engine.command(id, command).catch((error: { code: string }) => {
      if (error.code !== "wrong_state") throw error;
    });
  }

  async check(): Promise<void> {
    expect([...this.faults, ...this.bench.logged.filter((line) => line.startsWith("error"))]).toEqual([]);
    const counts = new Map(JOB_STATES.map((state) => [state, 0]));
    for (const id of this.ids) {
      const job = await this.bench.job(id);
      counts.set(job.state, (counts.get(job.state) ?? 0) + 1);
      await checkJob(this.bench, job);
    }
    const told = await this.bench.store.counts("default", this.bench.clock.now());
    for (const state of JOB_STATES) {
      expect(told.reduce((sum, queue) => sum + queue.counts[state], 0)).toBe(counts.get(state));
    }
  }

  /** No more faults: every job ends within lease, sweep and backoff. */
  async recover(): Promise<void> {
    this.healthy = true;
    for (const { cut, worker } of this.workers) {
      Object.assign(cut, { renew: false, report: false, claim: false });
      void worker.stop(0).catch(() => {}); // a handler without a timeout may hang for ever, and has a right to
    }
    for (const queue of ["default", "q"]) await this.bench.engine.setPaused("default", queue, false);
    await this.startWorker();
    for (let round = 0; round < 60; round++) {
      const jobs = await Promise.all([...this.ids].map((id) => this.bench.job(id)));
      if (jobs.every((job) => isTerminal(job.state))) return;
      await this.bench.advance(5_000);
    }
    const stuck = (await Promise.all([...this.ids].map((id) => this.bench.job(id)))).find(
      (job) => !isTerminal(job.state),
    );
    expect((await this.bench.engine.explain(stuck?.id as string)).text).toBe("ended");
  }
}

async function checkJob(bench: Bench, job: JobRow): Promise<void> {
  const events = (await bench.store.events({ after: 0, limit: -1, jobId: job.id })) as JobEvent[];
  const { payload: _p, result, progress: _g, ...row } = job;
  expect(row).toMatchObject(foldEvents(events));
  const { maxAttempts, workerLost } = job.policy;
  const shared = workerLost.charge === "shared";
  expect(shared ? job.failures + job.losses : job.failures).toBeLessThanOrEqual(maxAttempts);
  if (!shared) expect(job.losses).toBeLessThanOrEqual(workerLost.maxRetries + 1);

  let before: JobProgressFields | null = null;
  for (const event of events) {
    if (event.name === "attempt.started" && before !== null) {
      expect(before.state, "only a waiting job starts").toBe("queued");
      expect(before.cancelRequestedAt, "nothing starts after a cancel").toBeNull();
      expect(event.at, "never early").toBeGreaterThanOrEqual(before.runAt);
      expect(event.data.attempt).toBe(before.attempt + 1);
      if (job.deadlineAt !== null) expect(event.at, "not after its deadline").toBeLessThan(job.deadlineAt);
    }
    if (before !== null && isTerminal(before.state)) {
      expect(["job.redriven", "job.discarded"], "terminal is final").toContain(event.name);
    }
    before = before === null ? foldEvents([event]) : evolve(before, event);
  }

  const chapter = events.slice(events.findLastIndex(({ name }) => name === "job.redriven") + 1);
  const decided = chapter.flatMap((event) =>
    "decision" in event.data ? [{ ...event.data.decision, name: event.name }] : [],
  );
  const paid = decided.filter(({ kind, class: of }) => kind !== "cancel" && kind !== "succeed" && of !== "handback");
  expect(paid.filter((each) => each.class === "lost").length, "each loss is counted").toBe(job.losses);
  const failed = paid.filter((each) => each.class !== "lost" && each.step !== 3 && each.matched !== "deadline");
  expect(failed.length, "and each failure").toBe(job.failures);

  const attempts = await bench.attempts(job.id);
  const open = job.state === "running" ? 1 : 0;
  expect(attempts.map(({ attempt }) => attempt)).toEqual(Array.from({ length: job.attempt - open }, (_, i) => i + 1));
  if (job.state === "succeeded") expect(JSON.parse(result as string)).toEqual({ attempt: job.attempt });
  expect(decideCommand(job, { kind: "cancel" }, 0).kind).toBe(
    isTerminal(job.state) || job.cancelRequestedAt ? "noop" : "apply",
  );
  const told = await bench.engine.explain(job.id);
  expect(told).toMatchObject({ state: job.state, reason: job.reason, chapter: job.chapter });
}

describe("lives at random", () => {
  it.each(SEEDS)("keep every invariant, and all jobs end: seed %i", async (seed) => {
    const bench = await openBench({ leaseMs: LEASE_MS });
    const life = new Life(bench, new Dice(seed));
    await life.startWorker();
    for (let step = 0; step < STEPS; step++) {
      await life.step();
      if (step % 10 === 0) await life.check();
    }
    await life.recover();
    await life.check();
  });
});
