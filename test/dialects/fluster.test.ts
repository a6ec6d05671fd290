/** fluster's "Retry Handling Design", section by section, with its numbers, through the real engine. The environment
 *  of commands is in `fluster-worker.test.ts`, their resources in `fluster-resources.test.ts`. */
import { describe, expect, it } from "vitest";
import { flusterDialect } from "../../src/dialects/fluster/dialect.ts";
import type { FlusterRetryConfig } from "../../src/dialects/fluster/retry.ts";
import type { FlusterStatus } from "../../src/dialects/fluster/view.ts";
import { DIALECT_DEFAULTS } from "../../src/dialects/settings.ts";
import { VIRTUAL_START } from "../../src/testing/virtual-clock.ts";
import { openStage, type Play, STORES, type Stage, type StoreName } from "./kit.ts";

const T0 = VIRTUAL_START;
const JOB = { name: "train", entrypoint: ["python", "train.py"], resources: { cpu: 1, memory: "512m" } };
const YAML = `
name: flaky-job
entrypoint: { shell: "exit $((RANDOM % 2))" }
environment: { env_vars: { BUCKET: gs://bucket } }
resources: { cpu: 1, memory: 512m }
ports: [http]
scheduling_timeout_seconds: 60
retry:
  max_retries_failure: 5
  no_retry_on_exit_codes: [1]
`;
const FAIL: Play = { exit: 1 };
/** The worker exited. */
const PREEMPTED: Play = "gone";

interface Controller extends Pick<Stage, "engine" | "store" | "clock" | "run" | "start" | "job" | "advance"> {
  /** `client.submit(..., retry=RetryConfig(...))`, or a whole job as YAML. */
  submit(retry?: FlusterRetryConfig | string, more?: object): Promise<string>;
  /** `GetJobStatus`, now. */
  status(id: string): Promise<FlusterStatus>;
  terminate(id: string): Promise<void>;
  /** Plays one attempt after another; returns the delay before each, in seconds. */
  play(id: string, ...plays: Play[]): Promise<number[]>;
}

async function openController(store: StoreName, fluster = DIALECT_DEFAULTS.fluster): Promise<Controller> {
  const stage = await openStage(store);
  const settings = { ...DIALECT_DEFAULTS, fluster };
  return {
    engine: stage.engine,
    store: stage.store,
    clock: stage.clock,
    run: (...args) => stage.run(...args),
    start: (...args) => stage.start(...args),
    job: (...args) => stage.job(...args),
    advance: (...args) => stage.advance(...args),
    async submit(retry, more = {}) {
      const document =
        typeof retry === "string" ? retry : { ...JOB, ...(retry === undefined ? {} : { retry }), ...more };
      const [id] = await stage.apply(flusterDialect, document, { settings });
      return id as string;
    },
    async status(id: string) {
      return flusterDialect.view({ ...(await stage.parts(id)), now: stage.clock.now() }) as FlusterStatus;
    },
    async terminate(id: string) {
      await stage.engine.command(id, { kind: "cancel", by: "someone" });
      await stage.engine.sweepChildren();
    },
    async play(id: string, ...plays: Play[]) {
      const delays: number[] = [];
      for (const play of plays) {
        const { runAt } = await stage.job(id);
        delays.push(Math.max(0, runAt - stage.clock.now()) / 1_000);
        await stage.run(id, play);
      }
      return delays;
    },
  };
}

const times = (count: number, play: Play): Play[] => Array.from({ length: count }, () => play);

describe.each(STORES)("fluster on %s", (store) => {
  describe("What Happens Today When a Job Fails", () => {
    it('"when a worker dies or times out, the controller automatically retries jobs up to max_retries_preemption (default: 100)"', async () => {
      const controller = await openController(store);
      const id = await controller.submit();
      const delays = await controller.play(id, ...times(100, PREEMPTED));
      expect(new Set(delays)).toEqual(new Set([0]));
      expect(await controller.status(id)).toMatchObject({ state: "PENDING", preemption_count: 100, failure_count: 0 });
      await controller.play(id, PREEMPTED);
      expect(await controller.status(id)).toMatchObject({
        ...{ state: "WORKER_FAILED", preemption_count: 101, failure_count: 0, current_attempt_id: 100 },
        ...{ exit_code: null, error: "Worker worker-1 failed: it exited" },
      });
      expect((await controller.status(id)).attempts).toHaveLength(101);
    }, 60_000);

    it('"when a job exits with non-zero code, it is marked FAILED with no retry by default (max_retries_failure = 0)"', async () => {
      const controller = await openController(store);
      const id = await controller.submit();
      await controller.run(id, { exit: 2, stderr: "no such table" }, { tookMs: 1_500 });
      expect(await controller.status(id)).toEqual({
        ...{ job_id: id, name: "train", parent_job_id: null, state: "FAILED" },
        ...{ exit_code: 2, error: "exit code 2: no such table", worker_id: "worker-1" },
        ...{ started_at_ms: T0, finished_at_ms: T0 + 1_500 },
        ...{ failure_count: 1, preemption_count: 0, max_retries_failure: 0, max_retries_preemption: 100 },
        ...{ current_attempt_id: 0, next_retry_delay_ms: 0, retry_available_at_ms: 0 },
        attempts: [
          {
            ...{ attempt_id: 0, worker_id: "worker-1", state: "FAILED" },
            ...{ exit_code: 2, error: "exit code 2: no such table" },
            ...{ started_at_ms: T0, finished_at_ms: T0 + 1_500, is_worker_failure: false },
          },
        ],
      });
    });
  });

  describe("How Job State Transitions Work", () => {
    const states = async (controller: Controller, id: string, ...plays: Play[]) => {
      const seen = [(await controller.status(id)).state];
      for (const play of plays) {
        const started = await controller.start(id);
        seen.push((await controller.status(id)).state);
        await started.end(play);
        seen.push((await controller.status(id)).state);
      }
      return seen.join(" → ");
    };
    const once = { max_retries_failure: 1, max_retries_preemption: 1 };

    it.each<[string, Play[]]>([
      ["PENDING → RUNNING → SUCCEEDED", ["ok"]],
      ["PENDING → RUNNING → PENDING → RUNNING → SUCCEEDED", [FAIL, "ok"]],
      ["PENDING → RUNNING → PENDING → RUNNING → FAILED", [FAIL, FAIL]],
      ["PENDING → RUNNING → PENDING → RUNNING → WORKER_FAILED", [PREEMPTED, PREEMPTED]],
    ])("%s", async (wanted, plays) => {
      const controller = await openController(store);
      expect(await states(controller, await controller.submit(once), ...plays)).toBe(wanted);
    });

    it("RUNNING → KILLED", async () => {
      const controller = await openController(store);
      const id = await controller.submit(once);
      const started = await controller.start(id);
      await controller.terminate(id);
      await started.end({ signal: "SIGTERM" });
      expect(await controller.status(id)).toMatchObject({ state: "KILLED", current_attempt_id: 0 });
    });

    it('increments "the appropriate counter (failure_count or preemption_count)" and saves the attempt with how it ended', async () => {
      const controller = await openController(store);
      const id = await controller.submit({ max_retries_failure: 1 });
      await controller.run(id, PREEMPTED, { worker: "spot-1", tookMs: 3_000 });
      await controller.run(id, { exit: 7, stderr: "boom" }, { worker: "spot-2", tookMs: 2_000 });
      // Reset to PENDING: nothing of the previous attempt is left in the job itself.
      expect(await controller.status(id)).toMatchObject({
        ...{ state: "PENDING", failure_count: 1, preemption_count: 1, current_attempt_id: 2 },
        ...{ worker_id: null, started_at_ms: null, finished_at_ms: null, exit_code: null, error: null },
      });
      const attempts = [
        {
          ...{ attempt_id: 0, worker_id: "spot-1", state: "WORKER_FAILED", exit_code: null },
          ...{ started_at_ms: T0, finished_at_ms: T0 + 3_000, is_worker_failure: true },
          error: "Worker spot-1 failed: it exited",
        },
        {
          ...{ attempt_id: 1, worker_id: "spot-2", state: "FAILED", exit_code: 7, error: "exit code 7: boom" },
          ...{ started_at_ms: T0 + 3_000, finished_at_ms: T0 + 5_000, is_worker_failure: false },
        },
      ];
      expect((await controller.status(id)).attempts).toEqual(attempts);
      const started = await controller.start(id, { worker: "spot-3" });
      expect(await controller.status(id)).toMatchObject({
        ...{ state: "RUNNING", worker_id: "spot-3", started_at_ms: T0 + 6_000, current_attempt_id: 2, attempts },
      });
      await started.end("ok");
      // The last one is in the list too, with its actual end.
      expect(await controller.status(id)).toMatchObject({
        ...{ state: "SUCCEEDED", exit_code: 0, error: null, worker_id: "spot-3", current_attempt_id: 2 },
        attempts: [...attempts, { attempt_id: 2, state: "SUCCEEDED", exit_code: 0, error: null }],
      });
    });

    it("a worker that times out is a worker failure", async () => {
      const controller = await openController(store);
      const id = await controller.submit();
      await controller.run(id, "lost");
      expect(await controller.status(id)).toMatchObject({
        ...{ state: "PENDING", preemption_count: 1 },
        attempts: [{ is_worker_failure: true, error: "Worker worker-1 failed: its lease expired" }],
      });
    });
  });

  describe("RetryConfig", () => {
    it.each<[string, FlusterRetryConfig | undefined]>([
      ["none", undefined],
      ["an empty one", {}],
    ])("%s has the documented defaults: 0, 100, 1000 ms, 60000 ms, 2.0", async (_, retry) => {
      const controller = await openController(store);
      const id = await controller.submit(retry);
      expect((await controller.job(id)).policy).toMatchObject({
        ...{ preset: "fluster", maxAttempts: 1, retryOnExitCodes: [], noRetryOnExitCodes: [] },
        backoff: { type: "exponential", initialMs: 1_000, maxMs: 60_000, factor: 2, jitter: 0 },
        workerLost: { charge: "own", maxRetries: 100, backoff: { type: "none" }, poison: null },
      });
      expect(await controller.status(id)).toMatchObject({ max_retries_failure: 0, max_retries_preemption: 100 });
    });

    it("that leaves out max_retries_preemption keeps its 100: defaults are per field", async () => {
      const controller = await openController(store);
      const id = await controller.submit({ max_retries_failure: 3 });
      expect(await controller.status(id)).toMatchObject({ max_retries_failure: 3, max_retries_preemption: 100 });
      await controller.play(id, PREEMPTED);
      expect(await controller.status(id)).toMatchObject({ state: "PENDING" });
    });

    it('"0 means no retries (one attempt only)", also of preemptions', async () => {
      const controller = await openController(store);
      const id = await controller.submit({ max_retries_failure: 0, max_retries_preemption: 0 });
      await controller.play(id, PREEMPTED);
      expect(await controller.status(id)).toMatchObject({ state: "WORKER_FAILED", preemption_count: 1 });
      const failing = await controller.submit({ max_retries_failure: 0, max_retries_preemption: 0 });
      await controller.play(failing, FAIL);
      expect(await controller.status(failing)).toMatchObject({ state: "FAILED", failure_count: 1, attempts: [{}] });
    });

    it("in milliseconds, as in the proto, waits as long as in seconds, as in the client", async () => {
      const controller = await openController(store);
      const same = { max_retries_failure: 3, backoff_multiplier: 3 };
      const proto = await controller.submit({ ...same, initial_retry_delay_ms: 1_500, max_retry_delay_ms: 10_000 });
      const client = await controller.submit({ ...same, initial_delay: 1.5, max_delay: 10 });
      for (const id of [proto, client]) expect(await controller.play(id, ...times(4, FAIL))).toEqual([0, 1.5, 4.5, 10]);
    });

    it("is read from YAML", async () => {
      const controller = await openController(store);
      const id = await controller.submit(YAML);
      expect(await controller.job(id)).toMatchObject({
        ...{ kind: "exec", expireInMs: 60_000, annotations: { "fluster/name": "flaky-job" } },
        policy: { maxAttempts: 6, noRetryOnExitCodes: [1] },
        labels: { "resource/cpu": "1000", "resource/memory": String(512 * 2 ** 20) },
      });
      expect(await controller.status(id)).toMatchObject({ name: "flaky-job", max_retries_failure: 5 });
    });

    it.each([
      [{ max_retries_failure: -1 }, "retry.max_retries_failure"],
      [{ initial_delay: 1, initial_retry_delay_ms: 1_000 }, "retry.initial_delay"],
      [{ max_retries: 3 }, "retry.max_retries"],
    ])("with a mistake is refused, and nothing is stored: %j", async (retry, path) => {
      const controller = await openController(store);
      await expect(controller.submit(retry as FlusterRetryConfig)).rejects.toMatchObject({ path });
      expect(await controller.store.queues.counts("default", T0)).toEqual([]);
    });
  });

  describe("Controller/Scheduler Changes", () => {
    it('"skip jobs waiting for retry delay": retry_available_at_ms is 0 if ready', async () => {
      const controller = await openController(store);
      const id = await controller.submit({ max_retries_failure: 2 });
      expect(await controller.status(id)).toMatchObject({ next_retry_delay_ms: 0, retry_available_at_ms: 0 });
      await controller.run(id, FAIL, { tookMs: 250 });
      const wanted = { next_retry_delay_ms: 1_000, retry_available_at_ms: T0 + 1_250 };
      expect(await controller.status(id)).toMatchObject(wanted);
      await controller.advance(999);
      expect(await controller.status(id)).toMatchObject(wanted);
      const { kind, queue, labels } = await controller.job(id);
      const session = await controller.engine.openSession({
        ...{ namespace: "default", name: "eager", host: "h", pid: 1, slots: 1, kinds: [kind], queues: [queue], labels },
      });
      expect((await controller.engine.claim(session, { limit: 1 })).jobs).toEqual([]);
      await controller.advance(1);
      expect(await controller.status(id)).toMatchObject({ retry_available_at_ms: 0 });
      expect((await controller.engine.claim(session, { limit: 1 })).jobs).toMatchObject([{ id, attempt: 2 }]);
      expect(await controller.status(id)).toMatchObject({ next_retry_delay_ms: 0, retry_available_at_ms: 0 });
    });

    it("a preemption is retried at once: ready", async () => {
      const controller = await openController(store);
      const id = await controller.submit({ max_retries_failure: 2 });
      await controller.play(id, PREEMPTED);
      expect(await controller.status(id)).toMatchObject({ next_retry_delay_ms: 0, retry_available_at_ms: 0 });
    });

    it("failures alone make the delays grow, not the preemptions between them", async () => {
      const controller = await openController(store);
      const id = await controller.submit({ max_retries_failure: 5 });
      expect(await controller.play(id, FAIL, PREEMPTED, FAIL, PREEMPTED, FAIL, "ok")).toEqual([0, 1, 0, 2, 0, 4]);
    });

    const both = { max_retries_failure: 1, retry_on_exit_codes: [1, 137], no_retry_on_exit_codes: [1] };
    it.each<[string, FlusterRetryConfig, Play, "PENDING" | "FAILED"]>([
      ["any non-zero by default", { max_retries_failure: 1 }, { exit: 255 }, "PENDING"],
      ["any failure without a code by default", { max_retries_failure: 1 }, { error: "no code" }, "PENDING"],
      ["in the list", { max_retries_failure: 1, retry_on_exit_codes: [3] }, { exit: 3 }, "PENDING"],
      ["not in the list", { max_retries_failure: 1, retry_on_exit_codes: [3] }, { exit: 4 }, "FAILED"],
      ["no code, which is in no list", { max_retries_failure: 1, retry_on_exit_codes: [3] }, { error: "x" }, "FAILED"],
      ["in the other list", { max_retries_failure: 1, no_retry_on_exit_codes: [3] }, { exit: 3 }, "FAILED"],
      ["not in the other list", { max_retries_failure: 1, no_retry_on_exit_codes: [3] }, { exit: 4 }, "PENDING"],
      ["no code, in neither", { max_retries_failure: 1, no_retry_on_exit_codes: [3] }, { error: "x" }, "PENDING"],
      ["in both: no_retry_on_exit_codes takes precedence", both, { exit: 1 }, "FAILED"],
      ["in the first of both", both, { exit: 137 }, "PENDING"],
      ["in neither of both", both, { exit: 2 }, "FAILED"],
      ["a lost worker, which has nothing to do with codes", both, PREEMPTED, "PENDING"],
    ])("_should_retry_exit_code: %s", async (_, retry, play, state) => {
      const controller = await openController(store);
      const id = await controller.submit(retry);
      await controller.play(id, play);
      // A failure that is not retried is counted too.
      const counts = play === PREEMPTED ? { failure_count: 0, preemption_count: 1 } : { failure_count: 1 };
      expect(await controller.status(id)).toMatchObject({ state, ...counts });
    });
  });

  describe("Configuration Options", () => {
    it("Basic: retry up to 3 times on any failure", async () => {
      const controller = await openController(store);
      const id = await controller.submit({ max_retries_failure: 3 });
      expect(await controller.play(id, { exit: 1 }, { exit: 2 }, { signal: "SIGSEGV" }, "oom")).toEqual([0, 1, 2, 4]);
      expect(await controller.status(id)).toMatchObject({
        ...{ state: "FAILED", failure_count: 4, current_attempt_id: 3, exit_code: 137 },
        attempts: [{ exit_code: 1 }, { exit_code: 2 }, { exit_code: 139 }, { exit_code: 137 }],
      });
    });

    it("With exponential backoff: 1s, 2s, 4s, 8s delays, and 16s, for there are five", async () => {
      const controller = await openController(store);
      const retry = { max_retries_failure: 5, initial_delay: 1.0, max_delay: 30.0, backoff_multiplier: 2.0 };
      const id = await controller.submit(retry);
      expect(await controller.play(id, ...times(6, FAIL))).toEqual([0, 1, 2, 4, 8, 16]);
      expect(await controller.status(id)).toMatchObject({ state: "FAILED", failure_count: 6 });
      expect(controller.clock.now() - T0).toBe(31_000);
    });

    it("max_delay 30.0 is the longest", async () => {
      const controller = await openController(store);
      const id = await controller.submit({ max_retries_failure: 8, initial_delay: 1.0, max_delay: 30.0 });
      expect(await controller.play(id, ...times(9, FAIL))).toEqual([0, 1, 2, 4, 8, 16, 30, 30, 30]);
    });

    it("60000 ms is the longest by default", async () => {
      const controller = await openController(store);
      const id = await controller.submit({ max_retries_failure: 8 });
      expect(await controller.play(id, ...times(9, FAIL))).toEqual([0, 1, 2, 4, 8, 16, 32, 60, 60]);
    });

    it.each<[string, Play, string]>([
      ["137, SIGKILL (OOM)", "oom", "PENDING"],
      ["137, from a command", { exit: 137 }, "PENDING"],
      ["137, a kill under a living worker", { signal: "SIGKILL" }, "PENDING"],
      ["139, SIGSEGV", { signal: "SIGSEGV" }, "PENDING"],
      ["1", { exit: 1 }, "FAILED"],
      ["143, SIGTERM", { signal: "SIGTERM" }, "FAILED"],
    ])("Only retry on specific exit codes, [137, 139]: %s", async (_, play, state) => {
      const controller = await openController(store);
      const id = await controller.submit({ max_retries_failure: 3, retry_on_exit_codes: [137, 139] });
      await controller.play(id, play);
      expect(await controller.status(id)).toMatchObject({ state, failure_count: 1 });
    });

    it("Don't retry on assertion errors (user bugs), [1]", async () => {
      const controller = await openController(store);
      const id = await controller.submit({ max_retries_failure: 3, no_retry_on_exit_codes: [1] });
      await controller.play(id, { exit: 75 });
      expect(await controller.status(id)).toMatchObject({ state: "PENDING", failure_count: 1 });
      await controller.play(id, { exit: 1 });
      expect(await controller.status(id)).toMatchObject({ state: "FAILED", failure_count: 2, exit_code: 1 });
    });

    it("Global Defaults: default_max_retries_failure, default_max_retries_preemption, default_retry_delay_ms", async () => {
      const settings = { defaultMaxRetriesFailure: 2, defaultMaxRetriesPreemption: 1, defaultRetryDelayMs: 500 };
      const controller = await openController(store, settings);
      const id = await controller.submit();
      expect(await controller.status(id)).toMatchObject({ max_retries_failure: 2, max_retries_preemption: 1 });
      expect(await controller.play(id, FAIL, FAIL, FAIL)).toEqual([0, 0.5, 1]);
      const own = await controller.submit({ max_retries_failure: 0, max_retries_preemption: 7, initial_delay: 3 });
      expect(await controller.status(own)).toMatchObject({ max_retries_failure: 0, max_retries_preemption: 7 });
    });
  });

  describe("Edge Cases", () => {
    it("KILLED (via TerminateJob): no retry", async () => {
      const controller = await openController(store);
      const waiting = await controller.submit({ max_retries_failure: 3 });
      await controller.play(waiting, FAIL);
      await controller.terminate(waiting);
      const running = await controller.submit({ max_retries_failure: 3 });
      const started = await controller.start(running);
      await controller.terminate(running);
      expect(await controller.status(running)).toMatchObject({ state: "RUNNING" });
      await started.end({ signal: "SIGTERM" });
      for (const id of [waiting, running]) {
        await controller.advance(3_600_000);
        expect(await controller.status(id)).toMatchObject({ state: "KILLED", error: "Terminated by user" });
        await controller.terminate(id); // a second time, which changes nothing
        expect(await controller.status(id)).toMatchObject({ state: "KILLED" });
      }
      expect(await controller.status(running)).toMatchObject({ failure_count: 0, attempts: [{ state: "KILLED" }] });
      // The attempt that it waited for never started.
      expect(await controller.status(waiting)).toMatchObject({ current_attempt_id: 0, attempts: [{ attempt_id: 0 }] });
    });

    it("a worker lost after a termination was requested is KILLED; an unrequested kill is a failure", async () => {
      const controller = await openController(store);
      const id = await controller.submit({ max_retries_failure: 3 });
      const started = await controller.start(id);
      await controller.terminate(id);
      await started.end("gone");
      expect(await controller.status(id)).toMatchObject({ state: "KILLED", preemption_count: 0 });
      const other = await controller.submit({ max_retries_failure: 3 });
      await controller.play(other, { signal: "SIGKILL" });
      expect(await controller.status(other)).toMatchObject({ state: "PENDING", failure_count: 1 });
    });

    it('"can fail 3 times AND be preempted 100 times before final failure"', async () => {
      const controller = await openController(store);
      const id = await controller.submit({ max_retries_failure: 3, max_retries_preemption: 100 });
      const rounds = times(3, FAIL).flatMap((fail) => [fail, ...times(33, PREEMPTED)]);
      await controller.play(id, ...rounds, PREEMPTED);
      const all = { failure_count: 3, preemption_count: 100, current_attempt_id: 103 };
      expect(await controller.status(id)).toMatchObject({ ...all, state: "PENDING" });
      await controller.play(id, FAIL);
      expect(await controller.status(id)).toMatchObject({ ...all, failure_count: 4, state: "FAILED" });
      const { attempts } = await controller.status(id);
      expect(attempts.filter((each) => each.is_worker_failure)).toHaveLength(100);
      expect(attempts.map((each) => each.attempt_id)).toEqual(Array.from({ length: 104 }, (_, n) => n));
    }, 60_000);

    it("is WORKER_FAILED if the preemptions are used up", async () => {
      const controller = await openController(store);
      const id = await controller.submit({ max_retries_failure: 3, max_retries_preemption: 1 });
      await controller.play(id, FAIL, PREEMPTED, FAIL, PREEMPTED);
      expect(await controller.status(id)).toMatchObject({
        ...{ state: "WORKER_FAILED", failure_count: 2, preemption_count: 2 },
      });
    });

    it("a redrive resets the retries, and counters, ids and attempts continue", async () => {
      const controller = await openController(store);
      const id = await controller.submit({ max_retries_failure: 1, max_retries_preemption: 1 });
      await controller.play(id, PREEMPTED, FAIL, FAIL);
      expect(await controller.status(id)).toMatchObject({ state: "FAILED", failure_count: 2, preemption_count: 1 });
      await controller.engine.command(id, { kind: "redrive", by: null });
      expect(await controller.status(id)).toMatchObject({
        ...{ state: "PENDING", failure_count: 2, preemption_count: 1, current_attempt_id: 3 },
      });
      await controller.play(id, FAIL, PREEMPTED);
      expect(await controller.status(id)).toMatchObject({ state: "PENDING", failure_count: 3, preemption_count: 2 });
      await controller.play(id, PREEMPTED);
      const status = await controller.status(id);
      expect(status).toMatchObject({
        ...{ state: "WORKER_FAILED", failure_count: 3, preemption_count: 3, current_attempt_id: 5 },
        ...{ max_retries_failure: 1, max_retries_preemption: 1 },
      });
      expect(status.attempts.map(({ attempt_id }) => attempt_id)).toEqual([0, 1, 2, 3, 4, 5]);
      expect(status.attempts.filter(({ state }) => state === "FAILED")).toHaveLength(3);
      expect(status.attempts.filter(({ state }) => state === "WORKER_FAILED")).toHaveLength(3);
    });

    it("terminating a parent terminates its children, and theirs", async () => {
      const controller = await openController(store);
      const parent = await controller.submit(undefined, { name: "parent" });
      const started = await controller.start(parent);
      const child = await controller.submit({ max_retries_failure: 3 }, { name: "child", parent_job_id: parent });
      const grandchild = await controller.submit(undefined, { name: "grandchild", parent_job_id: child });
      const other = await controller.submit(undefined, { name: "other" });
      expect(await controller.status(child)).toMatchObject({ parent_job_id: parent, state: "PENDING" });
      await controller.terminate(parent);
      await started.end({ signal: "SIGTERM" });
      await controller.engine.sweepChildren();
      const states = await Promise.all([parent, child, grandchild, other].map(controller.status));
      expect(states.map(({ state }) => state)).toEqual(["KILLED", "KILLED", "KILLED", "PENDING"]);
    });
  });

  describe("scheduling_timeout_seconds", () => {
    it("UNSCHEDULABLE: not scheduled within this time; final, whatever retries are granted", async () => {
      const controller = await openController(store);
      const id = await controller.submit({ max_retries_failure: 5 }, { scheduling_timeout_seconds: 30 });
      await controller.advance(30_000);
      expect(await controller.status(id)).toMatchObject({ state: "PENDING" });
      await controller.advance(1);
      expect(await controller.status(id)).toMatchObject({
        ...{ state: "UNSCHEDULABLE", error: "Scheduling timeout exceeded (30s)", finished_at_ms: T0 + 30_001 },
        ...{ failure_count: 0, current_attempt_id: 0, attempts: [], started_at_ms: null, worker_id: null },
      });
    });

    it("fires strictly after its value: at 30 s a job is still scheduled, 1 ms later it is not", async () => {
      const controller = await openController(store);
      const [first, second] = [
        await controller.submit({}, { scheduling_timeout_seconds: 30 }),
        await controller.submit({}, { scheduling_timeout_seconds: 30 }),
      ];
      await controller.advance(30_000);
      await controller.run(first, "ok");
      expect(await controller.status(first)).toMatchObject({ state: "SUCCEEDED" });
      await controller.advance(1);
      expect(await controller.status(second)).toMatchObject({ state: "UNSCHEDULABLE" });
    });

    it("restarts with each retry, so that a job of many hours is not cut off", async () => {
      const controller = await openController(store);
      const id = await controller.submit({ max_retries_failure: 5 }, { scheduling_timeout_seconds: 30 });
      await controller.run(id, FAIL, { tookMs: 120_000 });
      expect(await controller.status(id)).toMatchObject({ state: "PENDING" });
      await controller.run(id, PREEMPTED, { tookMs: 120_000 });
      await controller.advance(31_000);
      expect(await controller.status(id)).toMatchObject({
        ...{ state: "UNSCHEDULABLE", failure_count: 1, preemption_count: 1, current_attempt_id: 1 },
      });
    });

    it("is final under the preset alone, too, and after a redrive still no failure of the job", async () => {
      const stage = await openStage(store);
      const options = { retry: { preset: "fluster", maxAttempts: 4 }, expireIn: "30s" } as const;
      const id = await stage.submit({ task: "exec", input: { argv: ["true"] }, options });
      await stage.advance(31_000);
      expect(await stage.job(id)).toMatchObject({ state: "failed", reason: "unschedulable" });
      await stage.engine.command(id, { kind: "redrive", by: null });
      await stage.run(id, FAIL);
      expect(await stage.view(flusterDialect, id)).toMatchObject({ state: "PENDING", failure_count: 1 });
      await stage.advance(60_000);
      expect(await stage.view(flusterDialect, id)).toMatchObject({
        ...{ state: "UNSCHEDULABLE", failure_count: 1, error: "Scheduling timeout exceeded (30s)" },
      });
    });

    it("0 means no timeout (wait forever)", async () => {
      const controller = await openController(store);
      const id = await controller.submit(undefined, { scheduling_timeout_seconds: 0 });
      await controller.advance(365 * 86_400_000);
      expect(await controller.status(id)).toMatchObject({ state: "PENDING" });
    });
  });

  describe("Testing Strategy", () => {
    it("Retry config propagation from request to Job", async () => {
      const controller = await openController(store);
      const id = await controller.submit({
        ...{ max_retries_failure: 7, max_retries_preemption: 8, initial_retry_delay_ms: 9, max_retry_delay_ms: 10 },
        ...{ backoff_multiplier: 1.5, retry_on_exit_codes: [11], no_retry_on_exit_codes: [12] },
      });
      expect((await controller.job(id)).policy).toMatchObject({
        ...{ maxAttempts: 8, workerLost: { maxRetries: 8 }, retryOnExitCodes: [11], noRetryOnExitCodes: [12] },
        backoff: { initialMs: 9, maxMs: 10, factor: 1.5 },
      });
      expect(await controller.status(id)).toMatchObject({ max_retries_failure: 7, max_retries_preemption: 8 });
    });

    it("Job that fails N-1 times then succeeds, after retry", async () => {
      const controller = await openController(store);
      const id = await controller.submit({ max_retries_failure: 5 });
      await controller.play(id, ...times(5, FAIL), "ok");
      expect(await controller.status(id)).toMatchObject({ state: "SUCCEEDED", failure_count: 5, exit_code: 0 });
    });

    it("Job that exceeds retry limit", async () => {
      const controller = await openController(store);
      const id = await controller.submit({ max_retries_failure: 2 });
      await controller.play(id, ...times(3, FAIL));
      expect(await controller.status(id)).toMatchObject({ state: "FAILED", failure_count: 3, current_attempt_id: 2 });
    });

    it("Preemption retry (worker timeout)", async () => {
      const controller = await openController(store);
      const id = await controller.submit();
      await controller.play(id, "lost", "ok");
      expect(await controller.status(id)).toMatchObject({ state: "SUCCEEDED", failure_count: 0, preemption_count: 1 });
    });

    it("Succeeded after several attempts: failures and preemptions, by the attempts", async () => {
      const controller = await openController(store);
      const id = await controller.submit({ max_retries_failure: 5 });
      await controller.play(id, FAIL, PREEMPTED, FAIL, "ok");
      const { failure_count, attempts } = await controller.status(id);
      expect([failure_count + 1, attempts.length]).toEqual([3, 4]); // the document includes the first attempt
    });
  });
});
