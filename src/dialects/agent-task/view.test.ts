import { describe, expect, it } from "vitest";
import { failure } from "../../core/decision/failure.ts";
import { resourceLabels, toResources } from "../../core/input/resources.ts";
import type { JobEvent } from "../../core/job/event.ts";
import { exited, lost, TestJobHistory, testJob } from "../../core/job/testing-job.ts";
import type { AttemptRow, JobInfo } from "../../core/job/views.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import type { SubmitOptions } from "../../core/task/task.ts";
import type { ReadContext, ReadEntry, ViewParts } from "../dialect.ts";
import { DIALECT_DEFAULTS } from "../settings.ts";
import { changed, changedInput } from "./change.ts";
import { agentTask } from "./dialect.ts";
import { agentTaskEvents } from "./events.ts";
import { agentStatus, attemptReason, failureReason } from "./status.ts";
import { agentTaskView } from "./view.ts";

const PARENT = "job_01m7gekg9zevv9a6xvvwmt1v8g";
const context: ReadContext = {
  ...{ settings: DIALECT_DEFAULTS, parameters: {}, documents: [], file: "task.yaml" },
  ...{ yaml: () => null, bytes: () => null, randomBytes: (count) => new Uint8Array(count) },
};
const FULL = {
  ...{ apiVersion: "example.org/v2", kind: "AgentTask" },
  metadata: { name: "t", namespace: "agents", labels: { app: "x" }, annotations: { note: "n" } },
  spec: {
    prompt: "Ü: do it.",
    model: { name: "opus", endpoint: "https://x" },
    command: ["/opt/agent", "-v"],
    env: [{ name: "A", value: "1" }],
    tier: "legionary",
    retry: { maxAttempts: 4, backoffSeconds: 7, maxBackoffSeconds: 70 },
    budget: { maxCostUsd: 2.5, maxTokens: 1_000 },
    timeout: 90,
    parentTaskId: PARENT,
    resources: { requests: { cpu: "500m", memory: "1073741824" }, limits: { memory: "1073741824" } },
  },
};

/** The job as the engine would store it. */
function jobOf({ task, input, options = {} }: ReadEntry, parts: Partial<JobInfo> = {}): JobInfo {
  const { retry, tags = [], timeout = null, parent = null, annotations = {}, resources } = options as SubmitOptions;
  const labels = resources === undefined ? {} : resourceLabels(toResources(resources, "resources"));
  return {
    ...testJob({ kind: task, tags, labels, timeoutMs: timeout as number | null, parentId: parent }),
    ...{ policy: resolvePolicy(retry), payload: input, annotations, result: undefined, progress: undefined },
    ...{ name: task, failure: null, liveUsage: null, budgets: [] },
    ...parts,
  };
}
const readTask = (document: unknown) => agentTask.read(document, context).jobs[0] as ReadEntry;
const bare = (parts: Partial<JobInfo> = {}): JobInfo => ({
  ...testJob(),
  ...{ name: "bare", failure: null, liveUsage: null, budgets: [] },
  ...{ payload: undefined, annotations: {}, result: undefined, progress: undefined },
  ...parts,
});
const partsOf = (job: JobInfo, more: Partial<ViewParts> = {}): ViewParts => ({
  ...{ job, attempts: [], events: [], workerName: () => null },
  ...more,
});
const json = (value: unknown) => JSON.parse(JSON.stringify(value));

describe("the view of a task", () => {
  it("is its manifest, as far as it is known", () => {
    const job = jobOf(readTask(FULL));
    const { status, ...rest } = agentTaskView(partsOf(job));
    expect(rest).toEqual({
      ...FULL,
      metadata: { ...FULL.metadata, uid: job.id, creationTimestamp: "2026-01-01T00:00:00Z" },
    });
    expect(status).toMatchObject({ phase: "Running", attempts: 1 });
  });

  it("can be applied again, and is the same task", () => {
    const entry = readTask(FULL);
    const view = agentTaskView(partsOf(jobOf(entry)));
    expect(readTask(json(view))).toEqual(entry);
  });

  it.each<[string, Partial<JobInfo>]>([
    ["a function", { kind: "resize", payload: { width: 3 }, key: null }],
    ["a job with a key", { kind: "resize", key: "img-42" }],
    ["a shell", { kind: "exec", payload: { command: "exit 1", shell: true } }],
    ["nonsense", { kind: "exec", payload: { argv: 7, env: [], files: "x", limits: null } }],
    ["a list", { kind: "exec", payload: [1] }],
    ["another policy", { policy: resolvePolicy({ backoff: { type: "none" } }) }],
    ["a result that is no command's", { kind: "exec", state: "succeeded", result: "done" }],
  ])("of another door never throws: %s", (_name, parts) => {
    const job = bare(parts);
    const row: AttemptRow = {
      ...{ jobId: job.id, attempt: 1, chapter: 1, session: null, startedAt: 0, endedAt: 1, outcome: "completed" },
      ...{ failure: null, usage: null, result: "no json", log: null },
    };
    const view = json(agentTaskView(partsOf(job, { attempts: [row] })));
    expect(view.metadata.name).toBe(job.name);
    expect(view.status.history).toHaveLength(1);
    expect(agentTaskEvents(partsOf(job))).toEqual([]);
  });
});

describe("reasons", () => {
  const decision = (parts: object) => ({ step: "retry", class: "failure", kind: "retry", ...parts }) as never;
  const failed = (parts: Parameters<typeof failure>[0]) => ({ attempt: 1, outcome: "failed", failure: failure(parts) });
  const RETRIED = decision({});

  it.each([
    [failed({ kind: "exit", exitCode: 7, message: "exit code 7" }), "pod failed without result.json"],
    [failed({ kind: "signal", signal: "SIGKILL", message: "signal SIGKILL" }), "pod failed without result.json"],
    [failed({ kind: "oom", message: "out of memory" }), "OOMKilled"],
    [
      failed({ kind: "result", message: "result.json is malformed: it is empty" }),
      "result.json is malformed: it is empty",
    ],
    [
      failed({ kind: "exit", code: "malformed_result", message: "exit code 1; its result.json is malformed: no" }),
      "exit code 1; its result.json is malformed: no",
    ],
    [failed({ kind: "error", message: "connection reset" }), "connection reset"],
    [{ attempt: 1, outcome: "lost", failure: null }, "worker lost"],
    [{ attempt: 1, outcome: "timeout", failure: failure({ kind: "timeout", message: "x" }) }, "timeout"],
  ])("of %j are transient", (attempt, reason) => {
    expect(attemptReason(attempt, RETRIED)).toBe(`transient: ${reason}`);
  });

  it("are missing if no retry was requested", () => {
    const waiting = { attempt: 1, outcome: "waiting", failure: null };
    const block = decision({ kind: "block", class: "waiting" });
    expect([attemptReason(waiting, block), failureReason(waiting, block)]).toEqual(["waiting for children", null]);
    const done = { attempt: 1, outcome: "completed", failure: null };
    expect([attemptReason(done, undefined), failureReason(done, undefined)]).toEqual(["completed", null]);
    const back = { attempt: 1, outcome: "released", failure: null };
    expect([attemptReason(back, RETRIED), failureReason(back, RETRIED)]).toEqual([
      ...["transient: released, not counted", null],
    ]);
  });

  it("of a result that is sent round again are transient", () => {
    const polled = { attempt: 1, outcome: "completed", failure: failure({ kind: "result", message: "it matched" }) };
    expect(attemptReason(polled, RETRIED)).toBe("transient: it matched");
  });

  it("of a program that is not there are logical: nothing would heal it", () => {
    const missing = failed({ kind: "error", class: "invalid", message: "no such program" });
    const rejected = decision({ kind: "fail", reason: "invalid", step: "not_retryable" });
    expect(attemptReason(missing, rejected)).toBe("logical: no such program");
  });
});

describe("events", () => {
  it("that come again are counted", () => {
    const event = (n: number, at: number) =>
      ({
        ...{ seq: n, jobId: "j", n, at, name: "job.redriven" },
        data: { v: 1, by: null, runAt: at, expiresAt: null },
      }) as JobEvent;
    expect(agentTaskEvents(partsOf(bare(), { events: [event(1, 0), event(2, 60_500)] }))).toEqual([
      {
        ...{ type: "Normal", reason: "Redriven", message: "redriven" },
        ...{ timestamp: "1970-01-01T00:01:00Z", count: 2 },
      },
    ]);
  });
});

describe("no retry left", () => {
  const policy = (maxRetries: number) =>
    resolvePolicy({ preset: "fluster", maxAttempts: 3, workerLost: { charge: "own", maxRetries } });
  const shown = (story: TestJobHistory) => {
    const events = story.events.map((event) => ({ ...event, seq: event.n, jobId: story.job.id })) as JobEvent[];
    const parts = partsOf(bare({ ...story.job }), { events });
    const told = agentTaskEvents(parts).filter(({ type }) => type === "Warning");
    return { told: told.map(({ reason, message }) => `${reason}: ${message}`), message: agentStatus(parts).message };
  };

  it("names the budget that was used up: lost workers have their own", () => {
    const { told, message } = shown(new TestJobHistory({ policy: policy(1) }).run(lost(), lost()));
    expect(told[0]).toMatch(/^RetryExhausted: the one retry granted after a lost worker is used; attempt 2 failed: /);
    expect(message).toMatch(/^no retries left, the one retry granted after a lost worker is used: /);
    const more = shown(new TestJobHistory({ policy: policy(2) }).run(lost(), lost(), lost()));
    expect(more.told[0]).toMatch(/^RetryExhausted: all 2 retries granted after a lost worker are used; /);
    const none = shown(new TestJobHistory({ policy: policy(0) }).run(lost()));
    expect(none.told.map((each) => each.split(":")[0])).toEqual(["Failed"]);
    expect(none.message).toMatch(/^no retries left, no retry is allowed after a lost worker: /);
  });

  it("counts the only attempt of a task without retries", () => {
    const { message } = shown(
      new TestJobHistory({ policy: resolvePolicy({ preset: "agent", maxAttempts: 1 }) }).run(exited(7)),
    );
    expect(message).toMatch(/^no retries left, 1 of 1 run used: /);
  });

  it("names the rule whose retries were used up", () => {
    // biome-ignore lint/suspicious/noThenProperty: the policy language says "then"; a rule is never awaited.
    const rules = [{ if: { exitCode: 7 }, then: "retry" as const, maxRetries: 1 }];
    const story = new TestJobHistory({ policy: resolvePolicy({ maxAttempts: 9, rules }) }).run(exited(7), exited(7));
    expect(shown(story).told[0]).toMatch(/^RetryExhausted: the one retry of rules\[0\] is used; /);
  });
});

describe("a changed task", () => {
  const job = jobOf(readTask(FULL));
  const read = (entry: ReadEntry) => agentTaskView(partsOf(jobOf(entry))).spec;

  it("has another prompt, model or command, and is the same in all else", () => {
    const { spec } = agentTaskView(partsOf(job));
    const change = { prompt: "Another.", model: "haiku", command: ["/opt/other"] };
    const entry = changed(job, change);
    expect(read(entry)).toEqual({
      ...spec,
      ...{ prompt: "Another.", model: { name: "haiku", endpoint: "https://x" }, command: ["/opt/other"] },
    });
    expect(resolvePolicy(entry.options?.retry)).toEqual(job.policy);
    const tags = ["app=x", `resubmit-of=${job.id}`];
    expect(entry.options).toMatchObject({ queue: "default", priority: 5, parent: PARENT, tags });
    expect(entry.options?.annotations).toEqual({ ...job.annotations, "resubmit-of": job.id });
    expect(entry.options?.key).toBe(undefined);
  });

  it("leaves a long prompt out of the environment", () => {
    const { env } = changedInput(job.payload, { prompt: "x".repeat(40_000) });
    expect([env?.AGENT_PROMPT, env?.AGENT_PROMPT_FILE]).toEqual([undefined, "inputs/prompt.txt"]);
  });

  it("may be any job where nothing is changed", () => {
    const resize = bare({ labels: { gpu: "yes" }, payload: { width: 3 }, expireInMs: 5_000 });
    expect(changed(resize, {})).toMatchObject({
      ...{ task: "resize-image", input: { width: 3 } },
      options: { labels: { gpu: "yes" }, expireIn: 5_000 },
    });
    expect(changed(bare(), {})).not.toHaveProperty("input");
  });

  it("accepts a prompt only for an AgentTask, and a command only for a command", () => {
    const command = bare({ kind: "exec", payload: { command: "exit 1", shell: true } });
    expect(() => changed(command, { prompt: "x" })).toThrow(/^resubmit\.prompt: the job is not an AgentTask/);
    expect(() => changed(command, { model: "x" })).toThrow(/not an AgentTask/);
    expect(changed(command, { command: ["a"] }).input).toEqual({ argv: ["a"] });
    expect(() => changed(bare(), { command: ["a"] })).toThrow(/a job of kind exec/);
    for (const wrong of [{ prompt: " " }, { model: "" }, { command: [] }, { command: [""] }, { command: [1] }]) {
      expect(() => changed(job, wrong as never)).toThrow(/^resubmit/);
    }
  });
});
