import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { rounds } from "../../../test/tier.ts";
import { ConfigError } from "../errors.ts";
import { portVariable } from "./exec-env.ts";
import { checkExecInput, type ExecInput } from "./exec-input.ts";

const check = (value: unknown) => checkExecInput(value, "exec");
const refusal = (value: unknown): string => {
  try {
    check(value);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  throw new Error(`accepted: ${String(value)}`);
};
const argv = ["true"];

describe("a command", () => {
  it("has defaults for all but the program", () => {
    expect(check({ argv: ["./flaky.sh", "--fast"] })).toEqual({
      ...{
        argv: ["./flaky.sh", "--fast"],
        env: {},
        cwd: null,
        stdin: null,
        stdinFile: null,
        graceMs: 10_000,
        outputCap: 1_048_576,
      },
      ...{
        files: {},
        assets: {},
        runner: null,
        ports: [],
        fill: {},
        limits: {},
        umask: null,
        keep: false,
        resultStdout: false,
      },
    });
  });

  it("takes sizes as bytes, or as texts such as those of resources", () => {
    const limits = { memory: "512m", fileSize: "1.5g", processes: 7 };
    expect(check({ argv, limits, outputCap: "4m" })).toMatchObject({
      limits: { memory: 512 * 2 ** 20, fileSize: 1.5 * 2 ** 30, processes: 7 },
      outputCap: 4 * 2 ** 20,
    });
    expect(check({ argv, limits: { memory: 1_000 } }).limits).toEqual({ memory: 1_000 });
    expect(refusal({ argv, limits: { memory: "a lot" } })).toMatch(/limits\.memory: must be .*"512m".*; got "a lot"/);
    expect(refusal({ argv, limits: { processes: "7" } })).toMatch(/limits\.processes/);
  });

  it("is read by a shell only with the option shell", () => {
    expect(check({ command: "a | b", shell: true }).argv).toEqual(["/bin/sh", "-c", "a | b"]);
    expect(refusal({ command: "a | b" })).toMatch(/exec\.command.*shell/);
    expect(refusal({ argv, shell: true })).toMatch(/exec\.shell.*command/);
    expect(refusal({ argv, command: "a", shell: true })).toMatch(/cannot be used together/);
    expect(refusal({})).toMatch(/no command/);
    expect(refusal({ shell: true })).toMatch(/no command/);
    expect(refusal({ command: "a", shell: 1 })).toMatch(/exec\.shell/);
  });

  it("takes arguments as they are", () => {
    const odd = ["prog", "", " ", "a b", "'", '"', "$HOME", "`x`", "-rf", "--", "\n", "é", "*", "\\"];
    expect(check({ argv: odd }).argv).toEqual(odd);
  });

  it.each<[string, unknown]>([
    ["no list", { argv: "true" }],
    ["no program", { argv: [] }],
    ["an empty program", { argv: [""] }],
    ["a program of spaces", { argv: [" "] }],
    ["an argument with NUL", { argv: ["a", "b\0c"] }],
    ["a number as an argument", { argv: ["a", 1] }],
    ["a hole", { argv: Object.assign(new Array(2), { 0: "a" }) }],
    ["too many arguments", { argv: new Array(10_001).fill("a") }],
    ["an argument that no system takes", { argv: ["a", "x".repeat(131_073)] }],
    ["an unknown field", { argv, cmd: "x" }],
    ["an array", [argv]],
    ["a text", "true"],
    ["null", null],
    ["a cwd with NUL", { argv, cwd: "/a\0b" }],
    ["an empty cwd", { argv, cwd: "" }],
    ["stdin and input", { argv, stdin: "a", input: 1 }],
    ["stdin that is no text", { argv, stdin: 1 }],
    ["a file for stdin beside a text", { argv, stdin: "a", stdinFile: { bytes: 1, sha256: "0".repeat(64) } }],
    ["a file for stdin over 64 MiB", { argv, stdinFile: { bytes: 64 * 1_048_576 + 1, sha256: "0".repeat(64) } }],
    ["a file for stdin without a hash", { argv, stdinFile: { bytes: 1, sha256: "../etc/passwd" } }],
    ["a negative grace", { argv, grace: -1 }],
    ["a grace without a unit", { argv, grace: "10" }],
    ["a grace of hours", { argv, grace: "61m" }],
    ["a cap below 1 KiB", { argv, outputCap: 1_023 }],
    ["a cap above 64 MiB", { argv, outputCap: 64 * 1_048_576 + 1 }],
    ["a limit of none", { argv, limits: { memory: 0 } }],
    ["a limit with a fraction", { argv, limits: { processes: 1.5 } }],
    ["an unknown limit", { argv, limits: { cpu: 1 } }],
    ["a umask with too many bits", { argv, umask: 0o1000 }],
    ["files as a list", { argv, files: ["QQ=="] }],
    ["21 files", { argv, files: Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`f${i}`, ""])) }],
    ["a file without a name", { argv, files: { "": "" } }],
    ["a file named .", { argv, files: { ".": "" } }],
    ["a file named ..", { argv, files: { "..": "" } }],
    ["a file above", { argv, files: { "../a": "" } }],
    ["a file in a folder", { argv, files: { "a/b": "" } }],
    ["an absolute file", { argv, files: { "/etc/passwd": "" } }],
    ["a file in a folder of Windows", { argv, files: { "a\\b": "" } }],
    ["a file name with NUL", { argv, files: { "a\0b": "" } }],
    ["a file name with a line end", { argv, files: { "a\nb": "" } }],
    ["a file name with an escape", { argv, files: { "a\u009bb": "" } }],
    ["a file name with half a pair", { argv, files: { "a\ud800": "" } }],
    ["a file name of 256 bytes", { argv, files: { ["é".repeat(128)]: "" } }],
    ["a file that is no text", { argv, files: { a: 1 } }],
    ["a file in base64 without padding", { argv, files: { a: "QQ" } }],
    ["a file in base64 for addresses", { argv, files: { a: "__--" } }],
    ["a file in base64 with a line end", { argv, files: { a: "QUJD\nQUI" } }],
    ["a file in base64 with padding within", { argv, files: { a: "QQ==QQ==" } }],
    ["keep as a text", { argv, keep: "yes" }],
    ["an environment as a list", { argv, env: ["A=1"] }],
    ["a name with =", { argv, env: { "A=B": "1" } }],
    ["a name with a space", { argv, env: { "A B": "1" } }],
    ["a name that begins with a digit", { argv, env: { "1A": "1" } }],
    ["an empty name", { argv, env: { "": "1" } }],
    ["a function for bash", { argv, env: { "BASH_FUNC_ls%%": "() { :; }" } }],
    ["a value with NUL", { argv, env: { A: "a\0b" } }],
    ["a number as a value", { argv, env: { A: 1 } }],
    ["PERDURE_MARK", { argv, env: { PERDURE_MARK: "x" } }],
    ["PERDURE_JOB_ID", { argv, env: { PERDURE_JOB_ID: "x" } }],
    ["ports as a text", { argv, ports: "http" }],
    ["a port that is a number", { argv, ports: [8080] }],
    ["a port without a name", { argv, ports: [""] }],
    ["a port that begins with a digit", { argv, ports: ["1st"] }],
    ["a port with a dot", { argv, ports: ["a.b"] }],
    ["a port of 64 letters", { argv, ports: ["x".repeat(64)] }],
    ["a port twice", { argv, ports: ["http", "http"] }],
    ["two ports of one variable", { argv, ports: ["my-http", "MY_HTTP"] }],
    ["21 ports", { argv, ports: Array.from({ length: 21 }, (_, i) => `p${i}`) }],
    ["a fill that is a list", { argv, fill: ["jobId"] }],
    ["a fill that is no word", { argv, fill: { A: 1 } }],
    ["a fill of nothing", { argv, fill: { A: "" } }],
    ["a fill with a bad name", { argv, fill: { "A-B": "jobId" } }],
    ["a fill of ours", { argv, fill: { PERDURE_JOB_ID: "jobId" } }],
    ["a port that was not asked for", { argv, fill: { A: "port.http" } }],
    ["a port by another spelling", { argv, ports: ["http"], fill: { A: "port.HTTP" } }],
    ["a name in env and in fill", { argv, env: { A: "1" }, fill: { A: "jobId" } }],
  ])("is refused with %s", (_name, value) => {
    expect(refusal(value)).toMatch(/^exec/);
  });

  it("names the nearest field for a misspelt one", () => {
    expect(refusal({ agrv: ["a"] })).toMatch(/Did you mean "argv"/);
  });

  it("names ports, and variables that the worker fills in", () => {
    const ports = ["http", "metrics-v2", "A"];
    const fill = { ID: "jobId", N: "attempt", I: "attemptIndex", P: "port.http", Q: "port.metrics-v2" };
    const checked = check({ argv, env: { X: "1" }, ports, fill });
    expect(checked.ports).toEqual(ports);
    expect({ ...checked.fill }).toEqual({
      ...{ ID: { kind: "jobId" }, N: { kind: "attempt" }, I: { kind: "attemptIndex" } },
      ...{ P: { kind: "port", port: "http" }, Q: { kind: "port", port: "metrics-v2" } },
    });
    expect(ports.map(portVariable)).toEqual(["PERDURE_PORT_HTTP", "PERDURE_PORT_METRICS_V2", "PERDURE_PORT_A"]);
    expect(refusal({ argv, fill: { A: "jobID" } })).toMatch(/^exec\.fill\.A: .*Did you mean "jobId"/);
    expect(refusal({ argv, ports: ["http"], fill: { A: "port.htp" } })).toMatch(/Did you mean "port\.http"/);
    expect(refusal({ argv, fill: { A: "port.http" } })).toMatch(/port\.NAME with a name in ports/);
    expect(refusal({ argv, ports: ["a-b", "A_B"] })).toMatch(
      /^exec\.ports\[1\]: "A_B" has the variable PERDURE_PORT_A_B/,
    );
  });

  it("takes its standard input from a text, or from any JSON value", () => {
    expect(check({ argv, stdin: "" }).stdin).toBe("");
    expect(check({ argv, stdin: "a\0b" }).stdin).toBe("a\0b");
    expect(check({ argv, input: { a: [1, null] } }).stdin).toBe('{"a":[1,null]}');
    for (const [input, text] of [
      [null, "null"] as const,
      [0, "0"] as const,
      ["", '""'] as const,
      [false, "false"] as const,
    ]) {
      expect(check({ argv, input }).stdin).toBe(text);
    }
  });

  it("takes files by plain names, with any bytes", () => {
    const files = { "a b": "", ".hidden": "QQ==", "é…": "QUI=", "-rf": "QUJD", ["é".repeat(127)]: "+/+/" };
    expect(check({ argv, files }).files).toEqual(files);
    const twenty = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`f${i}`, "QQ=="]));
    expect(Object.keys(check({ argv, files: twenty }).files)).toHaveLength(20);
    const megabytes = Buffer.alloc(12_000_000).toString("base64");
    expect(check({ argv, files: { megabytes } }).files.megabytes).toBe(megabytes);
    expect(refusal({ argv, files: { "a/b": "" } })).toMatch(/^exec\.files\["a\/b"\]/);
  });

  it("takes assets by plain names and hashes, beside files of other names, and a runner for its code", () => {
    const hash = "0a".repeat(32);
    expect(check({ argv, assets: { "task.py": hash }, files: { a: "QQ==" }, runner: "python" })).toMatchObject({
      ...{ assets: { "task.py": hash }, files: { a: "QQ==" }, runner: "python" },
    });
    expect(check({ argv, files: { "task.py": "QQ==" }, runner: "python" }).runner).toBe("python");
    for (const [input, problem] of [
      [{ assets: { a: "short" } }, /^exec\.assets\.a: must be 64 hexadecimal digits/],
      [{ assets: { "../a": hash } }, /^exec\.assets.*plain name/],
      [{ assets: { a: hash }, files: { a: "" } }, /^exec\.assets\.a: .*is in files too/],
      [{ runner: "ruby", files: { "task.py": "" } }, /^exec\.runner: must be "python"/],
      [{ runner: "python" }, /^exec\.runner: .*requires the code as task\.py/],
      [{ runner: "python", files: { "task.py": "", "run_task.py": "" } }, /^exec\.runner: .*adds run_task\.py itself/],
    ] as const) {
      expect(refusal({ argv, ...input })).toMatch(problem);
    }
  });

  it("refuses an input that is not JSON, like other mistakes", () => {
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    let deep: unknown = 1;
    for (let i = 0; i < 50_000; i++) deep = [deep];
    const toJSON = () => {
      throw new Error("no");
    };
    for (const input of [1n, circle, { toJSON }, deep, () => 1, Symbol("s")]) {
      expect(refusal({ argv, input })).toMatch(/^exec\.input/);
    }
  });
});

describe("whatever is given", () => {
  const field = fc.oneof(
    fc.anything({ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true, withObjectString: true }),
    fc.constantFrom(
      "10s",
      "a",
      1_024,
      true,
      ["true"],
      { PATH: "x" },
      { memory: 1 },
      { a: "QQ==" },
      { "../a": "" },
      ["http"],
      {
        A: "port.http",
      },
    ),
  );
  const KEYS = [
    "argv",
    "command",
    "shell",
    "env",
    "cwd",
    "stdin",
    "stdinFile",
    "input",
    "files",
    "assets",
    "runner",
    "grace",
    "outputCap",
    "limits",
    "umask",
    "ports",
    "fill",
  ];
  const names = fc.oneof(
    fc.constantFrom(...KEYS, "keep"),
    fc.constantFrom("__proto__", "constructor", "toString"),
    fc.string(),
  );
  const given = fc.array(fc.tuple(names, field), { maxLength: 6 }).map((entries) => {
    const value: Record<string, unknown> = {};
    for (const [name, each] of entries) {
      Object.defineProperty(value, name, { value: each, enumerable: true, configurable: true, writable: true });
    }
    return value;
  });

  it("only a ConfigError is thrown, nothing is polluted, and what is accepted is safe to hand on", () => {
    fc.assert(
      fc.property(fc.oneof(given, fc.anything()), (value) => {
        try {
          const checked = check(value);
          expect(checked.argv.length).toBeGreaterThan(0);
          for (const text of [...checked.argv, ...Object.values(checked.env)]) expect(text).not.toContain("\0");
          expect(Object.keys(checked.files).filter((name) => /[/\\]|^\.{0,2}$/.test(name))).toEqual([]);
          expect(Object.keys(checked.env).filter((name) => !/^(?!PERDURE_)[A-Za-z_]\w*$/.test(name))).toEqual([]);
        } catch (error) {
          if (!(error instanceof ConfigError)) throw error;
        }
        expect(Object.keys(Object.prototype)).toEqual([]);
      }),
      { numRuns: rounds(3_000) },
    );
  });

  it("__proto__ from JSON is refused as a field, and a plain name in the environment", () => {
    expect(refusal(JSON.parse('{"argv":["a"],"__proto__":{"shell":true}}'))).toMatch(/unknown field/);
    expect(refusal(JSON.parse('{"argv":["a"],"limits":{"__proto__":{"memory":1}}}'))).toMatch(/unknown field/);
    const { env } = check(JSON.parse('{"argv":["a"],"env":{"__proto__":"x","constructor":"y"}}'));
    expect(Object.entries(env)).toEqual([
      ["__proto__", "x"],
      ["constructor", "y"],
    ]);
    const { files } = check(JSON.parse('{"argv":["a"],"files":{"__proto__":"QQ=="}}'));
    expect(Object.entries(files)).toEqual([["__proto__", "QQ=="]]);
    expect(({} as ExecInput).argv).toBeUndefined();
  });
});
