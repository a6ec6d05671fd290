import { describe, expect, it } from "vitest";
import { ConfigError } from "../../core/errors.ts";
import type { ExecInput } from "../../core/input/exec-input.ts";
import type { ReadContext, ReadEntry } from "../dialect.ts";
import { DIALECT_DEFAULTS } from "../settings.ts";
import { agentTask } from "./dialect.ts";

const context = (parts: Partial<ReadContext> = {}): ReadContext => ({
  ...{ settings: DIALECT_DEFAULTS, parameters: {}, documents: [], file: "task.yaml" },
  ...{ yaml: () => null, bytes: () => null, randomBytes: (count) => new Uint8Array(count) },
  ...parts,
});
const SPEC = { prompt: "Do it.", command: ["/opt/agent", "--fast"] };
const doc = (spec: object = {}, more: object = {}) => ({
  ...{
    apiVersion: "core.hortator.ai/v1alpha1",
    kind: "AgentTask",
    metadata: { name: "t" },
    spec: { ...SPEC, ...spec },
  },
  ...more,
});
const role = (spec: object, name = "researcher") => ({
  ...{ apiVersion: "core.hortator.ai/v1alpha1", kind: "ClusterAgentRole", metadata: { name }, spec },
});
const read = (document: unknown, parts?: Partial<ReadContext>) => agentTask.read(document, context(parts));
const entry = (document: unknown, parts?: Partial<ReadContext>) => read(document, parts).jobs[0] as ReadEntry;
const input = (spec: object, parts?: Partial<ReadContext>) => entry(doc(spec), parts).input as ExecInput;
const options = (spec: object, parts?: Partial<ReadContext>) => entry(doc(spec), parts).options ?? {};
const text = (base64: string | undefined) => Buffer.from(base64 ?? "", "base64").toString("utf8");
const agent = (parts: object) => ({ ...DIALECT_DEFAULTS, agent: { ...DIALECT_DEFAULTS.agent, ...parts } });

function refusal(document: unknown, parts?: Partial<ReadContext>): ConfigError {
  try {
    read(document, parts);
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

describe("a document", () => {
  it("is recognised by its kind", () => {
    expect(agentTask.recognises(doc())).toBe(true);
    expect(agentTask.recognises(role({}))).toBe(true);
    for (const other of [{ kind: "AgentTask", input: 1 }, { kind: "exec" }, { ...doc(), kind: "Pod" }, null, [], "x"]) {
      expect(agentTask.recognises(other)).toBe(false);
    }
  });

  it("is a command, with what the agent needs in its environment and in files", () => {
    const { jobs, notes } = read(doc({ tier: "tribune", model: "opus", budget: { maxCostUsd: 1.5, maxTokens: 9 } }));
    expect(notes).toEqual([]);
    expect(jobs).toEqual([
      {
        task: "exec",
        input: {
          argv: ["/opt/agent", "--fast"],
          env: {
            ...{ AGENT_TASK_NAME: "t", AGENT_TIER: "tribune", AGENT_MAX_COST_USD: "1.5", AGENT_MAX_TOKENS: "9" },
            ...{ AGENT_MODEL: "opus", AGENT_PROMPT: "Do it.", AGENT_PROMPT_FILE: "inputs/prompt.txt" },
          },
          files: { "prompt.txt": Buffer.from("Do it.").toString("base64") },
          fill: { AGENT_TASK_ID: "jobId", AGENT_ATTEMPT: "attempt" },
        },
        options: {
          retry: {
            ...{ preset: "agent", maxAttempts: 1, onTimeout: "retry", budget: { costUsd: 1.5, tokens: 9 } },
            backoff: { type: "exponential", initial: "30s", max: "300s" },
          },
          annotations: {
            ...{ "agent-task/name": "t", "agent-task/tier": "tribune" },
            "agent-task/api-version": "core.hortator.ai/v1alpha1",
            "agent-task/values": expect.stringMatching(
              /^\{"retry\.maxAttempts":\[1,"tier"\],.*"model\.name":\[null,"spec"\]/,
            ),
          },
        },
      },
    ]);
  });

  it("keeps labels as tags and annotations unchanged, and notes that its namespace has no effect", () => {
    const metadata = {
      ...{ name: "t", namespace: "agents", uid: "1", creationTimestamp: "x", resourceVersion: "7" },
      labels: { app: "x", "example.org/team": "" },
      annotations: { "example.org/a": "1", "kubectl.kubernetes.io/last-applied-configuration": "{}" },
    };
    const { jobs, notes } = read({ ...doc(), metadata, status: { phase: "Failed" } });
    expect(jobs[0]?.options).toMatchObject({ tags: ["app=x", "example.org/team="] });
    expect(jobs[0]?.options?.annotations).toMatchObject({ "example.org/a": "1", "agent-task/namespace": "agents" });
    expect(Object.keys(jobs[0]?.options?.annotations ?? {})).toHaveLength(5);
    expect(notes.map((note) => note.split(":")[0])).toEqual(["metadata.namespace", "status"]);
  });
});

describe("the prompt", () => {
  it("is in the environment up to 32 KiB and without NUL, and always in a file", () => {
    const kept = (prompt: string) => {
      const { env, files } = input({ prompt });
      expect(text(files?.["prompt.txt"])).toBe(prompt);
      return env?.AGENT_PROMPT === prompt;
    };
    expect([kept("é".repeat(16_384)), kept("é".repeat(16_385)), kept("a\0b")]).toEqual([true, false, false]);
  });

  it("is not needed by a task with a command of its own", () => {
    expect(input({ prompt: null }).env).toEqual({ AGENT_TASK_NAME: "t" });
    const settings = agent({ command: ["/usr/bin/agent"] });
    expect(refusal(doc({ prompt: null, command: null }), { settings }).message).toMatch(/^spec: no prompt/);
  });
});

describe("the command", () => {
  it("is the task's with its args, else that of the settings, else missing", () => {
    expect(input({ args: ["-v"] }).argv).toEqual(["/opt/agent", "--fast", "-v"]);
    const settings = agent({ command: ["/usr/bin/agent"] });
    expect(input({ command: null, args: ["-v"] }, { settings }).argv).toEqual(["/usr/bin/agent", "-v"]);
    const { path, message } = refusal(doc({ command: null }));
    expect(path).toBe("spec");
    expect(message).toMatch(/spec\.command, or the setting agent\.command/);
  });

  it("is not expanded as by a kubelet, with a note", () => {
    const { notes } = read(doc({ command: ["sh", "-c", "echo $(WHO) $(date)"], env: { WHO: "me" } }));
    expect(notes).toEqual([expect.stringContaining("$(WHO) is not replaced")]);
  });
});

describe("env", () => {
  it("is a list as in a pod, or a mapping", () => {
    const env = [{ name: "A", value: "1" }, { name: "B" }];
    expect(input({ env }).env).toMatchObject({ A: "1", B: "" });
    expect(input({ env: { A: "1" } }).env).toMatchObject({ A: "1" });
  });

  it.each([
    [
      [{ name: "A", valueFrom: { secretKeyRef: {} } }],
      "spec.env[0].valueFrom",
      /secrets and config maps are not supported/,
    ],
    [[{ name: "A", value: 1 }], "spec.env[0].value", /put it in quotes/],
    [[{ name: "A" }, { name: "A" }], "spec.env[1].name", /twice/],
    [{ "A-B": "1" }, 'spec.env["A-B"]', /letters/],
    [{ PERDURE_URL: "1" }, "spec.env.PERDURE_URL", /Perdure sets this one/],
    [{ AGENT_PROMPT: "1" }, "spec.env.AGENT_PROMPT", /Perdure sets this one/],
    [[{ name: "A", vaule: "1" }], "spec.env[0].vaule", /Did you mean "value"/],
    ["A=1", "spec.env", /a list/],
  ])("%j is refused", (env, path, message) => {
    const error = refusal(doc({ env }));
    expect([error.path, error.message]).toEqual([path, expect.stringMatching(message)]);
  });
});

describe("the model", () => {
  it("is a name, or an object with one", () => {
    const model = { name: "opus", endpoint: "https://x", provider: "p", apiKeyRef: { secretName: "s" } };
    expect(input({ model }).env).toMatchObject({
      ...{ AGENT_MODEL: "opus", AGENT_MODEL_ENDPOINT: "https://x", AGENT_MODEL_PROVIDER: "p" },
    });
    expect(read(doc({ model })).notes).toEqual([expect.stringMatching(/^spec\.model\.apiKeyRef: /)]);
    expect(refusal(doc({ model: { nmae: "x" } })).message).toMatch(/Did you mean "name"/);
  });
});

describe("timeout", () => {
  it.each([
    [90, 90_000],
    [0.5, 500],
    ["30m", 1_800_000],
    ["1h30m", 5_400_000],
    ["250ms", 250],
    ["1d", 86_400_000],
    ["1d12h", 129_600_000],
    ["1.5d", 129_600_000],
    ["1h30m0s", 5_400_000],
  ])("spec.timeout: %j is %i ms", (timeout, ms) => {
    expect(options({ timeout }).timeout).toBe(ms);
  });

  it("with another unit is refused with those that are accepted", () => {
    expect(refusal(doc({ timeout: "1 day" })).message).toBe(
      'spec.timeout: must be a number of seconds, or text such as "90s", "30m", "1h30m" or "1d" (units d, h, m, s and ms); got "1 day".',
    );
  });

  it.each([0, -1, "0s", "1D", "d", "1w", "4000d", "-5m", "5", "5 minutes", "1e9h", true, Number.NaN, 1e12])(
    "%j is refused",
    (timeout) => {
      expect(refusal(doc({ timeout })).path).toBe("spec.timeout");
    },
  );
});

describe("resources", () => {
  it("are requests, else limits; a limit of memory is kept to", () => {
    const resources = { requests: { cpu: "500m" }, limits: { cpu: 2, memory: "512Mi" } };
    const { notes } = read(doc({ resources }));
    expect(options({ resources }).resources).toEqual({ cpu: 0.5, memory: 536_870_912 });
    expect(input({ resources }).limits).toEqual({ memory: 536_870_912 });
    expect(notes).toEqual([expect.stringMatching(/^spec\.resources\.limits\.cpu: /)]);
    expect(options({ resources: { requests: { memory: "1G" } } }).resources).toEqual({ memory: 1e9 });
  });

  it.each([
    [{ requests: { cpu: "-1" } }, "spec.resources.requests.cpu"],
    [{ limits: { memory: "512MB" } }, "spec.resources.limits.memory"],
    [{ limits: { gpu: 1 } }, "spec.resources.limits.gpu"],
    [{ limits: { memory: 0 } }, "spec.resources.limits.memory"],
  ])("%j is refused", (resources, path) => {
    expect(refusal(doc({ resources })).path).toBe(path);
  });
});

describe("a parent", () => {
  it("is a job", () => {
    const parentTaskId = "job_01m7gekg9zevv9a6xvvwmt1v8g";
    expect(options({ parentTaskId }).parent).toBe(parentTaskId);
    expect(refusal(doc({ parentTaskId: "parent-task" })).message).toMatch(/the id of a job/);
  });
});

describe("roles", () => {
  const ROLE = role({ retry: { maxAttempts: 4 }, defaultModel: "haiku", description: "reads", tools: ["web"] });

  it("alone are not jobs, but are checked", () => {
    const { jobs, notes } = read(ROLE);
    expect([jobs, notes]).toEqual([[], [expect.stringMatching(/a role is not a job.*agent\.roles/)]]);
    expect(read(ROLE, { documents: [doc({ role: "researcher" })] })).toEqual({ jobs: [], notes: [] });
    expect(refusal(role({ retry: { maxAttempt: 4 } })).message).toMatch(
      /^spec\.retry\.maxAttempt: unknown field .*Did you mean "maxAttempts"/,
    );
  });

  it("come from other documents, else from the settings, and go to the agent as a file", () => {
    const beside = { documents: [doc(), ROLE], settings: agent({ roles: [role({ retry: { maxAttempts: 9 } })] }) };
    const { jobs, notes } = read(doc({ role: "researcher" }), beside);
    expect(notes).toEqual([]);
    expect(jobs[0]?.options?.retry).toMatchObject({ maxAttempts: 4 });
    const { env, files } = input({ role: "researcher" }, beside);
    expect(env).toMatchObject({ AGENT_ROLE: "researcher", AGENT_ROLE_FILE: "inputs/role.json", AGENT_MODEL: "haiku" });
    expect(JSON.parse(text(files?.["role.json"]))).toEqual(ROLE.spec);
    const configured = { settings: beside.settings };
    expect(options({ role: "researcher" }, configured).retry).toMatchObject({ maxAttempts: 9 });
  });

  it("that do not exist are noted, with the nearest", () => {
    const { jobs, notes } = read(doc({ role: "reseacher" }), { documents: [ROLE] });
    expect(jobs).toHaveLength(1);
    expect(notes).toEqual([
      expect.stringMatching(/^spec\.role: ClusterAgentRole .* not found, .*Did you mean "researcher"\?$/),
    ]);
    expect(jobs[0]?.input).toMatchObject({ env: { AGENT_ROLE: "reseacher" } });
  });

  it("that are given twice, or have a mistake, are refused", () => {
    expect(refusal(doc({ role: "researcher" }), { documents: [ROLE, ROLE] }).message).toMatch(/two documents define/);
    const wrong = role({ retry: { maxAttempts: -1 } });
    const error = refusal(doc({ role: "researcher" }), { documents: [wrong] });
    expect(error.path).toBe("spec.role");
    expect(error.message).toMatch(/has a mistake: spec\.retry\.maxAttempts: must be a whole number.*; got -1/);
  });
});

describe("what cannot be done here", () => {
  it("is noted, a sentence each", () => {
    const spec = { image: "x", capabilities: ["shell"], storage: { size: "1Gi" }, rbac: {}, serviceAccountName: "a" };
    const { jobs, notes } = read(doc(spec));
    expect(jobs).toHaveLength(1);
    expect(notes.map((note) => note.split(":")[0]).sort()).toEqual(
      Object.keys(spec)
        .map((name) => `spec.${name}`)
        .sort(),
    );
    for (const note of notes) expect(note).toMatch(/\.$/);
  });

  it("a backoff above its cap is noted", () => {
    const { notes } = read(doc({ retry: { maxAttempts: 3, backoffSeconds: 600 } }));
    expect(notes).toEqual(["spec.retry: backoffSeconds is 600, and every retry waits for the cap of 300 s."]);
    // The floor of 1 s is what it waits for then.
    const floored = read(doc({ retry: { maxAttempts: 3, backoffSeconds: 30, maxBackoffSeconds: 0 } }));
    expect(floored.notes).toEqual(["spec.retry: backoffSeconds is 30, and every retry waits for the cap of 1 s."]);
    expect(floored.jobs[0]?.options?.retry).toMatchObject({ backoff: { max: "1s" } });
  });
});

describe("mistakes", () => {
  it.each([
    [{ ...doc(), apiVersion: "v1" }, "apiVersion"],
    [{ ...doc(), apiVersion: undefined }, "apiVersion"],
    [{ ...doc(), kind: "AgentTasks" }, "kind"],
    [{ ...doc(), metadata: undefined }, "metadata"],
    [{ ...doc(), metadata: { name: " " } }, "metadata.name"],
    [{ ...doc(), metadata: { name: "t", labels: { a: 1 } } }, "metadata.labels.a"],
    [{ ...doc(), metadata: { name: "t", labels: { a: "x".repeat(300) } } }, "metadata.labels.a"],
    [
      { ...doc(), metadata: { name: "t", annotations: { "agent-task/x": "" } } },
      'metadata.annotations["agent-task/x"]',
    ],
    [{ ...doc(), metadata: { name: "t", annotations: { a: "x".repeat(20_000) } } }, "metadata.annotations"],
    [{ ...doc(), spec: undefined }, "spec"],
    [{ ...doc(), spec: [] }, "spec"],
    [{ ...doc(), retry: {} }, "retry"],
    [doc({ prompt: "" }), "spec.prompt"],
    [doc({ prompt: "x".repeat(600_000) }), "spec.prompt"],
    [doc({ prompt: ["x"] }), "spec.prompt"],
    [doc({ command: "./agent.sh" }), "spec.command"],
    [doc({ command: [] }), "spec.command"],
    [doc({ command: [""] }), "spec.command[0]"],
    [doc({ command: ["a", 1] }), "spec.command[1]"],
    [doc({ args: { a: 1 } }), "spec.args"],
    [doc({ tier: "general" }), "spec.tier"],
    [doc({ role: 7 }), "spec.role"],
    [doc({ retry: 3 }), "spec.retry"],
    [doc({ retry: { maxAttempts: -1 } }), "spec.retry.maxAttempts"],
    [doc({ retry: { maxAttempts: 1.5 } }), "spec.retry.maxAttempts"],
    [doc({ retry: { maxAttempts: 1e9 } }), "spec.retry.maxAttempts"],
    [doc({ retry: { maxAttempts: "3" } }), "spec.retry.maxAttempts"],
    [doc({ retry: { backoffSeconds: -30 } }), "spec.retry.backoffSeconds"],
    [doc({ retry: { maxBackoffSeconds: 1e12 } }), "spec.retry.maxBackoffSeconds"],
    [doc({ budget: { maxCostUsd: -0.01 } }), "spec.budget.maxCostUsd"],
    [doc({ budget: { maxCostUsd: "much" } }), "spec.budget.maxCostUsd"],
    [doc({ budget: { maxTokens: 0.5 } }), "spec.budget.maxTokens"],
    [doc({ budget: { maxCostEur: 1 } }), "spec.budget.maxCostEur"],
  ])("are refused with their place: %#, %j", (document, path) => {
    expect(refusal(document).path).toBe(path);
  });

  it("name the nearest field", () => {
    expect(refusal(doc({ rety: {} })).nearest).toBe("retry");
    expect(refusal(doc({ tier: "legionnary" })).nearest).toBe("legionary");
    expect(refusal(doc({ retry: { maxAtempts: 1 } })).nearest).toBe("maxAttempts");
  });

  it("money may be text, as Kubernetes has no fractions", () => {
    expect(options({ budget: { maxCostUsd: "0.50" } }).retry).toMatchObject({ budget: { costUsd: 0.5 } });
  });
});
