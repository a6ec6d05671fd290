/** Moves the virtual clock step by step: to each relevant timer, and to each time at which something in the store
 *  becomes due. Before each step everything in progress has finished: calls of the store, turns of the event loop, and
 *  real work of handlers, for which the clock stands still. Periodic checks (polls, beats, sweeps) run once after each
 *  change and are then skipped, so that a quiet day costs as much as a quiet second. */
import { PerdureError } from "../core/errors.ts";
import { type Clock, nextTurn } from "../lib/clock.ts";
import { systemLoop } from "../lib/system-clock.ts";
import type { DueDates } from "./due-dates.ts";
import { RealWork, realSleep } from "./real-work.ts";
import type { VirtualClock } from "./virtual-clock.ts";

/** Turns of the event loop without a call of the store: more than our own code ever takes between two calls. */
const QUIET_TURNS = 4;
/** Real time for a handler that waits for neither the clock nor anything known to Node, such as its thread pool. */
const GRACE_MS = 50;
/** Steps of one call: a timer that reschedules itself without a delay would never end. */
const MAX_STEPS = 1_000_000;

export interface TimeMoverParts {
  readonly clock: VirtualClock;
  readonly dates: DueDates;
  /** Calls of the store, and file access by the engine. */
  readonly calls: { underWay: number };
  /** How long, in real time, the clock stands still while a handler does real work. */
  readonly patienceMs: number;
  readonly warn: (message: string) => void;
}

export class TimeMover {
  readonly #parts: TimeMoverParts;
  readonly #realWork = new RealWork();
  /** Due dates up to this time have been handled. */
  #seen: number;
  #engineTimers = 0;
  /** The running attempts that had their grace time. */
  #graced = new Set<string>();
  /** Serializes steps, whoever moves the clock. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(parts: TimeMoverParts) {
    this.#parts = parts;
    this.#seen = parts.clock.now();
  }

  /** The engine's clock: distinguishes its timers from those of handlers and tests. */
  readonly engineClock: Clock = {
    now: () => this.#parts.clock.now(),
    monotonic: () => this.#parts.clock.monotonic(),
    turn: (call) => this.#parts.clock.turn(call),
    tick: (call) => this.#parts.clock.tick(call),
    after: (ms, call, options) => {
      let isPending = true;
      const done = () => {
        if (isPending) this.#engineTimers -= 1;
        isPending = false;
      };
      this.#engineTimers += 1;
      const cancel = this.#parts.clock.after(
        ms,
        () => {
          done();
          call();
        },
        options,
      );
      return () => {
        done();
        cancel();
      };
    },
  };

  /** Real work of handlers, or the test, in progress. */
  get realWork(): string[] {
    return this.#realWork.current();
  }

  /** Timers of handlers and of the test. */
  get otherTimers(): number {
    return this.#parts.clock.pending - this.#engineTimers;
  }

  /** Called by the test and before a handler starts: work in progress while no handler runs is not theirs. */
  begin(): void {
    if (this.#parts.dates.running.size === 0) this.#realWork.ignoreAll();
    else this.#realWork.current();
  }

  /** Quiet: no call of the store for several turns of the event loop, and no real work of a handler. */
  async settled(): Promise<void> {
    let waitedMs = 0;
    for (;;) {
      await this.#quiet();
      await this.#parts.dates.next(this.#seen); // updates who is running
      // Without a running handler only the engine works, and its calls are counted.
      const found = this.#realWork.current();
      const work = this.#parts.dates.running.size > 0 ? found : [];
      if (work.length === 0) return;
      if (waitedMs >= this.#parts.patienceMs) return this.#giveUp(work);
      await realSleep(1);
      waitedMs += 1;
    }
  }

  /** Moves time forward; everything that becomes due happens at its time. */
  async advanceTo(target: number): Promise<void> {
    for (let step = 0; step < MAX_STEPS; step++) if (!(await this.step(target))) return;
    throw new PerdureError("result_timeout", `the clock did not reach its target within ${MAX_STEPS} steps: ${STUCK}`);
  }

  /** Steps to the next time at which something may happen, up to `target`. False: it is at `target`, or, if that is
   *  infinite, nothing will ever happen. */
  step(target: number): Promise<boolean> {
    const step = this.#turn.then(() => this.#step(target));
    this.#turn = step.catch(() => {});
    return step;
  }

  async #step(target: number): Promise<boolean> {
    const { clock, dates } = this.#parts;
    await this.settled();
    await this.#grace();
    const dueAt = await dates.next(this.#seen);
    const timerAt = clock.nextNeededAt();
    const next = Math.min(dueAt ?? Number.POSITIVE_INFINITY, timerAt ?? Number.POSITIVE_INFINITY);
    if (next > target || next === Number.POSITIVE_INFINITY) {
      if (target > clock.now() && target < Number.POSITIVE_INFINITY) clock.stepTo(target);
      return false;
    }
    if (dueAt !== null && dueAt <= next) {
      clock.stepAndCheck(dueAt);
      this.#seen = clock.now();
    } else clock.stepTo(next);
    return true;
  }

  async #quiet(): Promise<void> {
    for (let quiet = 0; quiet < QUIET_TURNS; ) {
      await nextTurn(systemLoop);
      quiet = this.#parts.calls.underWay === 0 ? quiet + 1 : 0;
    }
  }

  /** A handler may be working unobserved. Each running attempt gets some real time once. */
  async #grace(): Promise<void> {
    const { dates } = this.#parts;
    for (const name of this.#graced) if (!dates.running.has(name)) this.#graced.delete(name);
    if (dates.running.size <= this.otherTimers) return;
    const fresh = [...dates.running].filter((name) => !this.#graced.has(name));
    if (fresh.length === 0) return;
    for (let waitedMs = 0; waitedMs < GRACE_MS; waitedMs++) {
      await realSleep(1);
      await this.settled();
      if (!fresh.some((name) => dates.running.has(name)) || dates.running.size <= this.otherTimers) return;
    }
    for (const name of fresh) this.#graced.add(name);
  }

  #giveUp(work: readonly string[]): void {
    this.#realWork.ignoreAll();
    const { patienceMs, warn } = this.#parts;
    warn(
      `a handler has done real work for ${patienceMs} ms (${work.join(", ")}): the virtual clock moves on without it. ` +
        "In a handler under test, use kit.clock.sleep(…) instead of setTimeout; for slow real work raise the option patience.",
    );
  }
}

export const STUCK = "a timer reschedules itself without a delay";
