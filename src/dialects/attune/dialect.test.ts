import { describe, expect, it } from "vitest";
import { ConfigError } from "../../core/errors.ts";
import { presets } from "../../core/policy/presets.ts";
import type { ReadContext, ReadEntry } from "../dialect.ts";
import { DIALECT_DEFAULTS } from "../settings.ts";
import { attune } from "./dialect.ts";

const FILES: Readonly<Record<string, string>> = {
  "../actions/run.sh": "echo pack\n",
  "run.sh": "echo here\n",
  "../lib/run.js": "lib\n",
  "../inner/deep.py": "deep\n",
};

function context(parts: Partial<ReadContext> & { pack?: unknown } = {}): ReadContext {
  const { pack = null, ...rest } = parts;
  return {
    ...{ settings: DIALECT_DEFAULTS, parameters: {}, documents: [], file: "run.yaml" },
    yaml: (path) => (path === "../pack.yaml" ? pack : null),
    bytes: (path) => (FILES[path] === undefined ? null : Buffer.from(FILES[path])),
    randomBytes: () => new Uint8Array(0),
    ...rest,
  };
}

const PACK = { ref: "mypack" };
const ACTION = { name: "go", runtime: "shell", entrypoint: "actions/run.sh" };

function read(words: object, parts: Parameters<typeof context>[0] = { pack: PACK }) {
  const { jobs, notes } = attune.read(words, context(parts));
  const [entry] = jobs as [ReadEntry];
  const input = entry.input as { argv: string[]; files: Record<string, string>; input: unknown };
  const [file = ""] = Object.keys(input.files);
  const text = Buffer.from(input.files[file] ?? "", "base64").toString();
  return { entry, input, file, text, notes, options: entry.options ?? {} };
}

function faultOf(words: object, parts?: Parameters<typeof context>[0]): ConfigError {
  try {
    read(words, parts);
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error("it was read");
}

describe("an action", () => {
  it.each([
    ["python", "python3", "python"],
    ["shell", "sh", "shell"],
    ["node", "node", "node"],
    ["nodejs", "node", "node"],
    ["Shell", "sh", "shell"],
  ])("of runtime %s is run by %s on a worker that has %s", (runtime, program, label) => {
    const { input, options, entry } = read({ ...ACTION, runtime });
    expect(entry.task).toBe("exec");
    expect(input.argv).toEqual([program, "inputs/run.sh"]);
    expect(options.labels).toEqual({ [`runtime/${label}`]: "yes" });
  });

  it("lists the known runtimes if it has another", () => {
    expect(faultOf({ ...ACTION, runtime: "docker" }).message).toBe(
      'runtime: must be python, shell, node (also called nodejs); got "docker".',
    );
  });

  it("takes its entrypoint from the pack's folder, or, under the newer name, from beside it", () => {
    expect(read(ACTION).text).toBe("echo pack\n");
    const { entrypoint: _, ...rest } = ACTION;
    expect(read({ ...rest, entry_point: "run.sh" }).text).toBe("echo here\n");
    expect(read({ ...rest, entry_point: "actions/run.sh" }).text).toBe("echo pack\n");
    expect(read({ ...rest, entrypoint: "run.sh" }).text).toBe("echo here\n");
    expect(read({ ...rest, entry_point: "../lib/./x/../run.js" }).text).toBe("lib\n");
    expect(read({ ...rest, entrypoint: "inner/deep.py" })).toMatchObject({ file: "deep.py", text: "deep\n" });
  });

  it("outside of a pack has its own name, and its entrypoint beside it", () => {
    const { options, text } = read({ ...ACTION, entrypoint: "./run.sh" }, {});
    expect(text).toBe("echo here\n");
    expect(options.annotations).toEqual({ "attune/action": "go" });
  });

  it.each(["/etc/passwd", "../../other/x.sh", "actions/../../x.sh", "C:\\x.sh", "a\\b.sh", "..", ".", "a/.."])(
    "never takes a file from outside: %s",
    (entrypoint) => {
      const outside = { ...context({ pack: PACK }), bytes: () => Buffer.from("secret") };
      expect(() => attune.read({ ...ACTION, entrypoint }, outside)).toThrow(/^entrypoint: .* is outside the folder/);
      expect(() => attune.read({ ...ACTION, entrypoint }, { ...outside, yaml: () => null })).toThrow(
        /is outside the folder/,
      );
    },
  );

  it.each([
    [{ name: "go" }, "mypack.go"],
    [{ ref: "mypack.go" }, "mypack.go"],
    [{ ref: "go" }, "mypack.go"],
    [{ name: "go", ref: "mypack.go" }, "mypack.go"],
  ])("called %j is %s", (words, ref) => {
    const { name: _, ...rest } = ACTION;
    expect(read({ ...rest, ...words }).options.annotations).toMatchObject({ "attune/action": ref });
  });

  it("keeps its settings over the pack's, and the pack's over the global ones", () => {
    const pack = { name: "mypack", retry: { max_retries: 2, backoff_multiplier: 3 }, worker_selector: { zone: "a" } };
    const { options } = read({ ...ACTION, retry: { max_backoff_secs: 9 }, worker_selector: { disk: "ssd" } }, { pack });
    expect(options.retry).toEqual({
      ...{ preset: "attune", maxAttempts: 3 },
      backoff: { type: "exponential", initial: 1_000, factor: 3, max: 9_000, jitter: 0.2 },
    });
    expect(options.labels).toEqual({ zone: "a", disk: "ssd", "runtime/shell": "yes" });
  });

  it("notes fields that are not supported", () => {
    const words = { ...ACTION, output_format: "json", parameter_delivery: "env", parameter_format: "json" };
    const pack = { ...PACK, config: { a: 1 } };
    const parameters = { key: { type: "string", secret: true, pattern: "^x" } };
    const { notes } = read({ ...words, parameters }, { pack });
    expect(notes.map((note) => note.split(": ")[0])).toEqual([
      ...["../pack.yaml.config", "output_format", "parameter_delivery", "parameters.key", "parameters.key"],
    ]);
    expect(read(ACTION).notes).toEqual([]);
    const retry = { max_retries: 2, base_backoff_secs: 20, max_backoff_secs: 10 };
    expect(read({ ...ACTION, max_retries: undefined, retry }).notes).toEqual([
      "retry: base_backoff_secs is 20, and every retry waits for the cap of 10 s.",
    ]);
    expect(read({ ...ACTION, max_retries: undefined, retry: { ...retry, enabled: false } }).notes).toEqual([]);
  });
});

describe("a bad action", () => {
  it.each<[object, string, RegExp]>([
    [{ entry_point: "x.sh" }, "entry_point", /two names of the same field/],
    [{ runner_type: "shell" }, "runner_type", /two names of the same field/],
    [{ timeout: 3, timeout_seconds: 3 }, "timeout", /two names of the same field/],
    [{ ref: "mypack.stop" }, "name", /"ref" is "mypack.stop", "name" is "mypack.go"/],
    [{ name: "other.go" }, "name", /must be letters/],
    [{ max_retires: 3 }, "max_retires", /Did you mean "max_retries"/],
    [{ max_retries: -1 }, "max_retries", /from 0 to 100/],
    [{ max_retries: 101 }, "max_retries", /to 100;/],
    [{ max_retries: 1.5 }, "max_retries", /a whole number/],
    [{ max_retries: "3" }, "max_retries", /a whole number/],
    [{ max_retries: 1, retry: { max_retries: 1 } }, "max_retries", /in "retry" too/],
    [{ timeout_seconds: 0 }, "timeout_seconds", /from 1 to/],
    [{ timeout_seconds: -5 }, "timeout_seconds", /from 1 to/],
    [{ timeout_seconds: 1e12 }, "timeout_seconds", /to 31536000/],
    [{ timeout_seconds: "2m" }, "timeout_seconds", /a whole number/],
    [{ enabled: false }, "enabled", /"mypack.go" is not enabled/],
    [{ enabled: "no" }, "enabled", /true or false/],
    [{ entrypoint: "gone.sh" }, "entrypoint", / "gone.sh"/],
    [{ entrypoint: 3 }, "entrypoint", /text/],
    [{ entrypoint: null }, "entrypoint", /text/],
    [{ name: null }, "name", /is missing/],
    [{ retry: { jitter_factor: 1 } }, "retry.jitter_factor", /below 1/],
    [{ retry: { jitter_factor: -0.1 } }, "retry.jitter_factor", /from 0 to/],
    [{ retry: { backoff_multiplier: 0.5 } }, "retry.backoff_multiplier", /from 1 to/],
    [{ retry: { base_backoff_secs: -1 } }, "retry.base_backoff_secs", /from 0 to/],
    [{ retry: { max_backoff_secs: 1e15 } }, "retry.max_backoff_secs", /from 0 to/],
    [{ retry: { enabled: 1 } }, "retry.enabled", /true or false/],
    [{ retry: { base_backof_secs: 1 } }, "retry.base_backof_secs", /Did you mean "base_backoff_secs"/],
    [{ parameter_delivery: "post" }, "parameter_delivery", /stdin, env, file/],
    [{ worker_selector: { "runtime/x": "yes" } }, 'worker_selector["runtime/x"]', /does not start with/],
    [{ tags: "x" }, "tags", /a list/],
  ])("%j is refused at %s", (words, path, message) => {
    const fault = faultOf({ ...ACTION, ...words });
    expect(fault.path).toBe(path);
    expect(fault.message).toMatch(message);
  });

  it.each<[object, string, RegExp]>([
    [{}, "../pack.yaml.name", /text/],
    [{ ref: "my.pack" }, "../pack.yaml.ref", /letters, digits/],
    [{ ref: "p", enabled: false }, "../pack.yaml.enabled", /"p" is not enabled/],
    [{ ref: "p", rety: {} }, "../pack.yaml.rety", /Did you mean "retry"/],
    [{ ref: "p", retry: { max_retries: -1 } }, "../pack.yaml.retry.max_retries", /from 0 to/],
  ])("so is a pack with %j", (pack, path, message) => {
    const fault = faultOf(ACTION, { pack });
    expect(fault.path).toBe(path);
    expect(fault.message).toMatch(message);
  });

  it("is refused when its entrypoint is too large to travel with the job", () => {
    const bytes = () => Buffer.alloc(700_001);
    expect(faultOf(ACTION, { pack: PACK, bytes }).message).toContain("has 700001 bytes");
  });
});

describe("parameters", () => {
  const flat = {
    url: { type: "string", required: true, description: "of the API" },
    tries: { type: "integer", default: 3, minimum: 1, maximum: 9 },
    mode: { enum: ["fast", "slow"] },
    deep: { type: ["object", "null"] },
  };
  const schema = {
    type: "object",
    properties: { url: { type: "string" }, tries: { type: "integer", default: 3, minimum: 1, maximum: 9 } },
    required: ["url"],
  };
  const bound = (declared: object | undefined, parameters: Record<string, unknown>) => {
    const words = declared === undefined ? ACTION : { ...ACTION, parameters: declared };
    return read(words, { pack: PACK, parameters }).input.input;
  };

  it("are checked, and their defaults filled in, declared either way", () => {
    for (const declared of [flat, schema]) expect(bound(declared, { url: "u" })).toEqual({ url: "u", tries: 3 });
    expect(bound(flat, { url: "u", tries: 9, mode: "slow", deep: null })).toEqual({
      ...{ url: "u", tries: 9, mode: "slow", deep: null },
    });
  });

  it("that are given as text, as -p does, are what was declared", () => {
    expect(bound(flat, { url: "7", tries: "4", deep: '{"a":1}' })).toEqual({ url: "7", tries: 4, deep: { a: 1 } });
    expect(bound({ on: { type: "boolean" }, n: { enum: [1, 2] } }, { on: "true", n: "2" })).toEqual({ on: true, n: 2 });
    expect(bound({ a: { type: ["string", "integer"] }, b: {} }, { a: "4", b: "4" })).toEqual({ a: "4", b: "4" });
  });

  it("of an action that declares none, or is open, are taken as they are", () => {
    expect(bound(undefined, { any: [1] })).toEqual({ any: [1] });
    expect(bound({ ...schema, additionalProperties: true }, { url: "u", more: 1 })).toMatchObject({ more: 1 });
    expect(bound({ type: { type: "string" } }, { type: "object" })).toEqual({ type: "object" });
    const named = JSON.parse('{"__proto__": "x"}') as Record<string, unknown>;
    expect(JSON.stringify(bound(undefined, named))).toBe('{"__proto__":"x"}');
  });

  it.each<[object, Record<string, unknown>, string, RegExp]>([
    [flat, {}, "parameters.url", /"url" is required; must be a text, as in -p url=VALUE/],
    [schema, {}, "parameters.properties.url", /is required/],
    [flat, { url: 3 }, "parameters.url", /must be a text; got 3/],
    [flat, { url: "u", tries: "four" }, "parameters.tries", /must be a whole number.*; got "four"/],
    [flat, { url: "u", tries: "10" }, "parameters.tries", /maximum 9.*; got "10"/],
    [flat, { url: "u", deep: "[]" }, "parameters.deep", /an object or null/],
    [flat, { url: "u", tries: 2.5 }, "parameters.tries", /a whole number/],
    [flat, { url: "u", tries: 10 }, "parameters.tries", /maximum 9/],
    [flat, { url: "u", mode: "fats" }, "parameters.mode", /one of "fast", "slow"/],
    [flat, { url: "u", deep: [] }, "parameters.deep", /an object or null/],
    [flat, { ulr: "u", url: "u" }, "parameters", /unknown parameter "ulr".*Did you mean "url"/],
    [{}, { url: "u" }, "parameters", /the action has no parameters/],
    [{ a: { type: "str" } }, {}, "parameters.a.type", /must be string, integer/],
    [{ a: { type: "integer", default: "x" } }, {}, "parameters.a.default", /a whole number/],
    [{ a: { requierd: true } }, {}, "parameters.a.requierd", /Did you mean "required"/],
    [{ a: "string" }, {}, "parameters.a", /an object/],
    [{ a: { required: "yes" } }, {}, "parameters.a.required", /true or false/],
    [{ type: "object", required: ["a"] }, {}, "parameters.required[0]", /not among the properties/],
  ])("%j given %j is refused at %s", (declared, parameters, path, message) => {
    const fault = faultOf({ ...ACTION, parameters: declared }, { pack: PACK, parameters });
    expect(fault.path).toBe(path);
    expect(fault.message).toMatch(message);
  });
});

it("gives every message part of the preset a reason", async () => {
  const { reasonInText } = await import("./retry.ts");
  for (const part of presets.attune.retryOn) expect(reasonInText(`x ${part.toUpperCase()} y`)).not.toBe("unknown");
  expect(reasonInText("what?")).toBe("unknown");
});
