/** The library on SQLite `:memory:` with a virtual clock: waits of hours take milliseconds and are exact.
 *
 *  All parts are real except time and randomness, and leases, which last for years: no worker is ever lost here. Real
 *  waiting inside a handler is not shortened: the clock stands still while a handler waits for a `setTimeout`, a file
 *  or a request, for up to `patience`. */

import type { JobHandle } from "../core/api/jobs.ts";
import type { RunHandle, RunInfo } from "../core/api/runs.ts";
import { type Duration, toMs } from "../core/duration.ts";
import { ConfigError, PerdureError } from "../core/errors.ts";
import type { Explanation } from "../core/explain/explain.ts";
import { isTerminal } from "../core/job/job.ts";
import type { JobInfo } from "../core/job/views.ts";
import type { OpenOptions } from "../embedded/options.ts";
import { Perdure } from "../embedded/perdure.ts";
import type { Blobs } from "../store/blobs.ts";
import type { Store } from "../store/store.ts";
import { DueDates } from "./due-dates.ts";
import { fakedTimers, guardedPerdure, HangGuard } from "./hang-guard.ts";
import { counted, wereTimersFaked } from "./real-work.ts";
import { ScriptedSteps, type StepOutcomes } from "./scripted-steps.ts";
import { STUCK, TimeMover } from "./time-mover.ts";
import { VirtualClock } from "./virtual-clock.ts";

/** There is no server and no lease: the store is in memory, and its workers are never lost.
 *  @example
 *  const options: TestEngineOptions = { startAt: new Date("2030-05-01"), random: () => 0.5 }; */
export interface TestEngineOptions extends Omit<OpenOptions, "url" | "token" | "schema" | "connections" | "lease"> {
  /** Random numbers for jitter, from 0 to below 1. The default, always 0.5, means no jitter: delays are exact. */
  random?: () => number;
  /** Start time of the virtual clock. */
  startAt?: Date | number;
  /** How long, in real time, the clock stands still while a handler does real work. Default: 2 s. */
  patience?: Duration;
}

/** The library under a virtual clock.
 *  @example
 *  const kit: TestEngine = await openTestEngine();
 *  await kit.advance("1h");
 *  await kit.close(); */
export interface TestEngine extends AsyncDisposable {
  readonly perdure: Perdure;
  readonly clock: VirtualClock;
  /** Moves time forward; everything that becomes due happens at its time. */
  advance(by: Duration): Promise<void>;
  /** Lets work in progress finish without moving time. */
  settled(): Promise<void>;
  /** Moves time forward until the job has ended. */
  runToEnd(job: JobHandle<unknown>): Promise<JobInfo>;
  /** The same for a run. With `outcomes`, its steps do not run but end as scripted; then no worker of the test may serve them. */
  runToEnd(run: RunHandle<unknown>, options?: { readonly outcomes?: StepOutcomes }): Promise<RunInfo>;
  close(): Promise<void>;
}

const MAX_STEPS = 1_000_000;
const PATIENCE_MS = 2_000;
/** Years: the clock would have to step to each renewal. */
const LEASE = "3650d";

/** Opens the real engine on an in-memory store, with a clock that you move.
 *  @example
 *  await using kit = await openTestEngine();
 *  await kit.perdure.work([resize]);
 *  const job = await kit.perdure.submit(resize, { url }, { delay: "1h" });
 *  expect(await kit.runToEnd(job)).toMatchObject({ state: "succeeded" }); */
export async function openTestEngine(options: TestEngineOptions = {}): Promise<TestEngine> {
  const { random = () => 0.5, startAt, patience = PATIENCE_MS, ...rest } = options;
  refuse(rest);
  const clock = new VirtualClock(startAt === undefined ? undefined : Number(startAt));
  const calls = { underWay: 0, made: 0, toKit: 0 };
  const dates = new DueDates({
    onChange: () => {
      calls.made += 1;
      clock.changed();
    },
    onClaimed: () => mover.begin(),
  });
  const warn = (message: string) => process.emitWarning(message, "PerdureTestWarning");
  const mover: TimeMover = new TimeMover({ clock, dates, calls, patienceMs: toMs(patience, "open.patience"), warn });
  const wrapStore = (store: Store) => counted(dates.follow(store), calls);
  // The pruner deletes files of jobs: real work of the engine, which time waits for.
  const wrapOutputs = (outputs: Blobs) => counted(outputs, calls);
  const opened = await Perdure.open(
    { ...rest, url: ":memory:", lease: LEASE },
    { clock: mover.engineClock, random, wrapStore, wrapOutputs },
  );
  const guard = new HangGuard({
    activity: () => (calls.toKit > 0 || calls.underWay > 0 ? "busy" : calls.made),
    realWork: () => mover.realWork,
    isHandlerAtWork: () => dates.running.size > mover.otherTimers,
    warn,
  });
  const perdure = guardedPerdure(opened, guard, close);

  /** A call of the test: while it is in progress, nothing counts as hung. */
  async function called<T>(call: () => Promise<T>): Promise<T> {
    mover.begin();
    calls.toKit += 1;
    try {
      return await call();
    } finally {
      calls.toKit -= 1;
      calls.made += 1;
    }
  }

  async function runToEnd<Info extends JobInfo | RunInfo>(job: ToEnd<Info>, script?: ScriptedSteps): Promise<Info> {
    for (let step = 0; step < MAX_STEPS; step++) {
      await mover.settled();
      if (script !== undefined && (await script.serve(job.id))) continue;
      const info = await job.get();
      if (hasEnded(info)) return info;
      if (info.state === "queued" && info.runAt <= clock.now()) await refuseVain(job);
      if (!(await mover.step(Number.POSITIVE_INFINITY)) && !hasEnded(await job.get())) await refuseStuck(job);
    }
    throw new PerdureError("result_timeout", `${job.id} did not end after ${MAX_STEPS} steps of the clock: ${STUCK}`);
  }

  async function runScripted<Info extends JobInfo | RunInfo>(job: ToEnd<Info>, outcomes: StepOutcomes): Promise<Info> {
    const script = new ScriptedSteps(opened, outcomes);
    try {
      return await runToEnd(job, script);
    } finally {
      await script.stop();
    }
  }

  /** A due job that no worker can take would never end, however far the clock moves. */
  async function refuseVain(job: ToEnd<JobInfo | RunInfo>): Promise<void> {
    const { next, text } = await job.explain();
    if (next.kind !== "run" || !next.waitsFor.some((reason) => reason === "no_worker" || reason === "paused")) return;
    throw new PerdureError("result_timeout", `${job.id} cannot end: moving the clock does not help.\n${text}`);
  }

  /** Nothing is scheduled on the clock, and no real work is in progress. */
  async function refuseStuck(job: ToEnd<JobInfo | RunInfo>): Promise<never> {
    const info = await job.get();
    const why =
      info.state === "running" && !("phase" in info)
        ? "its handler waits for something that neither the clock nor any work in progress will deliver"
        : "nothing scheduled on the clock would continue it";
    const { text } = await job.explain();
    const message = `${job.id} cannot end: ${why}. A timeout on the task would end it.\n${text}${fakedTimers()}`;
    throw new PerdureError("result_timeout", message);
  }

  function close(how: { grace?: Duration } = { grace: 0 }): Promise<void> {
    return called(async () => {
      let isOpen = true;
      const done = () => {
        isOpen = false;
      };
      const closing = opened.close(how);
      closing.then(done, done);
      while (isOpen) {
        await mover.settled();
        if (isOpen) clock.moveTo(clock.nextAt() ?? clock.now() + 1_000);
      }
      return closing;
    });
  }

  return {
    perdure,
    clock,
    advance: (by) => called(async () => mover.advanceTo(clock.now() + toMs(by, "advance"))),
    settled: () => called(() => mover.settled()),
    runToEnd: <Info extends JobInfo | RunInfo>(job: ToEnd<Info>, { outcomes }: { outcomes?: StepOutcomes } = {}) =>
      called(() => (outcomes === undefined ? runToEnd(job) : runScripted(job, outcomes))),
    close: () => close(),
    [Symbol.asyncDispose]: () => close(),
  };
}

/** A job or a run. */
interface ToEnd<Info> {
  readonly id: string;
  get(): Promise<Info>;
  explain(): Promise<Explanation>;
}

function hasEnded({ state }: JobInfo | RunInfo): boolean {
  return state !== "running" && isTerminal(state);
}

/** Options without a meaning here are errors, like unknown options. */
function refuse(options: object): void {
  for (const name of ["url", "token", "schema", "connections", "lease"]) {
    if (!Object.hasOwn(options, name)) continue;
    const problem = "is for servers, PostgreSQL and leases, which a test engine does not have";
    throw new ConfigError({ path: `openTestEngine.${name}`, given: Reflect.get(options, name), problem });
  }
  if (!wereTimersFaked()) return;
  const message =
    "the timers of this process were faked before perdure was loaded, so that nothing can happen: import perdure/testing " +
    'first, then call vi.useFakeTimers(), or fake less of them, as in vi.useFakeTimers({ toFake: ["Date"] })';
  throw new PerdureError("wrong_state", message);
}
