/** AgentTasks with real workers and real commands, and tasks with children: Tribune, Centurion and Legionary. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Perdure } from "../../src/core/api.ts";
import { NonRetryableError } from "../../src/core/decision/failure.ts";
import { exec } from "../../src/core/input/builtin.ts";
import type { JobEvent } from "../../src/core/job/event.ts";
import { task } from "../../src/core/task/task.ts";
import { changedInput, resubmit } from "../../src/dialects/agent-task/change.ts";
import { agentTask } from "../../src/dialects/agent-task/dialect.ts";
import { agentTaskEvents } from "../../src/dialects/agent-task/events.ts";
import { type AgentTaskView, agentTaskView } from "../../src/dialects/agent-task/view.ts";
import type { ReadEntry } from "../../src/dialects/dialect.ts";
import { readYamlDocuments } from "../../src/yaml/read.ts";
import { openBench } from "../exec/kit.ts";
import { openStage, readContext, STORES } from "./kit.ts";

const manifest = (name: string, spec: object) => ({
  ...{ apiVersion: "core.hortator.ai/v1alpha1", kind: "AgentTask", metadata: { name } },
  spec: { prompt: "Do it.", ...spec },
});
const entryOf = (name: string, spec: object) =>
  agentTask.read(manifest(name, spec), readContext()).jobs[0] as ReadEntry;
/** An agent that reports what its prompt sets. */
const AGENT = {
  command: [
    ...["sh", "-c"],
    `case "$AGENT_PROMPT" in
       *carefully*) echo '{"status":"completed","output":"done carefully"}' > "$PERDURE_RESULT_FILE" ;;
       *) echo '{"status":"failed","reason":"I cannot do this"}' > "$PERDURE_RESULT_FILE"; exit 1 ;;
     esac`,
  ],
};

async function viewOf(perdure: Perdure, id: string): Promise<AgentTaskView> {
  const handle = await perdure.job(id);
  const [job, attempts] = await Promise.all([handle.get(), handle.attempts()]);
  const events: JobEvent[] = [];
  for await (const event of handle.events()) events.push(event as JobEvent);
  return agentTaskView({ job, attempts, events, workerName: () => null });
}

const submit = (perdure: Perdure, { task: kind, input, options }: ReadEntry) => perdure.submit(kind, input, options);

describe("an agent as a command", () => {
  it("the example: crashes once without a result.json, and then completes", async () => {
    const { perdure } = await openBench();
    const path = new URL("../../examples/agent-task/task.yaml", import.meta.url);
    const documents = readYamlDocuments(readFileSync(path, "utf8"), "task.yaml").map(({ value }) => value);
    const jobs = documents.flatMap((each) => agentTask.read(each, readContext({ documents })).jobs);
    expect(jobs).toHaveLength(1);
    const job = await submit(perdure, jobs[0] as ReadEntry);
    await job.result({ timeout: "20s" });
    const { spec, status } = await viewOf(perdure, job.id);
    expect(spec).toMatchObject({ tier: "legionary", retry: { maxAttempts: 3, backoffSeconds: 1 } });
    expect(status).toMatchObject({
      ...{ phase: "Completed", attempts: 2, lastFailureReason: "exit code 7: entrypoint crash" },
      history: [
        { attempt: 1, exitCode: 7, reason: "transient: pod failed without result.json" },
        { attempt: 2, exitCode: 0, reason: "completed" },
      ],
      usage: { tokensIn: 1_200, tokensOut: 80, costUsd: 0.02 },
      output: { summary: "All is well.", attempt: 2 },
    });
  });

  it("finds its id, its attempt and its files", async () => {
    const { perdure } = await openBench();
    const command = ["sh", "-c", 'printf "%s %s " "$AGENT_TASK_ID" "$AGENT_ATTEMPT"; cat "$AGENT_PROMPT_FILE"'];
    const job = await submit(perdure, entryOf("t", { command }));
    await job.result({ timeout: "20s" });
    const outputs = await perdure.outputs(job.id);
    const chunks: Uint8Array[] = [];
    for await (const chunk of (await outputs.read(1, "stdout.log")) ?? []) chunks.push(chunk);
    expect(Buffer.concat(chunks).toString()).toBe(`${job.id} 1 Do it.`);
  });

  it("that reports a failure is not retried, also with exit code 1", async () => {
    const { perdure } = await openBench();
    const job = await submit(perdure, entryOf("t", { ...AGENT, retry: { maxAttempts: 3 } }));
    await expect(job.result({ timeout: "20s" })).rejects.toMatchObject({ code: "job_failed" });
    expect((await viewOf(perdure, job.id)).status).toMatchObject({
      ...{ phase: "Failed", attempts: 1, lastFailureReason: "I cannot do this" },
      history: [{ exitCode: 1, reason: "logical: I cannot do this" }],
    });
  });

  it("that leaves an oversized result.json after exit 0 is not retried, and the reason names size, limit and fix", async () => {
    const { perdure } = await openBench();
    const command = [
      ...["sh", "-c"],
      `{ printf '{"status":"completed","output":"'; head -c 800000 /dev/zero | tr '\\0' x; printf '"}'; } > "$PERDURE_RESULT_FILE"`,
    ];
    const job = await submit(perdure, entryOf("t", { command, retry: { maxAttempts: 3, backoffSeconds: 1 } }));
    await expect(job.result({ timeout: "20s" })).rejects.toMatchObject({ code: "job_failed", reason: "rejected" });
    const message =
      "exit code 0, but its result.json cannot be used: it has 800034 bytes, over the limit of 786432; write " +
      "result.json as a small plain file, and large output to artifacts/";
    expect((await viewOf(perdure, job.id)).status).toMatchObject({
      ...{ phase: "Failed", attempts: 1, lastFailureReason: message },
      history: [{ exitCode: 0, reason: `logical: ${message}` }],
    });
  });

  it("that spends more than its budget is stopped while it runs, and not run again", async () => {
    const { perdure } = await openBench({ open: { lease: "3s" } });
    const command = [
      ...["sh", "-c"],
      `echo '{"cost_usd": 0.7}' > "$PERDURE_OUTPUT_DIR/usage.json"; while :; do sleep 0.05; done`,
    ];
    const job = await submit(
      perdure,
      entryOf("t", { command, retry: { maxAttempts: 3 }, budget: { maxCostUsd: 0.5 } }),
    );
    await expect(job.result({ timeout: "20s" })).rejects.toMatchObject({ code: "job_failed" });
    expect((await viewOf(perdure, job.id)).status).toMatchObject({
      ...{ phase: "BudgetExceeded", attempts: 1, usage: { costUsd: 0.7 } },
      history: [{ reason: "budget: maxCostUsd exceeded" }],
    });
  });
});

describe("an agent that reports that its budget is exceeded", () => {
  it.each([0, 1])("is of class budget and never retried, with exit code %i", async (code) => {
    const { perdure } = await openBench();
    const verdict = '{"status": "budget_exceeded", "reason": "no tokens left", "usage": {"tokens_in": 7}}';
    const command = ["sh", "-c", `printf '%s' '${verdict}' > "$PERDURE_RESULT_FILE"; exit ${code}`];
    const job = await submit(perdure, entryOf("t", { command, retry: { maxAttempts: 3, backoffSeconds: 1 } }));
    await expect(job.result({ timeout: "20s" })).rejects.toMatchObject({ code: "job_failed", reason: "budget" });
    const [attempt] = await job.attempts();
    expect(attempt?.failure).toMatchObject({ class: "budget", message: "no tokens left" });
    expect((await viewOf(perdure, job.id)).status).toMatchObject({
      ...{ phase: "BudgetExceeded", attempts: 1, message: "budget: no tokens left", usage: { tokensIn: 7 } },
      history: [{ exitCode: code, reason: "budget: no tokens left" }],
    });
  });
});

describe("Multi-tier interaction", () => {
  it("a parent inspects its child's failure, and retries with a different prompt", async () => {
    const { perdure } = await openBench();
    const seen: unknown[] = [];
    const tribune = task("tribune", { retry: { preset: "agent", maxAttempts: 1 } }, async (_input: undefined, ctx) => {
      const { task: kind, input, options } = entryOf("part", { ...AGENT, tier: "legionary" });
      const [first] = await ctx.waitFor([await ctx.submit(kind, input, options)]);
      seen.push([first.state, first.reason, first.failure?.class, first.failure?.message]);
      if (first.state === "succeeded") return first.result;
      const again = changedInput(first.payload, { prompt: "Do it carefully." });
      const [second] = await ctx.waitFor([await ctx.submit(kind, again, options)]);
      const children = await ctx.children();
      if (second.state !== "succeeded") throw new NonRetryableError(`all ${children.length} children failed`);
      return { children: children.map(({ state }) => state), output: second.result };
    });
    await perdure.work([tribune]);
    const job = await perdure.submit(tribune);
    expect(await job.result({ timeout: "20s" })).toMatchObject({
      ...{ children: ["failed", "succeeded"], output: { output: "done carefully" } },
    });
    expect(seen[0]).toEqual(["failed", "rejected", "logical", "I cannot do this"]);
    // Waiting for children does not use up a retry: three attempts although maxAttempts is 1.
    const { status } = await viewOf(perdure, job.id);
    expect(await job.get()).toMatchObject({ attempt: 3, failures: 0, losses: 0 });
    expect(status.history.map(({ reason }) => reason)).toEqual([
      ...["waiting for children", "waiting for children", "completed"],
    ]);
  });

  it("or reports failure upward, with its reason", async () => {
    const { perdure } = await openBench();
    const tribune = task("tribune", async (_input: undefined, ctx) => {
      const { task: kind, input, options } = entryOf("part", AGENT);
      const [child] = await ctx.waitFor([await ctx.submit(kind, input, options)]);
      if (child.state !== "succeeded") throw new NonRetryableError(`a child failed: ${child.failure?.message}`);
    });
    await perdure.work([tribune]);
    const job = await perdure.submit(tribune);
    await expect(job.result({ timeout: "20s" })).rejects.toMatchObject({ code: "job_failed" });
    expect((await viewOf(perdure, job.id)).status).toMatchObject({
      ...{ phase: "Failed", lastFailureReason: "a child failed: I cannot do this" },
      history: [{ reason: "waiting for children" }, { reason: "logical: a child failed: I cannot do this" }],
    });
  });

  it("sees in one call why each child failed, or is being retried", async () => {
    const { perdure } = await openBench();
    const crash = {
      command: ["sh", "-c", "echo entrypoint crash >&2; exit 7"],
      retry: { maxAttempts: 2, backoffSeconds: 300 },
    };
    const seen: unknown[] = [];
    const tribune = task("tribune", async (_input: undefined, ctx) => {
      for (const [key, spec] of [
        ["no", AGENT],
        ["crash", crash],
      ] as const) {
        const { task: kind, input, options } = entryOf(key, spec);
        await ctx.submit(kind, input, { ...options, key });
      }
      const children = await ctx.children();
      if (children.some(({ failure }) => failure === null)) throw new Error("not yet");
      seen.push(...children.map(({ key, state, failure }) => [key, state, failure?.message]));
    });
    await perdure.work([tribune]);
    const retry = { maxAttempts: 1_000, backoff: { type: "fixed", delay: "10ms" } } as const;
    await (await perdure.submit(tribune, undefined, { retry })).result({ timeout: "20s" });
    expect(seen).toEqual([
      ["no", "failed", "I cannot do this"],
      ["crash", "queued", "exit code 7: entrypoint crash"],
    ]);
  });

  it("from outside, children are listed, and one is resubmitted with another prompt, model or command", async () => {
    const { perdure, worker } = await openBench();
    const parent = await perdure.submit("tribune");
    const child = await submit(perdure, entryOf("part", { ...AGENT, parentTaskId: parent.id, model: "opus" }));
    await child.result({ timeout: "20s" }).catch(() => {});
    await worker.stop();
    const { job: again } = await resubmit(perdure, child.id, { prompt: "Do it carefully.", model: "haiku" });
    const { job: other } = await resubmit(perdure, child.id, { command: ["sh", "-c", "exit 0"] });
    const { jobs } = await perdure.jobs({ parent: parent.id, order: "oldest" });
    expect(jobs.map(({ id }) => id)).toEqual([child.id, again.id, other.id]);
    const { jobs: failed } = await perdure.jobs({ parent: parent.id, state: "failed" });
    expect(failed.map(({ id, reason }) => [id, reason])).toEqual([[child.id, "rejected"]]);
    await perdure.work([exec]);
    expect(await again.result({ timeout: "20s" })).toMatchObject({ output: "done carefully" });
    await other.result({ timeout: "20s" });
    expect((await viewOf(perdure, again.id)).spec).toMatchObject({ model: "haiku", parentTaskId: parent.id });
  });
});

describe.each(STORES)("a task with children on %s", (store) => {
  it("waits for them without spending a run, and is Waiting meanwhile (note F5)", async () => {
    const stage = await openStage(store);
    const parent = await stage.submit(entryOf("tribune", { command: ["/opt/agent"], tier: "tribune" }));
    const started = await stage.start(parent);
    const spec = { command: ["/opt/agent"], tier: "legionary", parentTaskId: parent };
    const child = await stage.submit(entryOf("legionary", spec));
    await started.end({ waiting: [child] });
    expect((await stage.view(agentTask, parent)).status).toMatchObject({
      ...{ phase: "Waiting", attempts: 1, history: [{ reason: "waiting for children" }] },
    });
    await stage.run(child, { exit: 1 });
    expect((await stage.view(agentTask, parent)).status.phase).toBe("Waiting");
    await stage.run(child, { logical: "I cannot do this" });
    expect((await stage.view(agentTask, child)).spec.parentTaskId).toBe(parent);
    const job = await stage.run(parent, "ok");
    expect(job).toMatchObject({ state: "succeeded", attempt: 2, failures: 0, losses: 0 });
    const reasons = agentTaskEvents(await stage.parts(parent)).map(({ type, reason }) => `${type}/${reason}`);
    expect(reasons).toEqual([
      ...["Normal/Started", "Normal/WaitingForChildren", "Normal/ChildrenEnded", "Normal/Started", "Normal/Completed"],
    ]);
  });

  it("is Pending, not Retrying, when they have ended", async () => {
    const stage = await openStage(store);
    const parent = await stage.submit(entryOf("tribune", { command: ["/opt/agent"], retry: { maxAttempts: 2 } }));
    await stage.run(parent, { exit: 1 });
    const started = await stage.start(parent);
    const child = await stage.submit(entryOf("legionary", { command: ["/opt/agent"], parentTaskId: parent }));
    await started.end({ waiting: [child] });
    await stage.run(child, "ok");
    await stage.advance(10_000);
    expect((await stage.view(agentTask, parent)).status).toMatchObject({ phase: "Pending", attempts: 2 });
  });

  it("budget: usage that is reported while it runs stops it, together with that of earlier attempts", async () => {
    const stage = await openStage(store);
    const retry = { maxAttempts: 5, backoffSeconds: 1 };
    const id = await stage.submit(entryOf("t", { command: ["/opt/agent"], retry, budget: { maxTokens: 100 } }));
    await stage.run(id, { exit: 1 }, { usage: { tokensIn: 50, tokensOut: 10, costUsd: 0 } });
    const started = await stage.start(id);
    const held = [{ jobId: id, attempt: 2 }];
    expect((await started.renew({ tokensIn: 30, tokensOut: 9, costUsd: 0 })).overspent).toEqual([]);
    const over = { tokensIn: 31, tokensOut: 9, costUsd: 0 };
    expect((await started.renew(over)).overspent).toEqual(held);
    await started.end({ signal: "SIGTERM" }, { usage: over });
    expect((await stage.view(agentTask, id)).status).toMatchObject({
      ...{ phase: "BudgetExceeded", attempts: 2, usage: { tokensIn: 81, tokensOut: 19 } },
      history: [{}, { reason: "budget: maxTokens exceeded" }],
    });
  });
});
