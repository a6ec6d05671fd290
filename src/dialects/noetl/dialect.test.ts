import { describe, expect, it } from "vitest";
import { ConfigError } from "../../core/errors.ts";
import { PYTHON_RUNNER } from "../../core/input/python-harness.ts";
import type { ReadContext } from "../dialect.ts";
import { DIALECT_DEFAULTS } from "../settings.ts";
import { noetl } from "./dialect.ts";

const CONTEXT: ReadContext = {
  ...{ settings: DIALECT_DEFAULTS, parameters: {}, documents: [], file: "jobs/fetch-data.yaml" },
  yaml: () => null,
  bytes: (path) => (path === "lib/fetch.py" ? new TextEncoder().encode("print('ünï')\n") : null),
  randomBytes: (count) => new Uint8Array(count),
};

const read = (document: unknown) => noetl.read(document, CONTEXT);
const jobOf = (document: unknown) => {
  const { jobs, notes } = read(document);
  expect(notes).toEqual([]);
  expect(jobs).toHaveLength(1);
  return jobs[0];
};

function mistakeIn(document: unknown): ConfigError {
  try {
    read(document);
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error("accepted");
}

const HTTP = { step: "fetch_data", type: "http", url: "https://api.example.com/data" };
const SHELL = { step: "s", type: "shell", command: "true" };
const base64 = (text: string) => Buffer.from(text).toString("base64");

describe("a task of NoETL", () => {
  it("http is a request", () => {
    const job = jobOf({
      ...{ ...HTTP, method: "POST", headers: { accept: "text/plain" }, timeout: 2.5, desc: "Gets it" },
      ...{ params: { q: "a b&c", page: 2, tag: ["x", "y"], deep: true }, payload: { id: 7 } },
    });
    expect(job).toEqual({
      task: "http",
      input: {
        url: "https://api.example.com/data?q=a+b%26c&page=2&tag=x&tag=y&deep=true",
        ...{ method: "POST", headers: { accept: "text/plain" }, body: { id: 7 }, timeout: 2_500 },
      },
      options: {
        retry: { preset: "noetl", maxAttempts: 1 },
        annotations: { "noetl/step": "fetch_data", "noetl/type": "http", "noetl/desc": "Gets it" },
      },
    });
  });

  it("params are added to those in the address", () => {
    const input = (url: string, params: object) => jobOf({ ...HTTP, url, params })?.input;
    expect(input("https://a.example/?x=%20#top", { y: 1 })).toEqual({ url: "https://a.example/?x=%20&y=1#top" });
    expect(input("https://a.example", {})).toEqual({ url: "https://a.example/" });
  });

  it.each(["data", "payload", "body"])("%s is its body", (name) => {
    expect(jobOf({ ...HTTP, method: "put", [name]: "text" })?.input).toMatchObject({ body: "text" });
  });

  it("a shell's command is text for sh, or a list for no shell at all", () => {
    expect(jobOf({ ...SHELL, command: "echo $A | wc", env: { A: "1" }, timeout: 60 })).toMatchObject({
      task: "exec",
      input: { command: "echo $A | wc", shell: true, env: { A: "1" } },
      options: { timeout: 60_000, annotations: { "noetl/type": "shell" } },
    });
    expect(jobOf({ ...SHELL, command: ["echo", "$A", ""] })?.input).toEqual({ argv: ["echo", "$A", ""] });
  });

  it("python's code is a file for a worker that has python, beside one that calls its main", () => {
    expect(jobOf({ step: "p", tool: "python", code: "print(1)\n" })).toEqual({
      task: "exec",
      input: {
        argv: ["python3", "inputs/run_task.py"],
        files: { "task.py": base64("print(1)\n"), "run_task.py": base64(PYTHON_RUNNER) },
      },
      options: expect.objectContaining({
        labels: { "runtime/python": "yes" },
        annotations: { "noetl/step": "p", "noetl/type": "python" },
      }),
    });
    for (const name of ["args", "data", "input", "with", "payload"]) {
      const given = jobOf({ step: "p", type: "python", code: "1", args: null, [name]: { city: "Paris" } });
      expect(given?.input).toMatchObject({ input: { city: "Paris" } });
    }
    expect(jobOf({ step: "p", type: "python", script: "lib/fetch.py" })?.input).toMatchObject({
      files: { "task.py": base64("print('ünï')\n") },
    });
  });

  it("has the name of its file if it has none", () => {
    const named = (file: string) => noetl.read({ type: "shell", command: "true" }, { ...CONTEXT, file }).jobs[0];
    expect(named("jobs/fetch-data.yaml")?.options?.annotations).toMatchObject({ "noetl/step": "fetch-data" });
    expect(named("-")?.options?.annotations).toMatchObject({ "noetl/step": "-" });
    expect(named(".yaml")?.options?.annotations).toMatchObject({ "noetl/step": "task" });
  });

  it("keeps its retry, with its defaults, to be shown again", () => {
    const { annotations } = jobOf({ ...SHELL, retry: 4 })?.options ?? {};
    expect(JSON.parse(annotations?.["noetl/retry"] ?? "")).toEqual({
      ...{ max_attempts: 4, initial_delay: 1, backoff_multiplier: 2, max_delay: 60, jitter: true },
      ...{ retry_when: null, stop_when: null },
    });
  });

  it.each<[string, unknown, string, RegExp]>([
    ["something else", 5, "", /an object/],
    ["no type", { step: "a", url: "https://a.example" }, "type", /"http", "shell", "python"/],
    ["another type", { ...HTTP, type: "htpp" }, "type", /"http"/],
    ["type and tool", { ...HTTP, tool: "http" }, "tool", /either type or tool/],
    ["a tool with parts", { step: "a", tool: { kind: "http" } }, "tool", /"http"/],
    ["no url", { step: "a", type: "http" }, "url", /an http or https address/],
    ["a url that is none", { ...HTTP, url: "api.example.com" }, "url", /an http or https address/],
    ["such a url with params", { ...HTTP, url: "api", params: { a: 1 } }, "url", /an http or https address/],
    ["a param that is no value", { ...HTTP, params: { a: { b: 1 } } }, "params.a", /text, a number/],
    ["too many params", { ...HTTP, params: { a: Array(60).fill(1), b: Array(60).fill(1) } }, "params", /at most 100/],
    ["a body with GET", { ...HTTP, data: {} }, "data", /POST/],
    ["two bodies", { ...HTTP, method: "POST", data: {}, body: "" }, "body", /one of data, payload, body/],
    ["a header that is no text", { ...HTTP, headers: { a: 1 } }, "headers.a", /text/],
    ["a negative timeout", { ...HTTP, timeout: -1 }, "timeout", /from 0.001 to/],
    ["a timeout with a unit", { ...SHELL, timeout: "30s" }, "timeout", /a number/],
    ["a timeout of no time", { ...SHELL, timeout: 0 }, "timeout", /from 0.001 to/],
    ["no command", { step: "a", type: "shell" }, "command", /text for a shell, or a list/],
    ["an empty command", { ...SHELL, command: " " }, "command", /not only spaces/],
    ["an empty list", { ...SHELL, command: [] }, "command", /1 to/],
    ["a number as an argument", { ...SHELL, command: ["sleep", 5] }, "command[1]", /text/],
    ["an empty program", { ...SHELL, command: ["", "x"] }, "command[0]", /not only spaces/],
    ["env that is no text", { ...SHELL, env: { A: 1 } }, "env.A", /text/],
    ["env of ours", { ...SHELL, env: { PERDURE_JOB_ID: "x" } }, "env.PERDURE_JOB_ID", /a name without PERDURE_/],
    ["env for a request", { ...HTTP, env: {} }, "env", /url, method/],
    ["no code", { step: "p", type: "python" }, "code", /the program itself/],
    ["code and script", { step: "p", type: "python", code: "1", script: "a" }, "code", /the program itself/],
    ["a script that is not there", { step: "p", type: "python", script: "a.py" }, "script", /the path of a file/],
    ["arguments without names", { step: "p", type: "python", code: "1", args: [1] }, "args", /by their names/],
    ["arguments twice", { step: "p", type: "python", code: "1", args: {}, data: {} }, "data", /one of args, data/],
    ["a template in them", { step: "p", type: "python", code: "1", data: { a: "{{ b }}" } }, "data.a", /without/],
    ["a name on two lines", { ...SHELL, step: "a\nb" }, "step", /on one line/],
    ["a name that is no text", { ...SHELL, step: 7 }, "step", /text/],
    ["a bad retry", { ...SHELL, retry: { max_attempts: -1 } }, "retry.max_attempts", /from 1 to/],
    ["a bad next", { ...SHELL, next: 7 }, "next", /an object with step/],
  ])("refuses %s", (_, document, path, allowed) => {
    expect(mistakeIn(document)).toMatchObject({ path, allowed: expect.stringMatching(allowed) });
  });

  it.each([
    ["rety", "retry"],
    ["ulr", "url"],
    ["heders", "headers"],
  ])("names the field that %s was meant to be", (field, nearest) => {
    expect(mistakeIn({ ...HTTP, [field]: 1 })).toMatchObject({ path: field, nearest });
  });

  it("refuses templates where they would be sent, without showing them", () => {
    const secret = "Bearer s3cret {{ token }}";
    const inHeader = mistakeIn({ ...HTTP, headers: { authorization: secret } });
    expect(inHeader).toMatchObject({ path: "headers.authorization" });
    expect(inHeader.message).not.toContain("s3cret");
    expect(mistakeIn({ ...HTTP, url: "https://a.example/{{ workload.id }}" })).toMatchObject({ path: "url" });
    expect(mistakeIn({ ...HTTP, method: "POST", data: { a: [1, "{% if x %}"] } })).toMatchObject({ path: "data.a[1]" });
    expect(mistakeIn({ ...SHELL, env: { A: "{{ a }}" } })).toMatchObject({ path: "env.A" });
    for (const command of ["rm -rf {{ dir }}/cache", "{% if x %} true", "docker ps --format '{{.ID}}'"]) {
      const mistake = mistakeIn({ ...SHELL, command });
      expect(mistake).toMatchObject({ path: "command" });
      expect(mistake.message).toContain("Use a list");
      expect(mistake.message).not.toContain("cache");
    }
  });

  it("notes what it does not do", () => {
    expect(read({ ...HTTP, next: [{ step: "process_data" }, "end"] }).notes).toEqual([
      'next: "process_data", "end" ignored: only this task is run',
    ]);
    expect(read({ ...SHELL, command: ["docker", "ps", "--format", "{{.ID}}"] }).notes).toEqual([
      expect.stringContaining("command has {{ or {%: it is run unchanged"),
    ]);
    expect(read({ ...SHELL, retry: null }).notes).toEqual(["retry is empty: the task is not retried"]);
    expect(read({ step: "p", type: "python", code: "def main(x):\n    return x\n" }).notes).toEqual([]);
    expect(read({ ...SHELL, retry: { initial_delay: 90 } }).notes).toEqual([
      "retry: initial_delay is 90, and every retry waits for the cap of 60 s.",
    ]);
    expect(read({ ...SHELL, retry: { max_attempts: 1, initial_delay: 90 } }).notes).toEqual([]);
  });
});

describe("a playbook of NoETL", () => {
  const task = { ...HTTP, retry: 3, next: [{ step: "end" }] };
  const playbook = (workflow: unknown, more: object = {}) => ({
    ...{ apiVersion: "noetl.io/v1", kind: "Playbook", metadata: { name: "demo", path: "x/demo" }, workflow },
    ...more,
  });

  it("with one step to run is that task", () => {
    const workflow = [{ step: "start", desc: "Begin", next: [{ step: "fetch_data" }] }, task, { step: "end" }];
    expect(jobOf(playbook(workflow))).toMatchObject({
      task: "http",
      options: {
        retry: { maxAttempts: 3 },
        annotations: { "noetl/step": "fetch_data", "noetl/playbook": "demo" },
      },
    });
    expect(jobOf({ name: "old", workflow: [{ ...task, next: "end" }, { step: "end" }] })?.options).toMatchObject({
      annotations: { "noetl/playbook": "old" },
    });
  });

  it("has a note for its workload", () => {
    expect(read(playbook([{ ...task, next: [] }], { workload: { a: 1 } })).notes).toEqual([
      "workload is ignored: templates are only filled in whole playbooks, and this is read as a single task",
    ]);
  });

  it.each<[string, unknown, string, RegExp]>([
    [
      "a second step",
      playbook([task, { step: "b", type: "shell", command: "true" }, { step: "end" }]),
      "workflow[1]",
      /a whole playbook is a run/,
    ],
    [
      "a step that chooses",
      playbook([{ step: "start" }, task, { step: "choose", next: [] }]),
      "workflow[2]",
      /a whole playbook is a run/,
    ],
    ["no step to run", playbook([{ step: "start" }, { step: "end" }]), "workflow", /one step with a type/],
    ["no workflow", { apiVersion: "noetl.io/v1", kind: "Playbook" }, "workflow", /a list/],
    [
      "a way to nowhere",
      playbook([{ ...task, next: [{ step: "process_data" }] }]),
      "workflow[0].next[0].step",
      /a whole playbook is a run/,
    ],
    ["a loop", playbook([{ ...task, next: "fetch_data" }]), "workflow[0].next", /a whole playbook is a run/],
    [
      "a condition on the way",
      playbook([{ ...task, next: [{ when: "{{ a }}", step: "end" }] }, { step: "end" }]),
      "workflow[0].next[0].when",
      /step/,
    ],
    ["an action of end", playbook([task, { step: "end", url: "x" }]), "workflow[1].url", /step, desc, next/],
    ["another version", playbook([task], { apiVersion: "noetl.com/v1" }), "apiVersion", /noetl.io\/v1/],
    ["another kind", playbook([task], { kind: "Workbook" }), "kind", /Playbook/],
    ["an unknown field", playbook([task], { workbok: [] }), "workbok", /workflow/],
    ["a mistake in its task", playbook([{ step: "start" }, { ...task, next: [], ulr: 1 }]), "workflow[1].ulr", /url/],
    [
      "a bad expression",
      playbook([{ ...task, next: [], retry: { retry_when: "{{ 1 + }}" } }]),
      "workflow[0].retry.retry_when",
      /Jinja/,
    ],
  ])("with %s is refused", (_, document, path, allowed) => {
    expect(mistakeIn(document)).toMatchObject({ path, allowed: expect.stringMatching(allowed) });
  });
});

describe("documents of NoETL", () => {
  it.each([
    [{ workflow: [] }],
    [HTTP],
    [{ step: "a", tool: "python" }],
    [{ type: "shell", command: "true", retry: { max_attempts: 2 } }],
    [{ apiVersion: "noetl.io/v2", kind: "Playbook" }],
  ])("%j is recognised", (document) => {
    expect(noetl.recognises(document)).toBe(true);
  });

  it.each([
    [null],
    ["workflow"],
    [[HTTP]],
    [{ apiVersion: "core.hortator.ai/v1alpha1", kind: "AgentTask", spec: { retry: { max_attempts: 1 } } }],
    [{ entrypoint: "x", retry: { max_retries_failure: 3 } }],
    [{ name: "a", runtime: "python", entrypoint: "a.py" }],
    [{ task: "exec", input: {}, retry: { maxAttempts: 3 } }],
  ])("%j is not", (document) => {
    expect(noetl.recognises(document)).toBe(false);
  });
});
