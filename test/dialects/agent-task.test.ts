/** The AgentTask document on retry semantics as tests, with the real engine on both stores. Where Perdure differs from
 *  the document, the test names the note. */
import { describe, expect, it } from "vitest";
import { classify } from "../../src/core/decision/classify.ts";
import { failure } from "../../src/core/decision/failure.ts";
import { testJob, testRule } from "../../src/core/job/testing-job.ts";
import type { JobInfo } from "../../src/core/job/views.ts";
import { presets } from "../../src/core/policy/presets.ts";
import { policyFromJson } from "../../src/core/policy/resolve-policy.ts";
import { agentTask } from "../../src/dialects/agent-task/dialect.ts";
import { type AgentEvent, agentTaskEvents } from "../../src/dialects/agent-task/events.ts";
import { agentChildren } from "../../src/dialects/agent-task/view.ts";
import type { ReadContext } from "../../src/dialects/dialect.ts";
import { DIALECT_DEFAULTS } from "../../src/dialects/settings.ts";
import { openStage, type Play, STORES, type Stage } from "./kit.ts";

const manifest = (spec: object, name = "summarise") => ({
  ...{ apiVersion: "core.hortator.ai/v1alpha1", kind: "AgentTask", metadata: { name } },
  spec: { prompt: "Summarise the report.", command: ["/opt/agent"], ...spec },
});

async function apply(stage: Stage, spec: object, context?: Partial<ReadContext>): Promise<string> {
  const [id] = await stage.apply(agentTask, manifest(spec), context);
  return id as string;
}

/** Runs the job until it ends, each attempt with the same outcome; returns the seconds it waited before each retry. */
async function exhaust(stage: Stage, id: string, play: Play): Promise<{ job: JobInfo; waited: number[] }> {
  const waited: number[] = [];
  for (;;) {
    const before = stage.clock.now();
    const job = await stage.run(id, play, { tookMs: 0 });
    const ended = Math.max(before, stage.clock.now());
    if (job.state !== "queued") return { job, waited };
    waited.push((job.runAt - ended) / 1_000);
  }
}

const events = async (stage: Stage, id: string) => {
  const shown = agentTaskEvents(await stage.parts(id));
  return shown.map(({ type, reason }: AgentEvent) => `${type}/${reason}`);
};

const RETRY = { maxAttempts: 3, backoffSeconds: 30, maxBackoffSeconds: 300 };

describe.each(STORES)("AgentTask on %s", (store) => {
  describe("Classification", () => {
    it.each<[string, Play, string]>([
      ["Sidecar race, network error: exit code != 0", { exit: 1 }, "transient: pod failed without result.json"],
      ["OOMKilled", "oom", "transient: OOMKilled"],
      ["timeout", "timeout", "transient: timeout"],
      ["a pod that is killed", { signal: "SIGTERM" }, "transient: pod failed without result.json"],
      ["a worker that is lost", "lost", "transient: worker lost"],
    ])("Transient, auto-retry: %s", async (_name, play, reason) => {
      const stage = await openStage(store);
      const id = await apply(stage, { retry: RETRY, timeout: 60 });
      await stage.run(id, play);
      expect((await stage.view(agentTask, id)).status).toMatchObject({
        ...{ phase: "Retrying", attempts: 1, history: [{ attempt: 1, reason }] },
      });
      await stage.run(id, "ok");
      expect((await stage.view(agentTask, id)).status).toMatchObject({ phase: "Completed", attempts: 2 });
    });

    it.each(["I can't do this", "bad prompt", "API auth error"])(
      "Logical, no retry: the agent writes status: failed in result.json (%s)",
      async (words) => {
        const stage = await openStage(store);
        const id = await apply(stage, { retry: RETRY });
        const job = await stage.run(id, { logical: words });
        expect(job).toMatchObject({ state: "failed", reason: "rejected" });
        expect((await stage.view(agentTask, id)).status).toMatchObject({
          ...{ phase: "Failed", attempts: 1, lastFailureReason: words, message: words },
          history: [{ attempt: 1, exitCode: 0, reason: `logical: ${words}` }],
        });
      },
    );

    it("Budget, no retry: maxCostUsd hit", async () => {
      const stage = await openStage(store);
      const id = await apply(stage, { retry: RETRY, budget: { maxCostUsd: 0.5 } });
      const usage = { tokensIn: 1_000, tokensOut: 200, costUsd: 0.5 };
      const job = await stage.run(id, { exit: 1 }, { usage });
      expect(job).toMatchObject({ state: "failed", reason: "budget" });
      expect((await stage.view(agentTask, id)).status).toMatchObject({
        ...{ phase: "BudgetExceeded", attempts: 1, usage },
        history: [{ exitCode: 1, reason: "budget: maxCostUsd exceeded" }],
      });
    });
  });

  describe("How the operator distinguishes them", () => {
    it("1. non-zero exit code and no result.json: transient, retry", async () => {
      const stage = await openStage(store);
      const id = await apply(stage, { retry: RETRY });
      await stage.run(id, { exit: 7, stderr: "entrypoint crash" });
      const { status } = await stage.view(agentTask, id);
      expect(status).toMatchObject({
        ...{ phase: "Retrying", lastFailureReason: "exit code 7: entrypoint crash" },
        history: [{ exitCode: 7, reason: "transient: pod failed without result.json" }],
      });
    });

    it.each([0, 1])("2. result.json with status: failed: logical, no retry, with exit code %i", async (exitCode) => {
      const stage = await openStage(store);
      const id = await apply(stage, { retry: RETRY });
      // Note F2: the reported result decides, whatever the exit code.
      const said = failure({ kind: "result", class: "logical", message: "no such file", exitCode });
      await settle(stage, id, { kind: "failed", failure: said });
      expect((await stage.view(agentTask, id)).status).toMatchObject({
        ...{ phase: "Failed", history: [{ exitCode, reason: "logical: no such file" }] },
      });
    });

    it("3. result.json with status: completed: success, done", async () => {
      const stage = await openStage(store);
      const id = await apply(stage, { retry: RETRY });
      await stage.run(id, { ok: { exitCode: 1, output: { pages: 3 }, outputs: [] } });
      expect((await stage.view(agentTask, id)).status).toMatchObject({
        ...{ phase: "Completed", attempts: 1, output: { pages: 3 } },
        history: [{ attempt: 1, exitCode: 1, reason: "completed" }],
      });
    });

    it("4. exceeds timeout: transient, retry (up to limit); then TimedOut (note A9)", async () => {
      const stage = await openStage(store);
      const id = await apply(stage, { retry: { maxAttempts: 2 }, timeout: "2m" });
      await stage.run(id, "timeout");
      expect((await stage.view(agentTask, id)).status).toMatchObject({ phase: "Retrying" });
      await stage.run(id, "timeout");
      const { spec, status } = await stage.view(agentTask, id);
      expect(spec.timeout).toBe(120);
      expect(status).toMatchObject({
        ...{ phase: "TimedOut", attempts: 2 },
        history: [{ reason: "transient: timeout" }, { reason: "transient: timeout" }],
      });
    });

    it("5. budget exceeded, reported by the runtime: budget, no retry", async () => {
      const stage = await openStage(store);
      const id = await apply(stage, { retry: RETRY, budget: { maxTokens: 1_000 } });
      await stage.run(id, { exit: 1 }, { usage: { tokensIn: 600, tokensOut: 400, costUsd: 0 } });
      expect((await stage.view(agentTask, id)).status).toMatchObject({
        ...{ phase: "BudgetExceeded", history: [{ reason: "budget: maxTokens exceeded" }] },
      });
    });
  });

  describe("CRD changes", () => {
    it("spec.retry as in the document", async () => {
      const stage = await openStage(store);
      const [id] = await stage.apply(
        agentTask,
        `apiVersion: core.hortator.ai/v1alpha1
kind: AgentTask
metadata:
  name: example
spec:
  prompt: Do it.
  command: [/opt/agent]
  retry:
    maxAttempts: 3        # default: 0 (no retry)
    backoffSeconds: 30    # initial backoff, doubles each attempt
    maxBackoffSeconds: 300 # cap
`,
      );
      const { job, waited } = await exhaust(stage, id as string, { exit: 1 });
      // Note A1: maxAttempts counts attempts, the first included.
      expect(job).toMatchObject({ state: "failed", reason: "exhausted", attempt: 3 });
      expect(waited).toEqual([30, 60]);
      expect((await stage.view(agentTask, id as string)).spec.retry).toEqual(RETRY);
    });

    it.each([[{}], [{ retry: { maxAttempts: 0 } }], [{ retry: { maxAttempts: 1 } }]])(
      "maxAttempts default: 0 (no retry): %j is one run (note F9)",
      async (spec) => {
        const stage = await openStage(store);
        const id = await apply(stage, spec);
        const { job, waited } = await exhaust(stage, id, { exit: 1 });
        expect([job.state, job.attempt, waited]).toEqual(["failed", 1, []]);
        expect((await stage.view(agentTask, id)).status.phase).toBe("Failed");
      },
    );

    it("defaults of the others: 30 s, and 300 s as a cap", async () => {
      const stage = await openStage(store);
      const id = await apply(stage, { retry: { maxAttempts: 6 } });
      expect((await exhaust(stage, id, { exit: 1 })).waited).toEqual([30, 60, 120, 240, 300]);
    });

    it("status additions: the sample, second for second", async () => {
      const startAt = Date.parse("2026-02-09T19:20:00Z");
      // Its second attempt starts 34 s after the first failed: 30 s plus 13 % jitter.
      const stage = await openStage(store, { startAt, random: () => 0.5 + (34 / 30 - 1) * 2 });
      const id = await apply(stage, { retry: RETRY });
      expect((await stage.view(agentTask, id)).status).toEqual({
        ...{ phase: "Pending", attempts: 0, message: "waiting for a worker", history: [] },
      });
      const first = await stage.start(id);
      expect((await stage.view(agentTask, id)).status).toMatchObject({ phase: "Running", attempts: 1, history: [] });
      await first.end({ exit: 7, stderr: "entrypoint crash" }, { tookMs: 176_000 });
      const failed = {
        lastFailureReason: "exit code 7: entrypoint crash",
        lastFailureTime: "2026-02-09T19:22:56Z",
      };
      expect((await stage.view(agentTask, id)).status).toMatchObject({
        ...{ phase: "Retrying", attempts: 1, nextRetryTime: "2026-02-09T19:23:30Z", ...failed },
        message: "attempt 1 failed: exit code 7: entrypoint crash; retries left: 2",
      });
      await stage.run(id, "ok", { tookMs: 90_000 });
      const { status, metadata } = await stage.view(agentTask, id);
      expect(metadata).toEqual({ name: "summarise", uid: id, creationTimestamp: "2026-02-09T19:20:00Z" });
      expect(status).toEqual({
        ...{ phase: "Completed", attempts: 2, message: "completed in attempt 2", ...failed },
        history: [
          {
            ...{ attempt: 1, startTime: "2026-02-09T19:20:00Z", endTime: "2026-02-09T19:22:56Z", exitCode: 7 },
            reason: "transient: pod failed without result.json",
          },
          {
            ...{ attempt: 2, startTime: "2026-02-09T19:23:30Z", endTime: "2026-02-09T19:25:00Z", exitCode: 0 },
            reason: "completed",
          },
        ],
      });
    });
  });

  describe("Operator logic", () => {
    it("backoff = min(backoffSeconds * 2^(attempts-1), maxBackoffSeconds): 30, 60, 120, 240, 300, 300", async () => {
      const stage = await openStage(store);
      const id = await apply(stage, { retry: { ...RETRY, maxAttempts: 7 } });
      // Note F1: the attempt is counted first, so the first backoff is the base and not half of it.
      expect((await exhaust(stage, id, { exit: 1 })).waited).toEqual([30, 60, 120, 240, 300, 300]);
    });

    it("the cap holds from the first retry on (note F6)", async () => {
      const stage = await openStage(store);
      const id = await apply(stage, { retry: { maxAttempts: 3, backoffSeconds: 30, maxBackoffSeconds: 10 } });
      expect((await exhaust(stage, id, { exit: 1 })).waited).toEqual([10, 10]);
    });

    it("a retry never comes back at once: 1 s at least (note A7)", async () => {
      const stage = await openStage(store);
      const id = await apply(stage, { retry: { maxAttempts: 3, backoffSeconds: 0, maxBackoffSeconds: 0 } });
      expect((await exhaust(stage, id, { exit: 1 })).waited).toEqual([1, 1]);
    });

    it("while now < nextRetryTime no worker gets it", async () => {
      const stage = await openStage(store);
      const id = await apply(stage, { retry: RETRY });
      const job = await stage.run(id, { exit: 1 });
      await stage.advance(29_999);
      const { kind, queue, labels } = job;
      const session = await stage.engine.openSession({
        ...{ namespace: "default", name: "early", host: "h", pid: 1, slots: 1 },
        ...{ kinds: [kind], queues: [queue], labels },
      });
      expect((await stage.engine.claim(session, { limit: 1 })).jobs).toEqual([]);
      await stage.advance(1);
      expect((await stage.engine.claim(session, { limit: 1 })).jobs).toHaveLength(1);
    });

    it("after nextRetryTime the phase is no longer Retrying: it is Pending until a worker takes it", async () => {
      const stage = await openStage(store, { startAt: Date.parse("2026-02-09T19:20:00Z"), random: () => 0.51 });
      const id = await apply(stage, { retry: RETRY });
      // 30.15 s: the time is shown in whole seconds, rounded up.
      const { runAt } = await stage.run(id, { exit: 7, stderr: "entrypoint crash" });
      expect(runAt).toBe(Date.parse("2026-02-09T19:20:30.150Z"));
      const status = async () => (await stage.view(agentTask, id)).status;
      const next = "2026-02-09T19:20:31Z";
      expect(await status()).toMatchObject({ phase: "Retrying", nextRetryTime: next });
      await stage.advance(30_149);
      expect(await status()).toMatchObject({ phase: "Retrying", nextRetryTime: next });
      await stage.advance(1);
      const due = await status();
      expect(due).toMatchObject({
        ...{ phase: "Pending", attempts: 1, lastFailureReason: "exit code 7: entrypoint crash" },
        message: "due, waiting for a worker; attempt 1 failed: exit code 7: entrypoint crash; retries left: 2",
      });
      expect(due).not.toHaveProperty("nextRetryTime");
      await stage.start(id);
      expect(await status()).toMatchObject({ phase: "Running", attempts: 2 });
    });

    it("attempts >= maxAttempts: phase Failed, exhausted retries", async () => {
      const stage = await openStage(store);
      const id = await apply(stage, { retry: { ...RETRY, maxAttempts: 2 } });
      await exhaust(stage, id, { exit: 7, stderr: "entrypoint crash" });
      expect((await stage.view(agentTask, id)).status).toMatchObject({
        ...{ phase: "Failed", attempts: 2 },
        message: "no retries left, 2 of 2 runs used: exit code 7: entrypoint crash",
      });
      // Note F12: it was never Failed in between.
      expect(await events(stage, id)).toEqual([
        ...["Normal/Started", "Normal/Retrying", "Normal/Started", "Warning/RetryExhausted", "Warning/Failed"],
      ]);
    });

    it("lost workers spend the same runs, with the same backoff", async () => {
      const stage = await openStage(store);
      const id = await apply(stage, { retry: RETRY });
      const backoffs: number[] = [];
      for (const play of ["lost", { exit: 1 }] as const) {
        const { runAt } = await stage.run(id, play);
        backoffs.push((runAt - stage.clock.now()) / 1_000);
      }
      expect(backoffs).toEqual([30, 60]); // a lost worker has the backoff of a failure, and the next one continues from it
      const job = await stage.run(id, "lost");
      expect(job).toMatchObject({ state: "failed", reason: "lost", attempt: 3, failures: 1, losses: 2 });
      expect((await stage.view(agentTask, id)).status).toMatchObject({
        phase: "Failed",
        lastFailureReason: "worker lost",
      });
    });

    it("an attempt that its worker returns at shutdown costs no retry, and is not Retrying", async () => {
      const stage = await openStage(store);
      const id = await apply(stage, { retry: { maxAttempts: 2 } });
      await settle(stage, id, { kind: "interrupted" });
      expect(await stage.job(id)).toMatchObject({ state: "queued", failures: 0 });
      expect((await stage.view(agentTask, id)).status).toMatchObject({ phase: "Pending", attempts: 1 });
      expect(await events(stage, id)).toEqual(["Normal/Started", "Normal/Interrupted"]);
    });
  });

  describe("Multi-tier interaction and defaults", () => {
    it.each([
      ["legionary", 3, [15, 30]],
      ["centurion", 1, []],
      ["tribune", 1, []],
    ] as const)("helm values: %s has %i runs, with backoffs of %j s", async (tier, runs, backoffs) => {
      const stage = await openStage(store);
      const id = await apply(stage, { tier });
      const { job, waited } = await exhaust(stage, id, { exit: 1 });
      expect([job.attempt, waited]).toEqual([runs, backoffs]);
      expect((await stage.view(agentTask, id)).spec.tier).toBe(tier);
    });

    it("the values can be set: agent.retry.tribune.maxAttempts", async () => {
      const stage = await openStage(store);
      const agent = { ...DIALECT_DEFAULTS.agent, retry: { tribune: { maxAttempts: 2, backoffSeconds: 5 } } };
      const settings = { ...DIALECT_DEFAULTS, agent };
      const id = await apply(stage, { tier: "tribune" }, { settings });
      expect((await exhaust(stage, id, { exit: 1 })).waited).toEqual([5]);
      const other = await apply(stage, { tier: "legionary" }, { settings });
      expect((await exhaust(stage, other, { exit: 1 })).waited).toEqual([]);
    });

    it("task over role over tier over preset, field by field", async () => {
      const stage = await openStage(store);
      const role = {
        ...{ apiVersion: "core.hortator.ai/v1alpha1", kind: "ClusterAgentRole", metadata: { name: "researcher" } },
        spec: { retry: { backoffSeconds: 7 }, tier: "legionary", timeout: "10m", budget: { maxCostUsd: 2 } },
      };
      const context = { documents: [role] };
      // The number of attempts is from the tier, the backoff from the role, the cap from the preset.
      const id = await apply(stage, { role: "researcher" }, context);
      expect((await exhaust(stage, id, { exit: 1 })).waited).toEqual([7, 14]);
      expect((await stage.view(agentTask, id)).spec).toMatchObject({
        ...{ role: "researcher", tier: "legionary", timeout: 600, budget: { maxCostUsd: 2 } },
        retry: { maxAttempts: 3, backoffSeconds: 7, maxBackoffSeconds: 300 },
      });
      const own = { role: "researcher", retry: { maxAttempts: 2, maxBackoffSeconds: 3 }, timeout: 5 };
      const other = await apply(stage, own, context);
      expect((await exhaust(stage, other, { exit: 1 })).waited).toEqual([3]);
      expect((await stage.view(agentTask, other)).spec).toMatchObject({ timeout: 5, budget: { maxCostUsd: 2 } });
    });
  });

  describe("Open questions", () => {
    it.each([
      [{ exit: 1, stderr: "AuthenticationError: invalid x-api-key" }],
      [{ exit: 1, stderr: "401 Unauthorized" }],
      [{ error: "the key was refused", status: 401 }],
      [{ exit: 1, stderr: "Error code: 401 - Incorrect API key provided\nsaving the session\nbye\n" }],
      [{ exit: 1, stderr: "rpc error: code = UNAUTHENTICATED\nbye\n" }],
    ] as [Play][])("1. API auth errors are not retried: %j", async (play) => {
      const stage = await openStage(store);
      const id = await apply(stage, { retry: RETRY });
      const job = await stage.run(id, play);
      expect(job).toMatchObject({ state: "failed", reason: "rejected", attempt: 1 });
      const { status } = await stage.view(agentTask, id);
      expect(status.phase).toBe("Failed");
      expect(status.history[0].reason).toMatch(/^logical: /);
    });

    it("1. the line that was an auth error is in its reason", async () => {
      const stage = await openStage(store);
      const id = await apply(stage, { retry: RETRY });
      await stage.run(id, { exit: 1, stderr: "ERROR token has expired\nsaving the session\nbye\n" });
      const { status } = await stage.view(agentTask, id);
      expect(status).toMatchObject({
        ...{ phase: "Failed", lastFailureReason: "exit code 1: bye (ERROR token has expired)" },
        history: [{ reason: "logical: exit code 1: bye (ERROR token has expired)" }],
      });
      const { text } = await stage.engine.explain(id);
      expect(text).toContain('lines "token has expired" matched "ERROR token has expired"');
    });

    it("1. the line that was an auth error is in the status of its parent", async () => {
      const stage = await openStage(store);
      const parent = await apply(stage, {});
      const child = await apply(stage, { parentTaskId: parent, retry: RETRY });
      const failed = await stage.run(child, { exit: 1, stderr: "HTTP 401 Unauthorized\nbye\n" });
      expect(failed.failure).toMatchObject({ message: "exit code 1: bye", line: "HTTP 401 Unauthorized" });
      const { status } = agentTask.view({
        ...(await stage.parts(parent)),
        children: { jobs: [failed], more: false },
      }) as { status: object };
      const reason = "exit code 1: bye (HTTP 401 Unauthorized)";
      expect(status).toMatchObject({ children: [{ id: child, phase: "Failed", reason }] });
      // As earlier versions stored it.
      const { line: _, ...older } = failed.failure ?? failure({ kind: "exit", message: "" });
      expect(agentChildren({ children: { jobs: [{ ...failed, failure: older }], more: false }, now: 0 })).toMatchObject(
        {
          children: [{ reason: "exit code 1: bye" }],
        },
      );
    });

    it("after nextRetryTime a child is no longer Retrying in the status of its parent, and keeps its reason", async () => {
      const stage = await openStage(store);
      const parent = await apply(stage, {});
      const child = await apply(stage, { parentTaskId: parent, retry: RETRY });
      const job = await stage.run(child, { exit: 7, stderr: "entrypoint crash\n" });
      const at = (now: number) => agentChildren({ children: { jobs: [job], more: false }, now }).children?.[0];
      const reason = "exit code 7: entrypoint crash";
      expect(at(job.runAt - 1)).toMatchObject({ id: child, phase: "Retrying", reason });
      expect(at(job.runAt)).toMatchObject({ id: child, phase: "Pending", reason });
    });

    it.each(["authentication service temporarily unavailable, retrying", "authentication handshake timed out"])(
      "1. a transient line that merely mentions authentication is retried: %s",
      async (stderr) => {
        const stage = await openStage(store);
        const id = await apply(stage, { retry: RETRY });
        expect(await stage.run(id, { exit: 1, stderr })).toMatchObject({ state: "queued" });
      },
    );

    it("1. a task that was submitted before goes by the policy that was stored with it", () => {
      const fallback = [testRule({ message: ["authentication", "unauthorized"] }, "fail")];
      const policy = { ...presets.agent, maxAttempts: 3, fallback };
      const judge = (stderr: string) => {
        const cause = failure({ kind: "exit", exitCode: 1, message: `exit code 1: ${stderr}` });
        return classify(testJob({ policy: policyFromJson(JSON.stringify(policy)) }), {
          kind: "failed",
          failure: cause,
        });
      };
      expect(judge("authentication handshake timed out")).toMatchObject({
        ...{ kind: "fail", match: { by: "preset", preset: "agent", conditions: 'message "authentication"' } },
      });
      expect(judge("token expired")).toMatchObject({ kind: "retry" });
    });

    it("2. budget: continue accumulating over attempts, and checked before a retry (note F4)", async () => {
      const stage = await openStage(store);
      const id = await apply(stage, { retry: { maxAttempts: 10, backoffSeconds: 1 }, budget: { maxCostUsd: 1 } });
      const usage = { tokensIn: 100, tokensOut: 10, costUsd: 0.4 };
      expect(await stage.run(id, { exit: 1 }, { usage })).toMatchObject({ state: "queued" });
      expect(await stage.run(id, "lost", { usage })).toMatchObject({ state: "queued", usage: { costUsd: 0.8 } });
      const job = await stage.run(id, { exit: 1 }, { usage });
      expect(job).toMatchObject({ state: "failed", reason: "budget", attempt: 3, usage: { tokensIn: 300 } });
      const { status } = await stage.view(agentTask, id);
      expect(status.usage.costUsd).toBeCloseTo(1.2);
      expect(status.history.map(({ reason }: { reason: string }) => reason)).toEqual([
        "transient: pod failed without result.json",
        "transient: worker lost",
        "budget: maxCostUsd exceeded",
      ]);
      expect((await events(stage, id)).at(-1)).toBe("Warning/BudgetExceeded");
    });

    it("2. a success is a success, whatever it cost", async () => {
      const stage = await openStage(store);
      const id = await apply(stage, { budget: { maxCostUsd: 1 } });
      await stage.run(id, "ok", { usage: { tokensIn: 1, tokensOut: 1, costUsd: 5 } });
      expect((await stage.view(agentTask, id)).status.phase).toBe("Completed");
    });

    it("3. events on retry decisions: Normal/Retrying and Warning/RetryExhausted (note F7)", async () => {
      const stage = await openStage(store, { startAt: Date.parse("2026-02-09T19:20:00Z") });
      const id = await apply(stage, { retry: { maxAttempts: 2 } });
      await stage.run(id, { exit: 7, stderr: "entrypoint crash" }, { tookMs: 176_000 });
      await stage.run(id, "oom");
      expect(agentTaskEvents(await stage.parts(id))).toEqual([
        {
          ...{ type: "Normal", reason: "Started", message: "attempt 1 started on worker-1" },
          ...{ timestamp: "2026-02-09T19:20:00Z", count: 1 },
        },
        {
          ...{ type: "Normal", reason: "Retrying", timestamp: "2026-02-09T19:22:56Z", count: 1 },
          message: "attempt 1 failed: exit code 7: entrypoint crash; retrying in 30 s, 1 retry left",
        },
        {
          ...{ type: "Normal", reason: "Started", message: "attempt 2 started on worker-1" },
          ...{ timestamp: "2026-02-09T19:23:26Z", count: 1 },
        },
        {
          ...{ type: "Warning", reason: "RetryExhausted", timestamp: "2026-02-09T19:23:26Z", count: 1 },
          message: "all 2 attempts are used; attempt 2 failed: out of memory: killed by the system",
        },
        {
          ...{ type: "Warning", reason: "Failed", timestamp: "2026-02-09T19:23:26Z", count: 1 },
          message: "attempt 2 failed: out of memory: killed by the system",
        },
      ]);
    });

    it.each<[Play, string[]]>([
      ["ok", ["Normal/Started", "Normal/Completed"]],
      [{ logical: "no" }, ["Normal/Started", "Warning/Failed"]],
      // Without retries, the reason is not that they are exhausted.
      [{ exit: 1 }, ["Normal/Started", "Warning/Failed"]],
    ])("3. other events: %j", async (play, wanted) => {
      const stage = await openStage(store);
      const id = await apply(stage, {});
      await stage.run(id, play);
      expect(await events(stage, id)).toEqual(wanted);
    });

    it("a task that is cancelled is not retried (note A10)", async () => {
      const stage = await openStage(store);
      const waiting = await apply(stage, { retry: RETRY });
      await stage.run(waiting, { exit: 1 });
      await stage.engine.command(waiting, { kind: "cancel" });
      expect((await stage.view(agentTask, waiting)).status).toMatchObject({ phase: "Cancelled", attempts: 1 });
      expect((await events(stage, waiting)).at(-1)).toBe("Normal/Cancelled");
      const running = await apply(stage, { retry: RETRY });
      const started = await stage.start(running);
      await stage.engine.command(running, { kind: "cancel" });
      await started.end({ signal: "SIGTERM" });
      const { status } = await stage.view(agentTask, running);
      expect(status).toMatchObject({ phase: "Cancelled", history: [{ reason: "cancelled" }] });
      expect(status.lastFailureReason).toBe(undefined);
    });
  });

  describe("Implementation notes", () => {
    it.each([
      [0, 22.5],
      [0.5, 30],
      [0.999999999, 37.5],
    ])("±25% random jitter: a draw of %d gives %d s", async (draw, seconds) => {
      const stage = await openStage(store, { random: () => draw });
      const id = await apply(stage, { retry: RETRY });
      const job = await stage.run(id, { exit: 1 });
      expect(job.runAt - stage.clock.now()).toBeCloseTo(seconds * 1_000, -1);
    });

    it("the cap comes before the jitter (note A6): 300 s become 225 to 375", async () => {
      const stage = await openStage(store, { random: () => 0.999999999 });
      const id = await apply(stage, { retry: { maxAttempts: 2, backoffSeconds: 300, maxBackoffSeconds: 300 } });
      const job = await stage.run(id, { exit: 1 });
      expect(job.runAt - stage.clock.now()).toBeCloseTo(375_000, -1);
    });

    it("output and usage belong to the attempt; the task shows the good one's (note F11)", async () => {
      const stage = await openStage(store);
      const id = await apply(stage, { retry: RETRY });
      await stage.run(id, { exit: 1 }, { usage: { tokensIn: 10, tokensOut: 1, costUsd: 0.1 } });
      const result = { exitCode: 0, output: "a page", outputs: [] };
      await stage.run(id, { ok: result }, { usage: { tokensIn: 20, tokensOut: 2, costUsd: 0.2 } });
      const { attempts } = await stage.parts(id);
      expect(attempts.map(({ usage }) => usage?.tokensIn)).toEqual([10, 20]);
      expect((await stage.view(agentTask, id)).status).toMatchObject({ output: "a page", usage: { tokensIn: 30 } });
    });
  });
});

type Outcome = Parameters<Stage["engine"]["report"]>[0][number]["outcome"];

/** Runs one attempt with an outcome that is not a `Play` of the stage. */
async function settle(stage: Stage, id: string, outcome: Outcome): Promise<void> {
  const { kind, queue, labels } = await stage.job(id);
  const session = await stage.engine.openSession({
    ...{ namespace: "default", name: "worker-1", host: "h", pid: 1, slots: 1 },
    ...{ kinds: [kind], queues: [queue], labels },
  });
  const { jobs } = await stage.engine.claim(session, { limit: 1 });
  const { attempt, token } = jobs[0] as { attempt: number; token: string };
  const from = { kind: "worker", token, reportId: `${id}-${attempt}` } as const;
  const [answer] = await stage.engine.report([{ jobId: id, attempt, from, outcome, usage: null, log: null }]);
  expect(answer?.status).toBe("accepted");
}
