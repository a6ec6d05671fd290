import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { testIo } from "../../../test/cli/kit.ts";
import { type CliCommand, readArguments } from "../command.ts";
import { CliError } from "../exit.ts";
import { type Config, factOf, loadConfig, optionsFor } from "./config.ts";
import type { Setting } from "./setting.ts";
import { KEYS, SETTINGS, type SettingKey, VARIABLES } from "./settings.ts";

const root = mkdtempSync(join(tmpdir(), "perdure-config-"));
afterAll(() => rmSync(root, { recursive: true }));
let dirs = 0;

interface Given {
  readonly args?: readonly string[];
  readonly env?: Record<string, string>;
  readonly files?: Record<string, string>;
  readonly keys?: readonly SettingKey[];
  readonly isTTY?: boolean;
}

function load({ args = [], env = {}, files = {}, keys = KEYS, isTTY = false }: Given = {}): Config {
  const cwd = mkdtempSync(join(root, `${dirs++}-`));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(cwd, name), text);
  const table: CliCommand = {
    ...{ name: "try", summary: "", usage: "", examples: [], options: optionsFor(keys) },
    run: async () => 0,
  };
  const given = readArguments(table, args);
  if (given === null) throw new Error("help was requested");
  return loadConfig({ given, io: testIo({ env, cwd, isTTY }) }, keys);
}

function refusal(given: Given): string {
  try {
    load(given);
  } catch (error) {
    expect(error).toBeInstanceOf(CliError);
    expect((error as CliError).exitCode).toBe(2);
    return (error as Error).message;
  }
  return "nothing was wrong";
}
const file = (text: string) => ({ files: { "perdure.yaml": text } });

describe("the table of settings", () => {
  const table: readonly Setting[] = SETTINGS;

  it("has each key, option and variable once", () => {
    for (const names of [KEYS, VARIABLES, table.flatMap(({ flag }) => flag ?? []), ["config", "json", "help"]]) {
      expect(new Set(names).size).toBe(names.length);
    }
    expect(table.find(({ key }) => key === "token")?.flag).toBeUndefined();
  });

  it("has no key that is also a group", () => {
    for (const key of KEYS) expect(KEYS.filter((other) => other.startsWith(`${key}.`))).toEqual([]);
  });

  it("makes options", () => {
    expect(optionsFor(["server.port", "token", "worker.queues", "worker.isolate"])).toEqual([
      { name: "port", type: "string", value: "N", help: expect.stringContaining("Default: PERDURE_PORT, or 4400.") },
      { name: "queue", type: "string", value: "NAME", multiple: true, help: expect.any(String) },
      { name: "isolate", type: "boolean", help: expect.any(String) },
      { name: "config", type: "string", value: "FILE", help: expect.any(String) },
    ]);
  });
});

describe("a setting", () => {
  it("has its default", () => {
    const config = load();
    expect(config.text("data")).toBe("./.perdure");
    expect(config.text("server.host")).toBe("127.0.0.1");
    expect(config.integer("server.port")).toBe(4400);
    expect(config.bytes("server.bodyLimit")).toBe(10_000_000);
    expect(config.durationMs("server.lease")).toBe(15_000);
    expect(config.durationMs("server.retention.failed")).toBe(90 * 86_400_000);
    expect(config.list("worker.kinds")).toEqual(["exec", "http"]);
    expect(config.list("opal.engine")).toEqual([]);
    expect(config.numbers("opal.retryBackoffs")).toBeUndefined();
    expect(config.labels("worker.labels")).toEqual({});
    expect(config.flag("server.insecure")).toBe(false);
    expect(config.durationMs("worker.lease")).toBeUndefined();
    expect(config.text("token")).toBeUndefined();
    expect(config.text("server.logFormat")).toBe("json");
    expect(load({ isTTY: true }).text("server.logFormat")).toBe("text");
    expect([config.sourceOf("server.port"), config.isSet("server.port")]).toEqual(["default", false]);
  });

  it("is taken from the option, else the environment, else the file", () => {
    const all = { ...file("server:\n  # the port\n  port: 3\n"), env: { PERDURE_PORT: "2" }, args: ["--port", "1"] };
    for (const [given, port, source] of [
      [all, 1, "--port"],
      [{ ...all, args: [] }, 2, "PERDURE_PORT"],
      [{ ...all, args: [], env: { PERDURE_PORT: "" } }, 3, "perdure.yaml:3"],
    ] as const) {
      const config = load(given);
      expect([config.integer("server.port"), config.sourceOf("server.port")]).toEqual([port, source]);
      expect(config.isSet("server.port")).toBe(true);
    }
  });

  it("of each type is read from text", () => {
    const config = load({
      args: ["--queue", "a, b", "--queue=c", "--insecure", "--label", "gpu=a=1,zone=b", "--body-limit", "2 MiB"],
      env: {
        ...{ PERDURE_ISOLATE: "Yes", OPAL_RETRY_BACKOFFS: "[3, 8, 1.5]", PERDURE_RETENTION_FAILED: "forever" },
        ...{ PERDURE_OPAL_ENGINE: '["a b", ""]', PERDURE_GRACE: "1.5m", PERDURE_TOKEN: "t", PERDURE_OUTPUT_LIMIT: "0" },
      },
    });
    expect(config.list("worker.queues")).toEqual(["a", "b", "c"]);
    expect(config.labels("worker.labels")).toEqual({ gpu: "a=1", zone: "b" });
    expect(config.flag("server.insecure")).toBe(true);
    expect(config.bytes("server.bodyLimit")).toBe(2_097_152);
    expect(config.bytes("server.outputLimit")).toBe(0);
    expect(config.flag("worker.isolate")).toBe(true);
    expect(config.numbers("opal.retryBackoffs")).toEqual([3, 8, 1.5]);
    expect(config.durationMs("server.retention.failed")).toBeNull();
    expect(config.list("opal.engine")).toEqual(["a b", ""]);
    expect(config.durationMs("worker.grace")).toBe(90_000);
    expect(config.text("token")).toBe("t");
    expect(load({ env: { OPAL_RETRY_BACKOFFS: "3,8,15" } }).numbers("opal.retryBackoffs")).toEqual([3, 8, 15]);
    expect(load({ env: { PERDURE_OPAL_ENGINE: "python3  -m x" } }).list("opal.engine")).toEqual(["python3", "-m", "x"]);
  });

  it("of each type is read from a file", () => {
    const config = load(
      file(
        "server: {insecure: true, lease: 20s, bodyLimit: 5000, retention: {failed: forever}, tls:}\nworkers: 0\n" +
          "worker:\n  labels: {gpu: a100}\n  queues: [a, 'b,c']\nopal: {engine: [python3, -m, x], retryBackoffs: [1, 2]}",
      ),
    );
    expect(config.flag("server.insecure")).toBe(true);
    expect(config.durationMs("server.lease")).toBe(20_000);
    expect(config.bytes("server.bodyLimit")).toBe(5_000);
    expect(config.durationMs("server.retention.failed")).toBeNull();
    expect(config.integer("workers")).toBe(0);
    expect(config.labels("worker.labels")).toEqual({ gpu: "a100" });
    expect(config.list("worker.queues")).toEqual(["a", "b,c"]);
    expect(config.list("opal.engine")).toEqual(["python3", "-m", "x"]);
    expect(config.numbers("opal.retryBackoffs")).toEqual([1, 2]);
  });

  it("of connections has all sources together, by names in one form; the nearest source counts", () => {
    const url = (user: string) => `postgres://${user}:geheim,1@h/db`;
    const all = {
      ...file(`worker:\n  connections: {Shop-A: "${url("file")}", own: "${url("file")}"}`),
      env: { PERDURE_CONNECTION_SHOP_A: url("env"), PERDURE_CONNECTION_B: url("env"), PERDURE_CONNECTION_C: "" },
      args: ["--connection", `b=${url("option")}`, `--connection=D-d=${url("option")}`],
    };
    const config = load(all);
    expect(config.connections("worker.connections")).toEqual({
      ...{ shop_a: url("env"), own: url("file"), b: url("option"), d_d: url("option") },
    });
    const source = "--connection, PERDURE_CONNECTION_SHOP_A, PERDURE_CONNECTION_B, perdure.yaml:2";
    expect(factOf(config, "worker.connections")).toEqual({
      ...{ key: "worker.connections", source },
      value: ["shop_a", "own", "b", "d_d"].map((name) => `${name}=set (hidden)`),
    });
    expect(load().connections("worker.connections")).toEqual({});
    expect(factOf(load(), "worker.connections")).toMatchObject({ value: null, source: "default" });
  });

  it.each<[Given, string]>([
    [{ args: ["--connection", "shop"] }, "--connection: must be NAME=URL, each name once"],
    [{ args: ["--connection", "postgres://u:geheim@h/d"] }, "--connection: must be NAME=URL, each name once"],
    [{ args: ["--connection=a-b=postgres://h/d", "--connection=A_B=postgres://h/d"] }, "each name once"],
    [{ env: { PERDURE_CONNECTION_A: "u:geheim@h" } }, "PERDURE_CONNECTION_A: must be NAME=URL"],
    [{ env: { PERDURE_CONNECTION_9: "postgres://u:geheim@h/d" } }, "got a value that is not shown"],
    [file("worker: {connections: [geheim]}"), "perdure.yaml:1:10: worker.connections: must be NAME=URL"],
    [{ env: { PERDURE_PORT: "abc" } }, 'PERDURE_PORT: must be a whole number from 0 to 65535; got "abc"'],
    [{ args: ["--port", "65536"] }, "--port: must be a whole number from 0 to 65535; got 65536"],
    [
      { env: { PERDURE_LEASE: "15" } },
      'PERDURE_LEASE: must be a time with its unit, at least 300ms and at most 1h, such as 500ms, 30s, 5m, 2h or 1d; got "15"',
    ],
    [
      { args: ["--lease", "100ms"] },
      '--lease: must be a time with its unit, at least 300ms and at most 1h, such as 500ms, 30s, 5m, 2h or 1d; got "100ms"',
    ],
    [{ args: ["--body-limit", "10 parsecs"] }, "from 1kB to 1GB"],
    [{ env: { PERDURE_ISOLATE: "maybe" } }, 'PERDURE_ISOLATE: must be true or false; got "maybe"'],
    [
      { args: ["--log-level", "wran"] },
      '--log-level: must be one of error, warn, info, debug; got "wran". Did you mean warn?',
    ],
    [{ args: ["--label", "gpu"] }, '; got ["gpu"]'],
    [{ args: ["--label", "a=1,a=2"] }, "each name once"],
    [{ args: ["--queue", "a,,b"] }, "none of them empty"],
    [
      { env: { OPAL_RETRY_BACKOFFS: "3,x" } },
      'OPAL_RETRY_BACKOFFS: must be a list of 1 to 100 numbers from 0 to 86400, such as [3, 8, 15]; got "3,x"',
    ],
    [{ env: { PERDURE_OPAL_ENGINE: '["a' } }, "PERDURE_OPAL_ENGINE: must be a program and its arguments, such as"],
    [
      { args: ["--server", "localhost"] },
      '--server: must be an address such as https://perdure.example:4400; got "localhost"',
    ],
    [
      { args: ["--server", "host.example:4400"] },
      '--server: must be an address such as https://perdure.example:4400; got "host.example:4400"',
    ],
    [
      { args: ["--server", "http://a b"] },
      "--server: must be an address such as https://perdure.example:4400; got something else (not shown, as it may hold a password)",
    ],
    [{ args: ["--server", "me:geheim@host"] }, "4400; got something else (not shown, as it may hold a password)"],
    [{ args: ["--server", `pdr_01234567_geheim`] }, "4400; got something else (not shown, as it may hold"],
    [
      { env: { PERDURE_DATA: "postgres://u:geheim@h/d" } },
      "PERDURE_DATA: must be a directory (addresses are for --db); got an address (not shown, as it may hold a password)",
    ],
    [file("server:\n  port: '80'"), 'perdure.yaml:2:3: server.port: must be a whole number from 0 to 65535; got "80"'],
    [
      file("server:\n  lease: 15"),
      "perdure.yaml:2:3: server.lease: must be a time with its unit, at least 300ms and at most 1h, such as 500ms, 30s, 5m, 2h or 1d; got 15",
    ],
    [file("server: {insecure: 'no'}"), 'perdure.yaml:1:10: server.insecure: must be true or false; got "no"'],
    [file("server:\n  prot: 80"), "perdure.yaml:2:3: server.prot: setting does not exist; did you mean server.port?"],
    [file("port: 80"), "perdure.yaml:1:1: port: setting does not exist; did you mean server.port?"],
    [file("servr: {}"), "perdure.yaml:1:1: servr: setting does not exist; did you mean server?"],
    [file("server.port: 80"), "perdure.yaml:1:1: server.port: a dot is a nested key; write `server: { port: … }`"],
    [
      file("agent: { retry.legionary.maxAttempts: 2 }"),
      "perdure.yaml:1:10: agent.retry.legionary.maxAttempts: a dot is a nested key; " +
        "write `agent: { retry: { legionary: { maxAttempts: … } } }`",
    ],
    [file("zzzzzzzzzzz: 1"), "perdure.yaml:1:1: zzzzzzzzzzz: setting does not exist; see `perdure config`"],
    [file("__proto__: {polluted: 1}"), "perdure.yaml:1:1: __proto__: setting does not exist"],
    [file("- a"), 'perdure.yaml:1:1: the file: must be a map of settings, such as `data: …`; got ["a"]'],
    [file("server: 5"), "perdure.yaml:1:1: server: must be a map of settings, such as `host: …`; got 5"],
    [file("token: [geheim]"), "; got a value that is not shown"],
    [file("a: b: c"), "perdure.yaml:1:4: a second colon"],
  ])("with a mistake is refused: %j", (given, expected) => {
    const message = refusal(given);
    expect(message).toContain(expected);
    expect(message).not.toContain("geheim");
  });

  it("that a command does not use is not checked, but the whole file is", () => {
    expect(load({ keys: ["data"], env: { PERDURE_PORT: "abc" } }).text("data")).toBe("./.perdure");
    expect(refusal({ keys: ["data"], ...file("workers: -1") })).toMatch(
      /perdure\.yaml:1:1: workers: must be .*; got -1/,
    );
    expect(() => load({ keys: ["data"] }).integer("workers")).toThrow("the setting workers was not loaded");
  });

  it("needs no options", () => {
    expect(loadConfig({ io: testIo({ env: { PERDURE_PORT: "7" }, cwd: root }) }).integer("server.port")).toBe(7);
  });
});

describe("times in OPAL's terms", () => {
  const shown = (env: Record<string, string>, given: Given = {}) => {
    const config = load({ ...given, env });
    const keys = ["server.lease", "worker.lease", "worker.heartbeat"] as const;
    return keys.map((key) => `${config.durationMs(key)} ${config.sourceOf(key)}`);
  };

  it("have no effect if they are not set", () => {
    expect(shown({})).toEqual(["15000 default", "undefined default", "2000 default"]);
  });

  it("follow OPAL_LEASE_TTL_SECS", () => {
    const from = "OPAL_LEASE_TTL_SECS";
    expect(shown({ [from]: "30" })).toEqual([`30000 ${from}`, `30000 ${from}`, "2000 default"]);
    // In whole milliseconds: 1.1 * 1000 is a little more.
    expect(shown({ [from]: "1.1" })[0]).toBe(`1100 ${from}`);
    const [server] = shown({}, file("opal:\n  leaseTtlSecs: 20"));
    expect(server).toBe("20000 perdure.yaml:2");
  });

  it("follow OPAL_LEASE_RENEW_SECS and OPAL_HEARTBEAT_INTERVAL_SECS, whichever is shorter", () => {
    const beat = (renew: string, interval: string) =>
      shown({ OPAL_LEASE_RENEW_SECS: renew, OPAL_HEARTBEAT_INTERVAL_SECS: interval })[2];
    expect(beat("3", "7")).toBe("3000 OPAL_LEASE_RENEW_SECS");
    expect(beat("7", "3")).toBe("3000 OPAL_HEARTBEAT_INTERVAL_SECS");
    expect(beat("", "0.5")).toBe("500 OPAL_HEARTBEAT_INTERVAL_SECS");
  });

  it("are overridden by Perdure's own settings", () => {
    const opal = { OPAL_LEASE_TTL_SECS: "30", OPAL_LEASE_RENEW_SECS: "4" };
    expect(shown({ ...opal, PERDURE_WORKER_LEASE: "20s" }, file("server: { lease: 9s }"))).toEqual([
      ...["9000 perdure.yaml:1", "20000 PERDURE_WORKER_LEASE", "4000 OPAL_LEASE_RENEW_SECS"],
    ]);
    expect(shown(opal, { args: ["--heartbeat", "1s"] })[2]).toBe("1000 --heartbeat");
  });
});

describe("the file", () => {
  const named = { "other.json": '{"workers": 9}', "perdure.json": '{"workers": 3}' };

  it("is the first of the known names in the working directory", () => {
    expect(load({ files: named }).sourceOf("workers")).toBe("perdure.json:1");
    expect(load({ files: { ...named, "perdure.yml": "workers: 2" } }).integer("workers")).toBe(2);
    expect(load({ files: { ...named, "perdure.yml": "workers: 2", "perdure.yaml": "" } }).integer("workers")).toBe(1);
  });

  it("is the one that is named, and must exist then", () => {
    const env = { PERDURE_CONFIG: "other.json" };
    expect(load({ files: named, env }).sourceOf("workers")).toBe("other.json:1");
    expect(load({ files: named, env, args: ["--config", "perdure.json"] }).integer("workers")).toBe(3);
    expect(refusal({ args: ["--config", "none.yaml"] })).toBe(
      '--config: file "none.yaml" does not exist; pass another, or leave it out',
    );
    expect(refusal({ env: { PERDURE_CONFIG: "none" } })).toContain('PERDURE_CONFIG: file "none" does not exist');
    expect(refusal({ args: ["--config="] })).toContain('--config: must be a file; got ""');
  });
});
