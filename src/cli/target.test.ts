/** What a command line speaks to, and to whom it shows which token. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { readArguments } from "./arguments.ts";
import type { Command } from "./command.ts";
import type { Io } from "./io.ts";
import { isThisMachine, TARGET, type Target, targetOf } from "./target.ts";

const look: Command = {
  ...{ name: "look", summary: "", usage: "", options: TARGET, examples: [] },
  run: () => Promise.resolve(0),
};

const tokenOf = (letter: string) => `pdr_abcdefgh_${letter.repeat(43)}`;

interface Place {
  readonly cwd: string;
  readonly data: string;
  target(argv?: readonly string[], env?: Record<string, string>): Target;
}

/** With the token of the data's own server, as `perdure up` leaves it. */
function newPlace(live: string | null = null): Place {
  const cwd = mkdtempSync(join(tmpdir(), "perdure-target-"));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
  const data = join(cwd, ".perdure");
  mkdirSync(data);
  writeFileSync(join(data, "token"), `${tokenOf("o")}\n`, { mode: 0o600 });
  if (live !== null) {
    writeFileSync(join(data, "server.json"), JSON.stringify({ pid: process.pid, process: null, url: live }));
  }
  return {
    ...{ cwd, data },
    target(argv = [], env = {}) {
      const io = { stdout: process.stdout, stderr: process.stderr, env, cwd, isTTY: false, columns: undefined } as Io;
      const given = readArguments(look, argv);
      if (given === null) throw new Error("help was asked for");
      return targetOf({ given, io });
    },
  };
}

const LIVE = "http://127.0.0.1:4400";
const FAR = "https://perdure.example:4400";
const WITH_TOKEN = { PERDURE_TOKEN: tokenOf("e") };

describe("the target", () => {
  it("is the data here, unless its server is at work: then that", () => {
    expect(newPlace().target()).toMatchObject({ kind: "data", dir: { given: "./.perdure" }, namespace: "default" });
    expect(newPlace(LIVE).target()).toMatchObject({ kind: "server", url: LIVE, token: tokenOf("o") });
  });

  it("is not a server whose process is gone, or which does not listen yet", () => {
    const place = newPlace();
    for (const left of [
      { pid: 2 ** 22 + 1, process: null, url: LIVE },
      { pid: process.pid, process: null, url: null },
      "not an object",
    ]) {
      writeFileSync(join(place.data, "server.json"), JSON.stringify(left));
      expect(place.target().kind).toBe("data");
    }
  });

  it("is PERDURE_URL rather than data by default, by environment or with a live server", () => {
    const env = { PERDURE_URL: FAR, ...WITH_TOKEN };
    expect(newPlace(LIVE).target([], env)).toMatchObject({ kind: "server", url: FAR, token: tokenOf("e") });
    expect(newPlace().target([], { ...env, PERDURE_DATA: "/elsewhere" })).toMatchObject({ kind: "server", url: FAR });
  });

  it("is --data rather than PERDURE_URL, and through its server where there is one", () => {
    const env = { PERDURE_URL: FAR, ...WITH_TOKEN };
    expect(newPlace().target(["--data", "other"], env)).toMatchObject({ kind: "data", dir: { given: "other" } });
    const place = newPlace(LIVE);
    expect(place.target(["--data", place.data], env)).toMatchObject({ kind: "server", url: LIVE });
  });

  it("is --server rather than all else, --data beside it too", () => {
    const argv = ["--server", FAR, "--data", "other"];
    expect(newPlace(LIVE).target(argv, { PERDURE_URL: LIVE, ...WITH_TOKEN })).toMatchObject({
      kind: "server",
      url: FAR,
    });
  });

  it("has the namespace that is named", () => {
    expect(newPlace().target(["--namespace", "a"], { PERDURE_NAMESPACE: "b" }).namespace).toBe("a");
    expect(newPlace(LIVE).target([], { PERDURE_NAMESPACE: "b" }).namespace).toBe("b");
  });
});

describe("the token", () => {
  it("of a data directory is shown to its own server and to this machine", () => {
    for (const url of [LIVE, "http://localhost:1", "http://[::1]:80", "http://127.8.0.1"]) {
      expect(newPlace(LIVE).target(["--server", url])).toMatchObject({ url, token: tokenOf("o") });
    }
  });

  it.each([
    FAR,
    "http://127.0.0.1.example",
    "http://localhost.example",
    "http://127.0.0.1@example.com",
    "http://10.0.0.1:4400",
    "http://0.0.0.0",
    "https://perdure.here:4401",
  ])("of a data directory is never shown to %s", (url) => {
    const place = newPlace("https://perdure.here:4400");
    for (const [argv, env] of [
      [["--server", url], {}],
      [[], { PERDURE_URL: url }],
    ] as const) {
      expect(() => place.target(argv, env)).toThrow(/^no token for |password/);
    }
  });

  it("is that of --token-file rather than PERDURE_TOKEN rather than PERDURE_TOKEN_FILE", () => {
    const place = newPlace();
    const write = (name: string, token: string) => {
      writeFileSync(join(place.cwd, name), token, { mode: 0o600 });
      return join(place.cwd, name);
    };
    const [named, set] = [write("named", tokenOf("n")), write("set", tokenOf("s"))];
    const env = { PERDURE_URL: FAR, PERDURE_TOKEN_FILE: set };
    const token = (argv: string[], more = {}) => (place.target(argv, { ...env, ...more }) as { token: string }).token;
    expect(token(["--token-file", named], WITH_TOKEN)).toBe(tokenOf("n"));
    expect(token([], WITH_TOKEN)).toBe(tokenOf("e"));
    expect(token([])).toBe(tokenOf("s"));
    expect(() => token(["--token-file", join(place.cwd, "none")])).toThrow("--token-file: there is no file");
  });
});

it.each([
  ["http://localhost", true],
  ["http://127.1.2.3:1", true],
  ["http://[::1]", true],
  ["http://[::2]", false],
  ["http://127.0.0.1.nip.io", false],
  ["http://1270.0.0.1.com", false],
  ["http://localhost.evil", false],
])("%s is this machine: %s", (url, is) => {
  expect(isThisMachine(url)).toBe(is);
});

describe("files that lie in a directory", () => {
  const hostile = (place: Place, text: string) => writeFileSync(join(place.cwd, "perdure.yaml"), text);

  it("cannot have the token of the environment sent to an address of theirs", () => {
    const place = newPlace();
    hostile(place, `url: ${FAR}\n`);
    expect(() => place.target([], WITH_TOKEN)).toThrow(/cannot collect tokens/);
    const file = join(place.cwd, "mine");
    writeFileSync(file, tokenOf("f"), { mode: 0o600 });
    expect(() => place.target([], { PERDURE_TOKEN_FILE: file })).toThrow(/cannot collect tokens/);
    expect(() => place.target(["--token-file", file])).toThrow(/cannot collect tokens/);
    // Named by the person as well, it is theirs to choose.
    expect(place.target(["--server", FAR], WITH_TOKEN)).toMatchObject({ url: FAR, token: tokenOf("e") });
  });

  it("cannot choose both an address and a file with a token", () => {
    const place = newPlace();
    hostile(place, `url: ${FAR}\ntokenFile: .perdure/token\n`);
    expect(() => place.target()).toThrow(/cannot collect tokens/);
    hostile(place, `url: ${FAR}\ntoken: ${tokenOf("t")}\n`);
    expect(place.target()).toMatchObject({ url: FAR, token: tokenOf("t") });
  });

  it("named server.json lead to this machine or nowhere", () => {
    expect(newPlace(FAR).target([], WITH_TOKEN)).toMatchObject({ kind: "data" });
    expect(newPlace(FAR).target()).toMatchObject({ kind: "data" });
  });
});
