/** AgentTasks on the command line: `apply`, `describe` and `resubmit`, on a local data directory and through a server. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Perdure } from "../../src/core/api.ts";
import { NonRetryableError } from "../../src/core/decision/failure.ts";
import { exec } from "../../src/core/input/builtin.ts";
import { task } from "../../src/core/task/task.ts";
import { JOB_VIEW_NAMES } from "../../src/dialects/registry.ts";
import { readYaml } from "../../src/yaml/read.ts";
import { HOSTILE } from "./kit.ts";
import { KINDS, openWhere } from "./targets.ts";

const UNKNOWN = "job_01m7gekg9zevv9a6xvvwmt1v8g";
const QUICK = { preset: "agent", maxAttempts: 3, backoff: { initial: 0, max: 1, min: 0 } } as const;

const AGENT = {
  argv: ["sh", "-c", "exit 7"],
  env: {
    AGENT_TASK_NAME: "summarise",
    AGENT_PROMPT: "Do it.",
    AGENT_PROMPT_FILE: "inputs/prompt.txt",
    AGENT_MODEL: "opus",
  },
  files: { "prompt.txt": Buffer.from("Do it.").toString("base64") },
};
const ANNOTATIONS = { "agent-task/name": "summarise", "agent-task/tier": "legionary" };

async function submitted(library: Perdure, more: object = {}): Promise<string> {
  const options = {
    retry: QUICK,
    annotations: ANNOTATIONS,
    queue: "agents",
    tags: ["red"],
    timeout: "1m" as const,
    ...more,
  };
  return (await library.submit("exec", AGENT, options)).id;
}

const IN_THEIRS = ["-o", "agent-task"];

describe.each(KINDS)("describe on %s", (kind) => {
  it("shows attempts with their reasons, and events, in the terms of AgentTask if requested", async () => {
    const { ask, askJson, library } = await openWhere(kind);
    const flaky = task("flaky", { retry: QUICK }, (_input: undefined, ctx) => {
      if (ctx.attempt < 3) throw new Error(`connection reset ${HOSTILE}`);
      return "done";
    });
    await library.work([flaky], { name: "worker-1" });
    const job = await library.submit(flaky, undefined, { annotations: { "agent-task/name": "flaky" } });
    await job.result();
    const { code, stdout } = await ask("describe", job.id, ...IN_THEIRS);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^Name +flaky\nJob +job_\w+\nState +succeeded\nPhase +Completed\n/);
    expect(stdout).toMatch(/^Retry +maxAttempts 3, backoffSeconds 0, maxBackoffSeconds 0\.001$/m);
    expect(stdout).toMatch(/^ +1 +\S+Z +\S+Z +transient: connection reset/m);
    expect(stdout).toMatch(/^Normal\/Retrying +\d+ s +attempt 1 failed: connection reset/m);
    expect(stdout).toMatch(/^Normal\/Completed +\d+ s +attempt 3 completed$/m);
    const shown = await askJson<{ status: object; events: { type: string; reason: string }[] }>(
      ...["describe", job.id, ...IN_THEIRS],
    );
    expect(shown).toMatchObject({
      ...{ kind: "AgentTask", metadata: { name: "flaky", uid: job.id }, children: [] },
      status: { phase: "Completed", attempts: 3, history: [{ attempt: 1 }, { attempt: 2 }, { reason: "completed" }] },
    });
    const started = "Normal/Started";
    expect(shown.events.map(({ type, reason }) => `${type}/${reason}`)).toEqual([
      ...[started, "Normal/Retrying", started, "Normal/Retrying", started, "Normal/Completed"],
    ]);
  });

  it("shows every job in Perdure's own terms, also an AgentTask", async () => {
    const { ask, askJson, library } = await openWhere(kind);
    const id = await submitted(library, { retry: { maxAttempts: 2, backoff: { type: "none" } } });
    const worker = await library.work([exec], { queues: ["agents"] });
    await (await library.job(id)).result().catch(() => {});
    await worker.stop();
    const { stdout } = await ask("describe", id);
    expect(stdout).toMatch(/^State +failed \(exhausted\)$/m);
    expect(stdout).toMatch(/^Retry +2 attempts, backoff none$/m);
    expect(stdout).toMatch(/^Annotations +agent-task\/name=summarise, agent-task\/tier=legionary$/m);
    expect(stdout).toMatch(/^ +1 +failed +.* exit code 7/m);
    expect(stdout).toMatch(/ attempt\.failed, job\.retries_exhausted, job\.failed +attempt 2, exhausted: exit code 7/);
    expect(stdout).not.toMatch(/\bpod\b|Phase|transient|Normal\//);
    const shown = await askJson<{ events: { name: string }[] }>("describe", id);
    expect(Object.keys(shown)).toEqual(["job", "attempts", "children", "events"]);
    expect(shown.events.at(-1)?.name).toBe("attempt.failed");
    const theirs = await ask("describe", id, ...IN_THEIRS);
    expect(theirs.stdout).toMatch(/^Phase +Failed$/m);
    expect(theirs.stdout).toContain("pod failed without result.json");
    expect(await ask("describe", id, "-o", "fluster")).toMatchObject({ code: 2, stdout: "" });
  });

  it("shows an attempt that a cancel ended as cancelled, also where its failure is an error", async () => {
    const { ask, askJson, library } = await openWhere(kind);
    const slow = task("slow", (_input: undefined, { signal }) => {
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("stopped"))));
    });
    await library.work([slow]);
    const job = await library.submit(slow);
    await expect.poll(async () => (await job.get()).state).toBe("running");
    await library.cancel(job.id);
    await job.result().catch(() => {});
    for (const command of ["get", "describe"])
      expect((await ask(command, job.id)).stdout).toMatch(/^ +1 +cancelled +/m);
    expect(await askJson("get", job.id)).toMatchObject({ attempts: [{ attempt: 1, outcome: "failed" }] });
  });

  it("prints the job, its attempts, children and events as JSON, and all requested jobs as text", async () => {
    const { ask, askJson, library } = await openWhere(kind);
    const plain = task("plain", { retry: QUICK }, (_input: undefined, ctx) => {
      if (ctx.attempt === 1) throw new Error("connection reset");
      return { width: 640 };
    });
    await library.work([plain]);
    const job = await library.submit(plain, undefined, { key: "img-1", priority: 2, queue: "images" });
    await job.result();
    const shown = await askJson<{ events: { name: string }[] }>("describe", job.id);
    expect(Object.keys(shown)).toEqual(["job", "attempts", "children", "events"]);
    expect(shown).toMatchObject({
      job: { id: job.id, kind: "plain", key: "img-1", queue: "images", result: { width: 640 } },
      ...{ attempts: [{ attempt: 1, outcome: "failed" }, { outcome: "completed" }], children: [] },
    });
    expect(shown.events[0]?.name).toBe("job.submitted");
    const { stdout } = await ask("describe", job.id);
    for (const line of [/^Queue +images$/m, /^Priority +2$/m, /^Key +img-1$/m, /^Result +\{"width":640\}$/m]) {
      expect(stdout).toMatch(line);
    }
  });

  it("warns when retries are exhausted", async () => {
    const { ask, library } = await openWhere(kind);
    const broken = task("broken", { retry: { ...QUICK, maxAttempts: 2 } }, () => {
      throw new Error("it broke");
    });
    await library.work([broken]);
    const job = await library.submit(broken);
    await job.result().catch(() => {});
    const { stdout } = await ask("describe", job.id, ...IN_THEIRS);
    expect(stdout).toMatch(/^Phase +Failed$/m);
    expect(stdout).toMatch(/^Warning\/RetryExhausted +.*all 2 attempts are used; attempt 2 failed: it broke$/m);
  });

  it("shows the spec of an AgentTask and its children", async () => {
    const { ask, askJson, library } = await openWhere(kind);
    const id = await submitted(library);
    const child = await library.submit("exec", AGENT, { parent: id, annotations: { "agent-task/name": "part one" } });
    const { stdout } = await ask("describe", id, ...IN_THEIRS);
    for (const line of [/^Tier +legionary$/m, /^Model +opus$/m, /^Prompt +Do it\.$/m, /^Timeout +60 s$/m]) {
      expect(stdout).toMatch(line);
    }
    expect(stdout).toMatch(new RegExp(`^${child.id} +part one +queued$`, "m"));
    expect(await askJson("describe", id)).toMatchObject({
      children: [{ id: child.id, kind: "exec", state: "queued", reason: null }],
    });
    const own = (await ask("describe", child.id)).stdout;
    expect(own).toMatch(new RegExp(`^Parent +${id}$`, "m"));
    const { summary } = await askJson<{ summary: string }>("explain", child.id);
    expect(own.replaceAll(/\s+/g, " ")).toContain(`Summary ${summary.split(" since ")[0]}`);
    expect(own).not.toContain("waiting for a free worker");
  });

  it("reports a job that does not exist", async () => {
    const { ask } = await openWhere(kind);
    expect(await ask("describe", UNKNOWN)).toMatchObject({ code: 1, stdout: "" });
    expect(await ask("describe")).toMatchObject({ code: 2, stderr: expect.stringContaining("missing ID") });
  });
});

describe("apply", () => {
  const HEAD =
    "apiVersion: core.hortator.ai/v1alpha1\nkind: AgentTask\nmetadata: { name: t }\nspec:\n  command: [ls]\n";
  it.each([
    ["  rety: {}", /task\.yaml:6:3: .*unknown field "rety".*Did you mean "retry"/],
    ["  retry: { maxAttempts: -1 }", /task\.yaml:6:\d+: spec\.retry\.maxAttempts: must be .*; got -1/],
    ["  retry: { backoffSeconds: 1e99 }", /task\.yaml:6:\d+: spec\.retry\.backoffSeconds/],
    ["  tier: legionnaire", /task\.yaml:6:\d+: spec\.tier/],
    ["  env: [{ name: A, valueFrom: {} }]", /task\.yaml:6:\d+: spec\.env\[0\]\.valueFrom/],
    ["  prompt: a\n  prompt: b", /task\.yaml:7:3/],
    ["  parentTaskId: task-1", /task\.yaml:6:\d+: spec\.parentTaskId/],
  ])("refuses %j with its place: exit code 2, nothing stored", async (line, wanted) => {
    const { ask, library, dir } = await openWhere("data");
    writeFileSync(join(dir, "task.yaml"), `${HEAD}${line}\n`);
    const said = await ask("apply", "-f", "task.yaml");
    expect(said).toMatchObject({ code: 2, stdout: "", stderr: expect.stringMatching(wanted) });
    expect((await library.jobs()).jobs).toEqual([]);
  });

  it("notes fields it does not support, and reads its own view back to the same job", async () => {
    const { ask, library, dir } = await openWhere("data");
    writeFileSync(join(dir, "task.yaml"), `${HEAD}  image: agent:1\n  tier: legionary\n`);
    const said = await ask("apply", "-f", "task.yaml");
    expect(said).toMatchObject({ code: 0, stderr: expect.stringMatching(/spec\.image: .*no image is pulled/) });
    const id = said.stdout.trim();
    writeFileSync(join(dir, "again.yaml"), (await ask("get", id, "-o", "agent-task")).stdout);
    expect((await ask("apply", "-f", "again.yaml")).stdout.trim()).toBe(id);
    const again = (await ask("apply", "-f", "again.yaml", "--key", "again")).stdout.trim();
    const [a, b] = await Promise.all([id, again].map(async (each) => (await library.job(each)).get()));
    const { "agent-task/values": values, ...annotations } = a?.annotations ?? {};
    expect(values).toBeTypeOf("string"); // the view shows all of them as values of the task
    expect(b).toMatchObject({ payload: a?.payload, policy: a?.policy, annotations });
  });
});

describe.each(KINDS)("get -o yaml for every view, on %s", (kind) => {
  /** Text that a careless YAML writer would change. */
  const PROMPT = "  Plan it: yes\n\n\t- no: 0123 # 1e3\n \nünï\u200b\r\n";
  const manifest = {
    ...{ apiVersion: "core.hortator.ai/v1alpha1", kind: "AgentTask" },
    metadata: { name: "yes", labels: { on: "0123" }, annotations: { note: ": a" } },
    spec: { prompt: PROMPT, command: ["sh", "-c", "exit 7", "", " -"], env: { A: "~", B: "1e3" }, tier: "legionary" },
  };

  it("prints what -o VIEW prints, as YAML; the default is the view of the system the job came from", async () => {
    const { ask, askJson, library, dir } = await openWhere(kind);
    writeFileSync(join(dir, "task.yaml"), JSON.stringify(manifest));
    const id = (await ask("apply", "-f", "task.yaml")).stdout.trim();
    const yamlOf = async (...argv: string[]) => {
      const { code, stdout } = await ask("get", id, "-o", ...argv);
      expect(code).toBe(0);
      return JSON.parse(JSON.stringify(readYaml(stdout, "stdout").value));
    };
    for (const view of JOB_VIEW_NAMES) {
      const shown = JSON.parse((await ask("get", id, "-o", view)).stdout);
      expect(await yamlOf(`${view},yaml`)).toEqual(shown);
      expect(JSON.parse((await ask("get", id, "-o", `${view},json`)).stdout)).toEqual(shown);
    }
    const task = await yamlOf("yaml");
    expect(task).toEqual(JSON.parse((await ask("get", id, "-o", "json")).stdout));
    expect(task).toMatchObject({ kind: "AgentTask", metadata: { name: "yes" }, spec: { prompt: PROMPT } });
    expect(task.status.phase).toBe("Pending");
    const own = await askJson<object>("get", id);
    expect(await yamlOf("perdure,yaml")).toEqual(own);
    const ours = await library.submit("k", { a: "yes" });
    const printed = (await ask("get", ours.id, "-o", "yaml")).stdout;
    expect(readYaml(printed, "stdout").value).toMatchObject({ kind: "k", payload: { a: "yes" } });
    expect(printed).toContain('a: "yes"');
  });

  it("can be applied again: perdure apply -f -, its status ignored with a note", async () => {
    const { ask, library, dir } = await openWhere(kind);
    writeFileSync(join(dir, "task.yaml"), JSON.stringify(manifest));
    const id = (await ask("apply", "-f", "task.yaml")).stdout.trim();
    writeFileSync(join(dir, "again.yaml"), (await ask("get", id, "-o", "yaml")).stdout);
    const again = await ask("apply", "-f", "again.yaml");
    expect(again.stderr).toContain("status: belongs to another job and is ignored.");
    expect([again.stdout.trim(), again.stderr]).toEqual([id, expect.stringContaining("already exists, unchanged")]);
    const another = await ask("apply", "-f", "again.yaml", "--key", "another");
    const [a, b] = await Promise.all([id, another.stdout.trim()].map(async (each) => (await library.job(each)).get()));
    expect(b?.id).not.toBe(a?.id);
    const { payload, policy, tags, ...rest } = a as NonNullable<typeof a>;
    // The view contains all values, also those that came from a tier.
    const { "agent-task/values": _, ...annotations } = rest.annotations;
    expect(b).toMatchObject({ payload, policy, annotations, tags });
  });
});

describe.each(KINDS)("resubmit on %s", (kind) => {
  it("submits a copy of a job with another prompt, model and command", async () => {
    const { ask, askJson, library } = await openWhere(kind);
    const id = await submitted(library);
    const before = await (await library.job(id)).get();
    const said = await ask("resubmit", id, "--prompt", "Try harder.", "--model", "haiku", "--", "sh", "-c", "exit 0");
    expect(said).toMatchObject({ code: 0, stderr: "", stdout: expect.stringMatching(/^job_\w{26}\n$/) });
    const job = await (await library.job(said.stdout.trim())).get();
    expect(job).toMatchObject({
      ...{ kind: "exec", queue: "agents", timeoutMs: 60_000, state: "queued", parentId: null },
      tags: ["red", `resubmit-of=${id}`],
      ...{ policy: before.policy, annotations: { ...ANNOTATIONS, "resubmit-of": id } },
      payload: { argv: ["sh", "-c", "exit 0"], env: { AGENT_PROMPT: "Try harder.", AGENT_MODEL: "haiku" } },
    });
    const shown = await askJson<{ spec: object }>("describe", job.id, ...IN_THEIRS);
    expect(shown.spec).toMatchObject({ prompt: "Try harder.", model: "haiku", command: ["sh", "-c", "exit 0"] });
  });

  it("changes timeout, queue, attempts, policy and variables, and nothing else", async () => {
    const { askJson, library } = await openWhere(kind);
    const retry = { ...QUICK, budget: { tokens: 100, costUsd: 1 } };
    const id = await submitted(library, { retry });
    const before = await (await library.job(id)).get();
    const again = async (...argv: string[]) => {
      const made = await askJson<{ id: string }>("resubmit", id, ...argv);
      return (await library.job(made.id)).get();
    };
    const larger = await again("--retry", '{"budget":{"costUsd":5}}', "--timeout", "2m", "--queue", "slow");
    expect(larger).toMatchObject({ queue: "slow", timeoutMs: 120_000, payload: before.payload });
    expect(larger.policy).toEqual({ ...before.policy, budget: { tokens: 100, costUsd: 5 } });
    // The agent reads its budget there: it is the budget in force.
    expect(larger.payload).toMatchObject({ env: { AGENT_MAX_COST_USD: "5", AGENT_MAX_TOKENS: "100" } });
    const longer = await again("--max-attempts", "9", "--env", "LEVEL=debug");
    expect(longer.policy).toEqual({ ...before.policy, maxAttempts: 9 });
    expect(longer).toMatchObject({ queue: "agents", timeoutMs: 60_000 });
    expect(longer.payload).toMatchObject({ argv: AGENT.argv, env: { ...AGENT.env, LEVEL: "debug" } });
    expect((await again("--retry", '{"preset":"opal"}')).policy).toMatchObject({ preset: "opal", maxAttempts: 2 });
    expect((await again("--retry", "7")).policy).toEqual({ ...before.policy, maxAttempts: 7 });
  });

  it("keeps the parent while that has not ended", async () => {
    const { ask, askJson, library } = await openWhere(kind);
    const parent = await submitted(library);
    const child = await submitted(library, { parent });
    const first = await askJson<{ id: string }>("resubmit", child, "--prompt", "Again.");
    expect(await (await library.job(first.id)).get()).toMatchObject({ parentId: parent });
    await library.cancel(parent);
    const second = await ask("resubmit", child);
    expect(second).toMatchObject({ code: 0, stderr: expect.stringContaining(`the parent ${parent} has ended`) });
    expect(await (await library.job(second.stdout.trim())).get()).toMatchObject({ parentId: null });
  });

  it("returns the existing job for a key", async () => {
    const { ask, askJson, library } = await openWhere(kind);
    const id = await submitted(library);
    const first = await askJson("resubmit", id, "--key", "k");
    expect(first).toMatchObject({ id: expect.any(String), created: true, resubmitOf: id, budgets: [] });
    const second = await ask("resubmit", id, "--key", "k");
    expect(second).toMatchObject({ code: 0, stdout: `${(first as { id: string }).id}\n` });
    expect(second.stderr).toContain("already exists for key");
  });

  it("refuses invalid options: exit code 2, nothing stored", async () => {
    const { ask, library } = await openWhere(kind);
    const hopeless = task("hopeless", {}, () => {
      throw new NonRetryableError("no");
    });
    const other = (await library.submit(hopeless)).id;
    const id = await submitted(library);
    const wrong = [
      ...[[], ["x\n"], [id, "y"], [id, "--"], [other, "--prompt", "x"], [other, "--", "ls"], [other, "--env", "A=1"]],
      ...[
        ["--timeout", "5"],
        ["--queue", "a\nb"],
        ["--max-attempts", "0"],
        ["--env", "1=2"],
      ].map((argv) => [id, ...argv]),
      ...["{", "true", '{"budget":{"costUsd":-1}}', '{"maxAttempt":1}'].map((json) => [id, "--retry", json]),
    ];
    for (const argv of wrong) {
      expect(await ask("resubmit", ...argv)).toMatchObject({ code: 2, stdout: "" });
    }
    expect((await library.jobs()).jobs).toHaveLength(2);
  });
});
