/** Random histories: all sorts of jobs with children, workers that start, stop, hang and disconnect, people who cancel,
 *  redrive and pause, engines that exit between a commit and its consequences, on a virtual clock and a real store.
 *  Invariants are checked after every few steps; when the faults stop, all jobs end. A failure shows its seed:
 *  PERDURE_SEED=… runs only that one, PERDURE_SOAK=1 runs many. */
import { describe, expect, it } from "vitest";
import { NonRetryableError, RetryAfterError } from "../src/core/decision/failure.ts";
import { type Command, decideCommand } from "../src/core/job/command.ts";
import { isTerminal, JOB_STATES } from "../src/core/job/job.ts";
import type { PolicyInput } from "../src/core/policy/policy.ts";
import { resolvePolicy } from "../src/core/policy/resolve-policy.ts";
import { type Child, type TaskContext, task } from "../src/core/task/task.ts";
import { localLink } from "../src/embedded/local-worker.ts";
import type { JobRow } from "../src/store/store.ts";
import type { EngineLink } from "../src/worker/engine-link.ts";
import { Worker } from "../src/worker/worker.ts";
import { Dice } from "./dice.ts";
import { aborted, type Bench, openBench } from "./kit.ts";
import { checkFamilies, checkJob } from "./random-life/check.ts";
import { IS_FULL, seedsFor } from "./tier.ts";

const LIVES = process.env.PERDURE_SOAK === "1" ? 400 : IS_FULL ? 20 : 2;
const SEEDS = seedsFor("random lives", LIVES);
const STEPS = 120;
const LEASE_MS = 6_000;
/** Generations below a job, so that jobs that others wait for may wait for others themselves. */
const MAX_DEPTH = 2;

const POLICIES: readonly [PolicyInput, ...PolicyInput[]] = [
  1,
  { maxAttempts: 3, backoff: { type: "none" } },
  { maxAttempts: 4, backoff: { type: "exponential", initial: "1s", factor: 2, max: "10s", jitter: 0 } },
  { maxAttempts: 2, backoff: { type: "fixed", delay: "3s" }, workerLost: { charge: "shared" } },
  { maxAttempts: 5, maxElapsed: "30s", workerLost: { maxRetries: 2, poison: false } },
  { atMostOnce: true },
];

interface Cut {
  renew: boolean;
  report: boolean;
  claim: boolean;
  family: boolean;
}
const WHOLE: Cut = { renew: false, report: false, claim: false, family: false };

class Life {
  readonly bench: Bench;
  readonly dice: Dice;
  readonly ids = new Set<string>();
  readonly parents = new Set<string>();
  readonly workers: { worker: Worker; cut: Cut }[] = [];
  /** The child that was returned for a parent and a key. */
  readonly children = new Map<string, string>();
  readonly started = new Set<string>();
  readonly faults: string[] = [];
  healthy = false;

  constructor(bench: Bench, dice: Dice) {
    this.bench = bench;
    this.dice = dice;
  }

  /** A handler that randomly does anything that handlers do. */
  task() {
    const { bench, dice } = this;
    return task("k", async ({ depth }: { depth: number }, ctx) => {
      const pair = `${ctx.jobId}.${ctx.attempt}`;
      if (this.started.has(pair)) this.faults.push(`${pair} was started twice`);
      this.started.add(pair);
      const done = { attempt: ctx.attempt };
      if (this.healthy) return done;
      if (dice.chance(0.3)) ctx.usage({ tokensIn: dice.below(10) });
      if (dice.chance(0.3)) ctx.progress(dice.below(100));
      if (dice.chance(0.3)) ctx.log("a line");
      if (depth < MAX_DEPTH && dice.chance(depth === 0 ? 0.3 : 0.15)) await this.raise(depth, ctx);
      const wait = new Promise<void>((resolve) => bench.clock.after(dice.below(9_000), resolve));
      switch (dice.below(9)) {
        case 0:
        case 1:
          return done;
        case 2:
          throw new Error("down");
        case 3:
          throw dice.chance(0.5) ? new NonRetryableError("no") : new RetryAfterError("later", "4s");
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
          return done; // completes anyway
        default:
          return new Promise<never>(() => {}); // ignores the signal
      }
    });
  }

  /** Submits children, some of them by number, and waits for some of them: mostly as it should, sometimes ignoring
   *  errors. */
  async raise(depth: number, ctx: TaskContext): Promise<void> {
    const { dice } = this;
    const made: Child<unknown>[] = [];
    let unnamed = 0;
    for (const key of dice.some([undefined, "a", undefined, "b"])) {
      const options = {
        ...(key === undefined ? {} : { key }),
        ...{ retry: dice.pick(POLICIES), queue: key === "b" ? "q" : "default", priority: dice.below(10) },
        ...(dice.chance(0.3) ? { timeout: 1 + dice.below(5_000) } : {}),
      };
      if (dice.chance(0.2)) await new Promise<void>((resolve) => this.bench.clock.after(dice.below(4_000), resolve));
      const child = await ctx.submit("k", { depth: depth + 1 }, options);
      const name = `${ctx.jobId} ${key ?? `#${++unnamed}`}`;
      const known = this.children.get(name);
      if (child.created ? known !== undefined : known !== undefined && known !== child.id) {
        this.faults.push(`${name} was ${known}, and then ${child.id}`);
      }
      this.children.set(name, child.id);
      this.ids.add(child.id);
      this.parents.add(ctx.jobId);
      made.push(child);
    }
    const waiting = ctx.waitFor(dice.some(made, 0.8));
    if (dice.chance(0.8)) await waiting;
    else await waiting.catch(() => {});
  }

  async startWorker(): Promise<void> {
    const cut = { ...WHOLE };
    const real = localLink(this.bench.engine);
    const family = real.family as NonNullable<EngineLink["family"]>;
    const refuse = () => Promise.reject(new Error("cut off"));
    const link: EngineLink = {
      ...real,
      renew: (...args) => (cut.renew ? refuse() : real.renew(...args)),
      claim: (...args) => (cut.claim ? refuse() : real.claim(...args)),
      report: (...args) => (cut.report ? refuse() : real.report(...args)),
      family: {
        submit: (...args) => (cut.family ? refuse() : family.submit(...args)),
        look: (...args) => (cut.family ? refuse() : family.look(...args)),
        list: (...args) => (cut.family ? refuse() : family.list(...args)),
      },
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
    else if (dieRoll < 40) await this.command((dice.chance(0.4) ? dice.pick([...this.parents]) : undefined) ?? id);
    else if (dieRoll < 46) {
      if (this.workers.length < 4) await this.startWorker();
    } else if (dieRoll < 50) {
      const [gone] = this.workers.splice(dice.below(Math.max(1, this.workers.length)), 1);
      void gone?.worker.stop(dice.below(5_000)).catch(() => {});
    } else if (dieRoll < 60) {
      const hit = dice.pick(this.workers);
      if (hit) Object.assign(hit.cut, { [dice.pick(["renew", "report", "claim", "family"])]: dice.chance(0.6) });
    } else if (dieRoll < 64) {
      await bench.engine.setPaused("default", dice.pick(["default", "q"]), dice.chance(0.5));
    } else if (dieRoll < 66) {
      const session = dice.pick(this.workers)?.worker.session;
      if (session) await bench.engine.closeSession(session);
    } else if (dieRoll < 69) {
      await bench.engine.sweepChildren();
    } else if (dieRoll < 73) {
      await this.breakUp();
    } else await bench.advance(dice.below(dieRoll < 95 ? 2_500 : 20_000));
    await bench.settled();
  }

  async submit(): Promise<void> {
    const { bench, dice } = this;
    const maybe = (chance: number, value: number) => (dice.chance(chance) ? value : null);
    const deadline = maybe(0.15, 10_000 + dice.below(60_000));
    const id = await bench
      .submit("k", {
        payload: '{"depth":0}',
        policy: resolvePolicy(dice.pick(POLICIES)),
        queue: dice.pick(["default", "default", "q"]),
        priority: dice.below(10),
        delayMs: dice.chance(0.3) ? dice.below(10_000) : 0,
        timeoutMs: maybe(0.4, 1 + dice.below(5_000)),
        expireInMs: maybe(0.2, dice.below(15_000)),
        deadlineAt: deadline === null ? null : bench.clock.now() + deadline,
        key: dice.chance(0.2) ? `key-${dice.below(5)}` : null,
      })
      .catch((error: { code: string }) => {
        if (error.code !== "key_conflict") throw error; // the same key in the other queue
        return null;
      });
    if (id !== null) this.ids.add(id);
  }

  async command(id: string): Promise<void> {
    const { bench, dice } = this;
    const job = await bench.job(id);
    const now = bench.clock.now();
    const kind = dice.pick(["cancel", "cancel", "retry", "redrive", "redrive", "discard", "reschedule", "unblock"]);
    const runAt = now + dice.below(8_000);
    let command: Command;
    if (kind === "reschedule") command = { kind, runAt };
    // An engine with wrong knowledge: too early, or for an attempt that has ended. The job checks again by itself.
    else if (kind === "unblock") command = { kind, runAt, attempt: Math.max(1, job.attempt - dice.below(2)) };
    else command = { kind: kind as "cancel" };
    if (dice.chance(0.3)) return this.commandAndEnd(id, command);
    await bench.engine.command(id, command).catch((error: { code: string }) => {
      if (error.code !== "wrong_state") throw error;
    });
  }

  /** By an engine that exits right after the commit: another engine's sweep must do what follows. */
  async commandAndEnd(jobId: string, command: Command): Promise<void> {
    const now = this.bench.clock.now();
    await this.bench.store.amend([{ jobId, command }], now, (job, asked) => decideCommand(job, asked, now));
  }

  /** Cancels a job that waits, or one that it waits for. */
  async breakUp(): Promise<void> {
    const { bench, dice } = this;
    const parent = dice.pick((await bench.store.find({ state: ["blocked"] })).jobs);
    if (parent === undefined) return;
    const children = await bench.store.find({ parentId: parent.id, state: ["queued", "running", "blocked"] });
    const child = dice.chance(0.5) ? dice.pick(children.jobs) : undefined;
    await this.commandAndEnd((child ?? parent).id, { kind: "cancel" });
  }

  /** All existing children: one may have been stored for a parent that never got the answer. */
  async jobs(): Promise<JobRow[]> {
    const rows: JobRow[] = [];
    let cursor: string | null | undefined;
    while (cursor !== null) {
      const page = await this.bench.store.find({ order: "oldest", ...(cursor === undefined ? {} : { cursor }) });
      rows.push(...page.jobs);
      cursor = page.next;
    }
    for (const { id } of rows) this.ids.add(id);
    return rows;
  }

  async check(): Promise<void> {
    // Twice: a cancel that is passed on may end what another job waits for.
    await this.bench.engine.sweepChildren();
    await this.bench.engine.sweepChildren();
    await this.bench.settled();
    expect([...this.faults, ...this.bench.logged.filter((line) => line.startsWith("error"))]).toEqual([]);
    const counts = new Map(JOB_STATES.map((state) => [state, 0]));
    const jobs = await this.jobs();
    for (const job of jobs) {
      counts.set(job.state, (counts.get(job.state) ?? 0) + 1);
      await checkJob(this.bench, await this.bench.job(job.id));
    }
    await checkFamilies(this.bench, jobs);
    const told = await this.bench.store.queues.counts("default", this.bench.clock.now());
    for (const state of JOB_STATES) {
      expect(told.reduce((sum, queue) => sum + queue.counts[state], 0)).toBe(counts.get(state));
    }
  }

  /** No more faults: every job ends within lease, sweep and backoff. */
  async recover(): Promise<void> {
    this.healthy = true;
    for (const { cut, worker } of this.workers) {
      Object.assign(cut, WHOLE);
      void worker.stop(0).catch(() => {}); // a handler without a timeout may hang forever
    }
    for (const queue of ["default", "q"]) await this.bench.engine.setPaused("default", queue, false);
    await this.startWorker();
    let open: JobRow[] = [];
    for (let round = 0; round < 60; round++) {
      open = (await this.jobs()).filter((job) => !isTerminal(job.state));
      if (open.length === 0) return;
      await this.bench.advance(5_000);
    }
    expect((await this.bench.engine.explain(open[0]?.id as string)).text).toBe("ended");
  }
}

describe("random histories", () => {
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
