/** The library on SQLite `:memory:` with a virtual clock: waits of hours pass in milliseconds, and are exact.
 *
 *  const kit = await openTestEngine();
 *  await kit.perdure.work([flaky]);
 *  const job = await kit.perdure.submit(flaky, { url: "…" });
 *  await kit.runToEnd(job);            // or: await kit.advance("1s")
 *
 *  Real parts throughout; only time and chance are replaced. What it does not do: speed up real waiting inside a
 *  handler (a `setTimeout` or a request in it takes as long as ever). */
import { type Duration, toMs } from "../core/duration.ts";
import { PerdureError } from "../core/errors.ts";
import type { JobHandle } from "../core/face.ts";
import { isTerminal } from "../core/job.ts";
import type { JobInfo } from "../core/views.ts";
import type { OpenOptions } from "../embedded/options.ts";
import { Perdure } from "../embedded/perdure.ts";
import type { Store } from "../store/store.ts";
import { counted } from "./counted-store.ts";
import { VirtualClock } from "./virtual-clock.ts";

export interface TestEngineOptions extends Omit<OpenOptions, "url"> {
  /** Draws for jitter, from 0 to below 1. The default, always 0.5, draws none: delays are exact. */
  random?: () => number;
  /** Where the virtual clock starts. */
  startAt?: Date | number;
}

export interface TestEngine extends AsyncDisposable {
  readonly perdure: Perdure;
  readonly clock: VirtualClock;
  /** Moves time on, letting everything that falls due happen at its instant. */
  advance(by: Duration): Promise<void>;
  /** Lets what is under way finish without moving time. */
  settled(): Promise<void>;
  /** Moves time on until the job has ended. */
  runToEnd(job: JobHandle<unknown>): Promise<JobInfo>;
  close(): Promise<void>;
}

/** Longer spans are crossed in one leap: stepping through each second of a day would take minutes. */
const MAX_STEPPED_MS = 600_000;
/** How long a handler may do real work before time is moved on without it. */
const PATIENCE_MS = 250;
const MAX_STEPS = 200_000;

export async function openTestEngine(options: TestEngineOptions = {}): Promise<TestEngine> {
  const { random = () => 0.5, startAt, ...rest } = options;
  const clock = new VirtualClock(startAt === undefined ? undefined : Number(startAt));
  const calls = { underWay: 0 };
  const wrapStore = (store: Store) => counted(store, calls);
  const perdure = await Perdure.open({ ...rest, url: ":memory:" }, { clock, random, wrapStore });

  /** Quiet: no call of the store for several turns of the event loop. */
  async function settled(): Promise<void> {
    for (let quiet = 0; quiet < 4; ) {
      await new Promise((resolve) => setImmediate(resolve));
      quiet = calls.underWay === 0 ? quiet + 1 : 0;
    }
  }

  async function advanceTo(target: number): Promise<void> {
    await settled();
    if (target - clock.now() <= MAX_STEPPED_MS) {
      for (let next = clock.nextAt(); next !== null && next <= target; next = clock.nextAt()) {
        clock.moveTo(next);
        await settled();
      }
    }
    clock.moveTo(target);
    await settled();
  }

  async function runToEnd(job: JobHandle<unknown>): Promise<JobInfo> {
    for (let step = 0; step < MAX_STEPS; step++) {
      await settled();
      const info = await job.get();
      if (isTerminal(info.state)) return info;
      if (info.state === "running" && (await endsByItself(job))) continue;
      if (info.state === "queued" && info.runAt <= clock.now()) await refuseVain(job);
      const next = clock.nextAt() ?? clock.now() + 1_000;
      await advanceTo(info.state === "queued" && info.runAt > next ? info.runAt : next);
    }
    throw new PerdureError("result_timeout", `${job.id} did not end after ${MAX_STEPS} steps of the clock`);
  }

  /** A due job that no worker can take would never end, however long the clock is moved. */
  async function refuseVain(job: JobHandle<unknown>): Promise<void> {
    const { next, text } = await job.explain();
    if (next.kind !== "run" || !next.waitsFor.some((reason) => reason === "no_worker" || reason === "paused")) return;
    throw new PerdureError("result_timeout", `${job.id} cannot end: moving the clock will not help.\n${text}`);
  }

  async function endsByItself(job: JobHandle<unknown>): Promise<boolean> {
    const before = await job.get();
    for (let waited = 0; waited < PATIENCE_MS; waited += 1) {
      await new Promise((resolve) => setTimeout(resolve, 1));
      await settled();
      if ((await job.get()).revision !== before.revision) return true;
    }
    return false;
  }

  async function close(): Promise<void> {
    const closing = perdure.close({ grace: 0 });
    let open = true;
    const closed = closing.finally(() => {
      open = false;
    });
    while (open) {
      await settled();
      clock.moveTo(clock.nextAt() ?? clock.now() + 1_000);
    }
    await closed;
  }

  return {
    perdure,
    clock,
    advance: (by) => advanceTo(clock.now() + toMs(by, "advance")),
    settled,
    runToEnd,
    close,
    [Symbol.asyncDispose]: close,
  };
}
