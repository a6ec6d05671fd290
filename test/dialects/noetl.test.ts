/** NoETL's document "Event-Driven Retry Architecture", section by section: quoted lines are from the document. Where it
 *  contradicts itself, the test names the rule that Perdure follows; docs/internals/dialects.md lists all rules. */
import { describe, expect, it } from "vitest";
import { failure } from "../../src/core/decision/failure.ts";
import { noetl } from "../../src/dialects/noetl/dialect.ts";
import { noetlTimeline } from "../../src/dialects/noetl/view.ts";
import { VIRTUAL_START } from "../../src/testing/virtual-clock.ts";
import { readYaml } from "../../src/yaml/read.ts";
import { openStage, readContext, STORES, type Stage } from "./kit.ts";
import { answer, events, fetchData, line, types, UNAVAILABLE, UNREACHABLE } from "./noetl-kit.ts";

describe.each(STORES)("NoETL's document, on %s", (store) => {
  async function apply(document: string | object, options = {}): Promise<{ stage: Stage; id: string }> {
    const stage = await openStage(store, options);
    const [id = ""] = await stage.apply(noetl, document);
    return { stage, id };
  }

  /** Lets all attempts fail; returns the delays between them in seconds, and the reason of the job. */
  async function failing(retry: string, options = {}): Promise<{ delays: number[]; reason: string | null }> {
    const { stage, id } = await apply(fetchData(retry), options);
    const delays: number[] = [];
    for (;;) {
      const job = await stage.run(id, UNAVAILABLE);
      if (job.state !== "queued") return { delays, reason: job.reason };
      delays.push((job.runAt - stage.clock.now()) / 1_000);
    }
  }

  describe("Event Timeline Example", () => {
    it("a task that succeeds with its third attempt", async () => {
      const { stage, id } = await apply(fetchData("true"));
      for (const delay of [1_000, 2_000]) {
        await stage.run(id, UNAVAILABLE);
        await stage.advance(delay - 1);
        expect(await stage.isGiven(id), "before available_at").toBe(false);
      }
      await stage.run(id, answer(200, { n: 1 }));
      const shown = await events(stage, id);
      expect(shown.map(line)).toEqual([
        "action_started (attempt=1)",
        'action_error (attempt=1, error="503 Service Unavailable")',
        "step_retry (attempt=1, delay=1.0s)",
        "action_started (attempt=2)",
        'action_error (attempt=2, error="503 Service Unavailable")',
        "step_retry (attempt=2, delay=2.0s)",
        "action_started (attempt=3)",
        "action_completed (attempt=3, success=True)",
        "step_completed",
      ]);
      expect(noetlTimeline(shown).rows.map(([n, , , text]) => `${n} ${text}`.trim())).toEqual([
        "1. action_started (attempt=1)",
        '2. action_error (attempt=1, error="503 Service Unavailable")',
        "3. step_retry (attempt=1, delay=1.0s)",
        "[wait 1 second]",
        "4. action_started (attempt=2)",
        '5. action_error (attempt=2, error="503 Service Unavailable")',
        "6. step_retry (attempt=2, delay=2.0s)",
        "[wait 2 seconds]",
        "7. action_started (attempt=3)",
        "8. action_completed (attempt=3, success=True)",
        "9. step_completed",
      ]);
      const starts = shown.filter(({ event_type }) => event_type === "action_started");
      expect(starts.map(({ timestamp }) => Date.parse(timestamp) - VIRTUAL_START)).toEqual([0, 1_000, 3_000]);
      expect(shown.at(-2)).toMatchObject({ status: "COMPLETED", result: { status_code: 200, body: { n: 1 } } });
      expect(shown.at(-1)).toMatchObject({ status: "COMPLETED", result: { status_code: 200 }, error: null });
    });

    it("if all attempts fail", async () => {
      const { stage, id } = await apply(fetchData("3"));
      for (let run = 1; run <= 3; run++) await stage.run(id, UNAVAILABLE);
      const shown = await events(stage, id);
      expect(shown.map(line)).toEqual([
        "action_started (attempt=1)",
        'action_error (attempt=1, error="503 Service Unavailable")',
        "step_retry (attempt=1, delay=1.0s)",
        "action_started (attempt=2)",
        'action_error (attempt=2, error="503 Service Unavailable")',
        "step_retry (attempt=2, delay=2.0s)",
        "action_started (attempt=3)",
        'action_error (attempt=3, error="503 Service Unavailable")',
        "step_retry_exhausted (attempts=3, max_attempts=3)",
        "step_failed_terminal",
        "execution_failed",
      ]);
      expect(shown.slice(-3).map(({ status, error }) => [status, error])).toEqual(
        Array(3).fill(["FAILED", "503 Service Unavailable"]),
      );
      expect(shown.at(-3)?.context).toEqual({ attempts: 3, max_attempts: 3 });
      expect(shown.at(-2)?.context).toEqual({ attempt: 3, reason: "exhausted", decided_by: "max_attempts" });
      expect(await stage.job(id)).toMatchObject({ state: "failed", reason: "exhausted", attempt: 3 });
    });

    it("each event has the same keys, and the contexts of the code", async () => {
      const { stage, id } = await apply(fetchData("{ max_attempts: 5 }"));
      await stage.run(id, UNAVAILABLE);
      await stage.run(id, answer(200));
      const shown = await events(stage, id);
      const node = { execution_id: id, node_id: "fetch_data", node_name: "fetch_data", node_type: "http" };
      for (const event of shown) {
        expect(Object.keys(event).sort()).toEqual(
          [...Object.keys(node), "event_id", "event_type", "status", "context", "result", "error", "timestamp"].sort(),
        );
        expect(event).toMatchObject(node);
      }
      const [first, failed, retry, second] = shown;
      expect(first).toMatchObject({ event_type: "action_started", status: "STARTED", result: null, error: null });
      expect(first?.context.retry).toEqual({ attempt: 1, max_attempts: 5, is_retry: false });
      expect(failed).toMatchObject({ status: "FAILED", context: { attempt: 1, status_code: 503 } });
      expect(retry).toMatchObject({ event_type: "step_retry", status: "PENDING" });
      // The attempt that failed, and the next (D3); the document's code says `attempts + 1`.
      expect(retry?.context).toEqual({
        ...{ attempt: 1, next_attempt: 2, max_attempts: 5, delay_seconds: 1 },
        last_error: "503 Service Unavailable",
      });
      expect(second?.context.retry).toEqual({ attempt: 2, max_attempts: 5, is_retry: true });
    });
  });

  describe("Full Retry Configuration", () => {
    const FULL = `
workflow:
  - step: fetch_data
    type: http
    url: https://api.example.com/data
    retry:
      max_attempts: 5
      initial_delay: 1.0
      backoff_multiplier: 2.0
      max_delay: 60.0
      jitter: true
      retry_when: "{{ status_code >= 500 or error != None }}"
      stop_when: "{{ status_code == 200 and success == True }}"
    next:
      - step: process_data
`;

    it("is read unchanged, with a note that nothing follows", () => {
      const { jobs, notes } = noetl.read(readYaml(FULL, "full.yaml").value, readContext());
      expect(notes).toEqual([expect.stringContaining('"process_data" is not in this file')]);
      expect(jobs[0]?.options?.retry).toEqual({
        preset: "noetl",
        maxAttempts: 5,
        backoff: { type: "exponential", initial: 1_000, factor: 2, max: 60_000, jitter: true },
        retryWhen: "{{ status_code >= 500 or error != None }}",
        stopWhen: "{{ status_code == 200 and success == True }}",
      });
    });

    it("runs five times in all", async () => {
      const { stage, id } = await apply(FULL);
      const waits: number[] = [];
      for (let run = 1; run < 5; run++) {
        const job = await stage.run(id, UNAVAILABLE);
        waits.push(job.runAt - stage.clock.now());
      }
      expect(waits).toEqual([1_000, 2_000, 4_000, 8_000]);
      expect(await stage.run(id, UNAVAILABLE)).toMatchObject({ state: "failed", reason: "exhausted", attempt: 5 });
    });

    it("an answer of 200 ends it", async () => {
      const { stage, id } = await apply(FULL);
      expect(await stage.run(id, answer(200))).toMatchObject({ state: "succeeded", attempt: 1 });
    });

    it("a network error without a status code is retried: a missing value compares false and does not raise (D8)", async () => {
      const { stage, id } = await apply(FULL);
      expect(await stage.run(id, UNREACHABLE)).toMatchObject({ state: "queued", failures: 1 });
      expect(await stage.run(id, { error: "404 Not Found", status: 404 })).toMatchObject({ state: "queued" });
    });

    it("jitter multiplies each delay by 0.5 to below 1.5 (A5), after the cap (A6)", async () => {
      const retry = "{ max_attempts: 4, initial_delay: 1, max_delay: 2 }";
      expect((await failing(retry, { random: () => 0 })).delays).toEqual([0.5, 1, 1]);
      expect((await failing(retry, { random: () => 0.5 })).delays).toEqual([1, 2, 2]);
      const { delays } = await failing(retry, { random: () => 0.999_999 });
      expect(delays).toEqual([1.5, 3, 3]); // rounded to milliseconds
      expect((await failing("{ jitter: false }", { random: () => 0 })).delays).toEqual([1, 2]);
    });

    it("max_delay caps the backoff", async () => {
      const { delays } = await failing("{ max_attempts: 9, jitter: false }");
      expect(delays).toEqual([1, 2, 4, 8, 16, 32, 60, 60]);
      const slow = "{ max_attempts: 5, initial_delay: 0.5, backoff_multiplier: 3, max_delay: 10 }";
      expect((await failing(slow)).delays).toEqual([0.5, 1.5, 4.5, 10]);
    });
  });

  describe("Simplified Retry Configuration", () => {
    it("retry: true (use defaults)", async () => {
      expect(await failing("true")).toEqual({ delays: [1, 2], reason: "exhausted" });
    });

    it("retry: 3 (max attempts only)", async () => {
      expect(await failing("3")).toEqual({ delays: [1, 2], reason: "exhausted" });
      expect(await failing("5")).toEqual({ delays: [1, 2, 4, 8], reason: "exhausted" });
      expect(await failing("1")).toEqual({ delays: [], reason: "exhausted" });
    });

    it("minimal config: max_attempts 5, retry_when status_code >= 500", async () => {
      const minimal = '{ max_attempts: 5, retry_when: "{{ status_code >= 500 }}" }';
      expect(await failing(minimal)).toEqual({ delays: [1, 2, 4, 8], reason: "exhausted" });
      const { stage, id } = await apply(fetchData(minimal));
      expect(await stage.run(id, { error: "404 Not Found", status: 404 })).toMatchObject({ reason: "rejected" });
    });

    it("no retry configured: a terminal failure, and nothing was exhausted", async () => {
      for (const retry of ["false", ""]) {
        const { stage, id } = await apply(fetchData(retry));
        await stage.run(id, UNAVAILABLE);
        const shown = await events(stage, id);
        expect(shown.map(({ event_type }) => event_type)).toEqual([
          ...["action_started", "action_error", "step_failed_terminal", "execution_failed"],
        ]);
        expect(shown.at(-1)?.context).toEqual({ reason: "no_retry_configured" });
      }
    });
  });

  describe("Retry Context Variables", () => {
    /** Whether an attempt with this outcome is retried under this condition. */
    async function retries(condition: string, play: Parameters<Stage["run"]>[1]): Promise<boolean> {
      const { stage, id } = await apply(fetchData(JSON.stringify({ max_attempts: 3, retry_when: condition })));
      return (await stage.run(id, play)).state === "queued";
    }

    it.each<[string, string, Parameters<Stage["run"]>[1], boolean]>([
      ["result: full task result dictionary", "{{ result.body.n == 7 }}", answer(200, { n: 7 }), true],
      ["result: what is known of a failure", "{{ result.status_code == 503 }}", UNAVAILABLE, true],
      ["result: its error, too", "{{ '503' in result.error and not result.success }}", UNAVAILABLE, true],
      ["result: no status without an answer", "{{ result.status_code is none }}", UNREACHABLE, true],
      ["data is None after a failure (D15)", "{{ data == None }}", UNAVAILABLE, true],
      ["status_code of an error", "{{ status_code == 503 }}", UNAVAILABLE, true],
      ["status_code of a completed action: polling (D5)", "{{ status_code == 202 }}", answer(202), true],
      ["another status_code ends the polling", "{{ status_code == 202 }}", answer(200), false],
      ["status_code is None without an answer", "{{ status_code is none }}", UNREACHABLE, true],
      ["error: error message if task failed", "{{ '503' in error }}", UNAVAILABLE, true],
      ["error is None for one that completed", "{{ error == None and status_code == 202 }}", answer(202), true],
      ["success is False after a failure", "{{ success == False }}", UNAVAILABLE, true],
      ["success is True for one that completed", "{{ success == True and status_code == 202 }}", answer(202), true],
      ["data: task result data", "{{ data is defined and data != None }}", answer(200, { n: 7 }), true],
      ["attempt: current attempt number", "{{ attempt == 1 }}", UNAVAILABLE, true],
      ["execution_id: current execution ID", "{{ 'job_' in execution_id }}", UNAVAILABLE, true],
      ["node_id: current step/node ID", "{{ node_id == 'fetch_data' }}", UNAVAILABLE, true],
      ["node_id is not the kind of the job", "{{ node_id == 'http' }}", UNAVAILABLE, false],
      [
        "a missing value is neither less nor more (D8)",
        "{{ status_code >= 5 or status_code < 5 }}",
        UNREACHABLE,
        false,
      ],
      ["a missing member is no error", "{{ result.a.b.c > 1 }}", UNAVAILABLE, false],
    ])("%s", async (_, condition, play, expected) => {
      expect(await retries(condition, play)).toBe(expected);
    });

    it("attempt counts on", async () => {
      const retry = '{ max_attempts: 5, retry_when: "{{ attempt < 3 }}" }';
      const { stage, id } = await apply(fetchData(retry));
      for (let run = 1; run < 3; run++) await stage.run(id, UNAVAILABLE);
      expect(await stage.run(id, UNAVAILABLE)).toMatchObject({ state: "failed", reason: "rejected", attempt: 3 });
    });
  });

  describe("RetryEvaluator.should_retry", () => {
    it("a condition that is false is terminal, without step_retry_exhausted (D2)", async () => {
      const { stage, id } = await apply(fetchData('{ retry_when: "{{ status_code >= 500 }}" }'));
      await stage.run(id, { error: "404 Not Found", status: 404 });
      const shown = await events(stage, id);
      expect(shown.map(({ event_type }) => event_type)).toEqual([
        ...["action_started", "action_error", "step_failed_terminal", "execution_failed"],
      ]);
      expect(shown.at(-2)).toMatchObject({
        context: { attempt: 1, reason: "rejected", decided_by: "retry_when" },
        error: "404 Not Found",
      });
      expect(shown.at(-1)?.context).toEqual({ reason: "rejected" });
    });

    it("stop_when ends retrying: retry if retry_when and not stop_when, in whatever order (D7)", async () => {
      const retry = '{ retry_when: "{{ error != None }}", stop_when: "{{ status_code == 404 }}" }';
      const { stage, id } = await apply(fetchData(retry));
      expect(await stage.run(id, UNAVAILABLE)).toMatchObject({ state: "queued" });
      expect(await stage.run(id, { error: "404 Not Found", status: 404 })).toMatchObject({ reason: "rejected" });
      expect((await events(stage, id)).at(-2)?.context).toMatchObject({ decided_by: "stop_when" });
    });

    it("stop_when alone leaves other errors to be retried (D6)", async () => {
      const { stage, id } = await apply(fetchData('{ stop_when: "{{ status_code == 404 }}" }'));
      expect(await stage.run(id, UNAVAILABLE)).toMatchObject({ state: "queued" });
      expect(await stage.run(id, answer(200))).toMatchObject({ state: "succeeded" });
    });

    it.each(["retry_when", "stop_when"])("an error in %s means no retry, and is on the event (D7)", async (field) => {
      const { stage, id } = await apply(fetchData(`{ ${field}: "{{ error / 2 > 1 }}" }`));
      expect(await stage.run(id, UNAVAILABLE)).toMatchObject({ state: "failed", reason: "rejected" });
      expect((await events(stage, id)).at(-2)?.context).toMatchObject({
        ...{ decided_by: field, condition_error: "cannot calculate text / a number" },
      });
    });

    it("a completed action is judged only where retry_when is given (D5)", async () => {
      const { stage, id } = await apply(fetchData("3"));
      expect(await stage.run(id, answer(202))).toMatchObject({ state: "succeeded" });
    });

    it("polling: action_completed and step_retry until it is done", async () => {
      const { stage, id } = await apply(fetchData('{ retry_when: "{{ status_code == 202 }}" }'));
      await stage.run(id, answer(202, "not yet"));
      await stage.run(id, answer(200, "there"));
      const shown = await events(stage, id);
      expect(shown.map(line)).toEqual([
        "action_started (attempt=1)",
        "action_completed (attempt=1, success=True)",
        "step_retry (attempt=1, delay=1.0s)",
        "action_started (attempt=2)",
        "action_completed (attempt=2, success=True)",
        "step_completed",
      ]);
      expect(shown[2]?.context.last_error).toBe("the result matched retry_when");
      expect(shown[4]?.result).toMatchObject({ body: "there" });
    });

    it("polling without an end is exhausted", async () => {
      const { stage, id } = await apply(fetchData('{ max_attempts: 2, retry_when: "{{ status_code == 202 }}" }'));
      await stage.run(id, answer(202));
      expect(await stage.run(id, answer(202))).toMatchObject({ state: "failed", reason: "exhausted" });
      expect((await types(stage, id)).slice(-4)).toEqual([
        ...["action_completed", "step_retry_exhausted", "step_failed_terminal", "execution_failed"],
      ]);
    });

    it("stop_when gives up a poll, which is a failure: it is not done yet", async () => {
      const retry = '{ max_attempts: 9, retry_when: "{{ status_code == 202 }}", stop_when: "{{ attempt >= 2 }}" }';
      const { stage, id } = await apply(fetchData(retry));
      await stage.run(id, answer(202));
      expect(await stage.run(id, answer(202))).toMatchObject({ state: "failed", reason: "rejected", attempt: 2 });
    });
  });

  describe("noetl.queue", () => {
    it("enqueue_retry: queued again, with available_at, retry_delay_seconds and last_error, and no worker", async () => {
      const { stage, id } = await apply(
        fetchData("{ max_attempts: 5, retry_when: \"{{ error != None and node_id != 'x' }}\" }"),
      );
      const row = {
        ...{ execution_id: id, node_id: "fetch_data", node_name: "fetch_data", node_type: "http" },
        ...{ status: "queued", attempts: 0, max_attempts: 5, available_at: "2030-01-01T00:00:00.000Z" },
        ...{ retry_delay_seconds: null, last_error: null, worker_id: null, lease_until: null },
        retry_config: {
          ...{ max_attempts: 5, initial_delay: 1, backoff_multiplier: 2, max_delay: 60, jitter: true },
          ...{ retry_when: "{{ error != None and node_id != 'x' }}", stop_when: null },
        },
        ...{ result: null, created_at: "2030-01-01T00:00:00.000Z", updated_at: "2030-01-01T00:00:00.000Z" },
      };
      expect(await stage.view(noetl, id)).toEqual(row);

      const started = await stage.start(id, { worker: "worker-7" });
      const leased = { ...row, status: "leased", attempts: 1, worker_id: "worker-7" };
      expect(await stage.view(noetl, id)).toEqual(leased);

      await started.end(UNAVAILABLE, { tookMs: 500 });
      const waiting = {
        ...{ ...row, attempts: 1, available_at: "2030-01-01T00:00:01.500Z", retry_delay_seconds: 1 },
        ...{ last_error: "503 Service Unavailable", updated_at: "2030-01-01T00:00:00.500Z" },
      };
      expect(await stage.view(noetl, id)).toEqual(waiting);

      await stage.run(id, answer(200));
      expect(await stage.view(noetl, id)).toMatchObject({
        ...{ status: "done", attempts: 2, result: { status_code: 200 }, worker_id: "worker-1" },
        last_error: "503 Service Unavailable",
      });
    });

    it("queue-based retry prevents thundering herd: tasks that fail together come back apart, each when it is due", async () => {
      let draws = 0;
      const random = () => (draws++ % 10) / 10;
      const stage = await openStage(store, { random });
      const [entry] = noetl.read(readYaml(fetchData("true"), "herd.yaml").value, readContext()).jobs;
      const { task, input, options } = entry as NonNullable<typeof entry>;
      const ids: string[] = [];
      for (let n = 0; n < 10; n++)
        ids.push(await stage.submit({ task, input, options: { ...options, queue: "herd" } }));
      const session = await stage.engine.openSession({
        ...{
          namespace: "default",
          name: "w",
          host: "h",
          pid: 1,
          kinds: [task],
          queues: ["herd"],
          labels: {},
          slots: 20,
        },
      });
      const claim = async () => (await stage.engine.claim(session, { limit: 20 })).jobs;
      const outcome = { kind: "failed", failure: failure({ kind: "http", message: "503", status: 503 }) } as const;
      const first = await claim();
      expect(first).toHaveLength(10);
      await stage.engine.report(
        first.map(({ id: jobId, attempt, token }) => {
          const from = { kind: "worker", token, reportId: jobId } as const;
          return { jobId, attempt, from, outcome, usage: null, log: null };
        }),
      );
      // A worker with enough slots for all of them gets one at a time, in the order of their due times.
      const due = (await Promise.all(ids.map((id) => stage.job(id)))).map(({ runAt }) => runAt - VIRTUAL_START);
      expect([...new Set(due)].sort((a, b) => a - b)).toEqual([
        500, 600, 700, 800, 900, 1_000, 1_100, 1_200, 1_300, 1_400,
      ]);
      expect(await claim()).toEqual([]);
      const herds: number[] = [];
      await stage.advance(400);
      for (let at = 500; at <= 1_400; at += 100) {
        await stage.advance(100);
        const jobs = await claim();
        herds.push(jobs.length);
        for (const { id } of jobs) expect(await stage.job(id)).toMatchObject({ runAt: VIRTUAL_START + at, attempt: 2 });
      }
      expect(herds).toEqual(Array(10).fill(1));
    });

    it("4b: status = 'dead'", async () => {
      const { stage, id } = await apply(fetchData("2"));
      await stage.run(id, UNAVAILABLE);
      await stage.run(id, UNREACHABLE);
      expect(await stage.view(noetl, id)).toMatchObject({
        ...{ status: "dead", attempts: 2, max_attempts: 2, retry_delay_seconds: 1, last_error: "connect ECONNREFUSED" },
      });
    });

    it("only a start counts an attempt: max_attempts 3 is three runs (D1, D10)", async () => {
      const { stage, id } = await apply(fetchData("3"));
      const attempts: number[] = [];
      for (let run = 1; run <= 3; run++) {
        const started = await stage.start(id);
        attempts.push((await stage.view(noetl, id)).attempts);
        await started.end(UNAVAILABLE);
        attempts.push((await stage.view(noetl, id)).attempts);
      }
      expect(attempts).toEqual([1, 1, 2, 2, 3, 3]);
    });

    it("a lease that expires goes through the same decision: a poison job does not loop (D11)", async () => {
      const { stage, id } = await apply(fetchData("2"));
      expect(await stage.run(id, "lost")).toMatchObject({ state: "queued", losses: 1 });
      expect(await stage.run(id, "gone")).toMatchObject({ state: "failed", reason: "lost" });
      const shown = await events(stage, id);
      expect(shown.map(line)).toEqual([
        "action_started (attempt=1)",
        'action_error (attempt=1, error="worker lost: lease expired")',
        "step_retry (attempt=1, delay=1.0s)",
        "action_started (attempt=2)",
        'action_error (attempt=2, error="worker lost: worker gone")',
        "step_retry_exhausted (attempts=2, max_attempts=2)",
        "step_failed_terminal",
        "execution_failed",
      ]);
      expect(shown[1]?.context).toEqual({ attempt: 1, reason: "worker_lost", why: "lease_expired" });
      expect(await stage.view(noetl, id)).toMatchObject({ status: "dead", last_error: "worker lost: worker gone" });
    });
  });
});
