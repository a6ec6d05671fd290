/** Which server or store a command line selects, and which token it sends where. */
import { chmodSync, chownSync, lchownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { type CliCommand, readArguments } from "../command.ts";
import { trustedOwners } from "../input/read-file.ts";
import type { Io } from "../io.ts";
import { isThisMachine, TARGET, type Target, targetOf } from "./target.ts";

const look: CliCommand = {
  ...{ name: "look", summary: "", usage: "", options: TARGET, examples: [] },
  run: () => Promise.resolve(0),
};

const tokenOf = (letter: string) => `pdr_abcdefgh_${letter.repeat(43)}`;

interface Place {
  readonly cwd: string;
  readonly data: string;
  target(argv?: readonly string[], env?: Record<string, string>): Target;
}

/** A data directory with the token of its server, as `perdure up` leaves it. */
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
      if (given === null) throw new Error("help was requested");
      return targetOf({ given, io });
    },
  };
}

const LIVE = "http://127.0.0.1:4400";
const FAR = "https://perdure.example:4400";
const WITH_TOKEN = { PERDURE_TOKEN: tokenOf("e") };

describe("the target", () => {
  it("is the data here, or its server if that is running", () => {
    expect(newPlace().target()).toMatchObject({ kind: "store", dir: { given: "./.perdure" }, namespace: "default" });
    expect(newPlace(LIVE).target()).toMatchObject({ kind: "server", url: LIVE, token: tokenOf("o") });
  });

  it("is not a server whose process has exited, or that does not listen yet", () => {
    const place = newPlace();
    for (const left of [
      { pid: 2 ** 22 + 1, process: null, url: LIVE },
      { pid: process.pid, process: null, url: null },
      "not an object",
    ]) {
      writeFileSync(join(place.data, "server.json"), JSON.stringify(left));
      expect(place.target().kind).toBe("store");
    }
  });

  it("is PERDURE_URL rather than data by default, by environment or with a live server", () => {
    const env = { PERDURE_URL: FAR, ...WITH_TOKEN };
    expect(newPlace(LIVE).target([], env)).toMatchObject({ kind: "server", url: FAR, token: tokenOf("e") });
    expect(newPlace().target([], { ...env, PERDURE_DATA: "/elsewhere" })).toMatchObject({ kind: "server", url: FAR });
  });

  it("is --data rather than PERDURE_URL, and the server of that directory if one is running", () => {
    const env = { PERDURE_URL: FAR, ...WITH_TOKEN };
    expect(newPlace().target(["--data", "other"], env)).toMatchObject({ kind: "store", dir: { given: "other" } });
    const place = newPlace(LIVE);
    expect(place.target(["--data", place.data], env)).toMatchObject({ kind: "server", url: LIVE });
  });

  it("is --server before everything else, also with --data", () => {
    const argv = ["--server", FAR, "--data", "other"];
    expect(newPlace(LIVE).target(argv, { PERDURE_URL: LIVE, ...WITH_TOKEN })).toMatchObject({
      kind: "server",
      url: FAR,
    });
  });

  it("has the namespace of --namespace, else of PERDURE_NAMESPACE", () => {
    expect(newPlace().target(["--namespace", "a"], { PERDURE_NAMESPACE: "b" }).namespace).toBe("a");
    expect(newPlace(LIVE).target([], { PERDURE_NAMESPACE: "b" }).namespace).toBe("b");
  });
});

describe("a database", () => {
  const MINE = "postgres://me:geheim@db.example/jobs?schema=own";
  const OTHER = "postgres://other.example/jobs";
  const settings = (place: Place, text: string) => writeFileSync(join(place.cwd, "perdure.yaml"), text);

  it.each([
    ["an option over the environment", ["--db", MINE], { PERDURE_DB: OTHER }, ""],
    ["an option over a server in the environment", ["--db", MINE], { PERDURE_URL: FAR }, ""],
    ["the environment over the file", [], { PERDURE_DB: MINE }, `db: ${OTHER}\n`],
    ["the environment over a server in the file", [], { PERDURE_DB: MINE }, `url: ${FAR}\n`],
    ["the file", [], {}, `db: ${MINE}\n`],
    ["the file, with data in the environment", [], { PERDURE_DATA: "/elsewhere" }, `db: ${MINE}\n`],
  ] as [string, string[], Record<string, string>, string][])("is opened: %s", (_, argv, env, file) => {
    const place = newPlace(LIVE);
    settings(place, file);
    const shown = "postgres://me:***@db.example/jobs?schema=own";
    expect(place.target(argv, env)).toMatchObject({ kind: "store", url: MINE, shown, isData: false });
  });

  it.each([
    ["a server by option", ["--server", FAR], { PERDURE_DB: MINE }, ""],
    ["a server in the environment, as a database", [], { PERDURE_DB: MINE, PERDURE_URL: FAR }, ""],
    ["a server in the environment, over a database in the file", [], { PERDURE_URL: FAR }, `db: ${MINE}\n`],
    ["a server in the file, as a database", [], {}, `db: ${MINE}\nurl: ${FAR}\ntoken: ${tokenOf("e")}\n`],
  ] as [string, string[], Record<string, string>, string][])("is not opened: %s", (_, argv, env, file) => {
    const place = newPlace(LIVE);
    settings(place, file);
    const given = file.includes("token:") ? env : { ...env, ...WITH_TOKEN };
    expect(place.target(argv, given)).toMatchObject({ kind: "server", url: FAR });
  });

  it("of the environment or the file is not opened with --data", () => {
    const place = newPlace();
    settings(place, `db: ${MINE}\n`);
    expect(place.target(["--data", "other"], { PERDURE_DB: MINE })).toMatchObject({ isData: true, shown: "other" });
  });

  it.each(["server", "data"])("cannot be used together with --%s", (other) => {
    const argv = ["--db", "x.db", `--${other}`, other === "server" ? LIVE : "dir"];
    expect(() => newPlace().target(argv)).toThrow(`--db and --${other} cannot be used together`);
  });

  it("is reached through the running server of the directory if it serves that database, except with --db", () => {
    const place = newPlace(LIVE);
    const served = (shown: string) => writeFileSync(join(place.data, "database"), `${shown}\n`);
    served(OTHER);
    expect(place.target([], { PERDURE_DB: MINE }).kind).toBe("store");
    served("postgres://me:***@db.example/jobs?schema=own");
    expect(place.target([], { PERDURE_DB: MINE })).toMatchObject({ kind: "server", url: LIVE });
    expect(place.target([], { PERDURE_DB: MINE, PERDURE_DATA: "/elsewhere" }).kind).toBe("store");
    expect(place.target(["--db", MINE]).kind).toBe("store");
    expect(() => newPlace(LIVE).target(["--db", MINE, "--data", place.data])).toThrow("cannot be used together");
    served(join(place.cwd, "jobs.db"));
    expect(place.target([], { PERDURE_DB: "sqlite:./jobs.db" })).toMatchObject({ kind: "server", url: LIVE });
  });

  it("that is the file of a data directory is reached through the server of that directory", () => {
    const env = { PERDURE_DB: join(newPlace(LIVE).data, "perdure.db") };
    expect(newPlace().target([], env)).toMatchObject({ kind: "server", url: LIVE });
  });

  it("in a file of the working directory is not sent the password of the environment", () => {
    const place = newPlace();
    settings(place, `db: ${OTHER}\n`);
    const env = { PGPASSWORD: "geheim" };
    expect(() => place.target([], env)).toThrow(/cannot collect passwords/);
    expect(place.target([], { ...env, PERDURE_DB: OTHER })).toMatchObject({ url: OTHER });
    settings(place, "db: postgres://127.0.0.1/jobs\n");
    expect(() => place.target([], env)).toThrow(/cannot collect passwords/); // any program could listen there
    expect(place.target([])).toMatchObject({ url: "postgres://127.0.0.1/jobs" });
    settings(place, "db: postgres:///jobs\n");
    expect(place.target([], env)).toMatchObject({ url: "postgres:///jobs" }); // PGHOST comes from the environment too
    settings(place, "db: postgres://me:own@127.0.0.1/jobs\n");
    expect(place.target([], env)).toMatchObject({ url: "postgres://me:own@127.0.0.1/jobs" });
  });

  it.each([
    "postgres:///jobs?host=127.0.0.1&port=9977&user=app",
    "postgres:///jobs?port=9977",
    "postgres:///jobs?host=&host=/tmp/socket",
    "postgres:///jobs?ho%73t=127.0.0.1",
    "postgres:///jobs?hostaddr=127.0.0.1",
    "' postgres://%2Ftmp%2Fsocket/jobs'",
    "postgres://app@127.0.0.1/jobs?password=",
  ])("in a file of the working directory is not sent it as %s either", (db) => {
    const place = newPlace();
    settings(place, `db: ${db}\n`);
    expect(() => place.target([], { PGPASSWORD: "geheim" })).toThrow(/cannot collect passwords/);
  });
});

describe("the token", () => {
  it("of a data directory is sent to its own server, at the address that the server wrote", () => {
    for (const url of [LIVE, "http://localhost:4400"]) {
      expect(newPlace(LIVE).target(["--server", url])).toMatchObject({ url: LIVE, token: tokenOf("o") });
    }
  });

  it.each([
    "http://127.0.0.1:4401",
    "http://localhost:1",
    "http://[::1]:4400",
    "http://127.8.0.1:4400",
    "https://127.0.0.1:4400",
  ])("of a data directory is not sent to %s, where any other program could listen", (url) => {
    const place = newPlace(LIVE);
    expect(() => place.target(["--server", url])).toThrow(/^no token for .*is for http:\/\/127\.0\.0\.1:4400/);
    expect(() => place.target([], { PERDURE_URL: url })).toThrow(/^no token for /);
    writeFileSync(join(place.cwd, "perdure.yaml"), `url: ${url}\n`);
    expect(() => place.target()).toThrow(/^no token for /);
    expect(() => newPlace().target(["--server", LIVE])).toThrow(/^no token for /); // no server runs on that directory
  });

  it.each([
    FAR,
    "http://127.0.0.1.example",
    "http://localhost.example",
    "http://127.0.0.1@example.com",
    "http://10.0.0.1:4400",
    "http://0.0.0.0",
    "https://perdure.here:4401",
  ])("of a data directory is never sent to %s", (url) => {
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
    expect(() => token(["--token-file", join(place.cwd, "none")])).toThrow(/--token-file: file ".*" does not exist/);
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

it.skipIf(process.geteuid === undefined)("SUDO_UID counts only for root", () => {
  const spy = vi.spyOn(process as Required<typeof process>, "geteuid");
  onTestFinished(() => spy.mockRestore());
  spy.mockReturnValue(1_000);
  expect(trustedOwners({ SUDO_UID: "54321" })).toEqual([1_000, 0]);
  spy.mockReturnValue(0);
  expect(trustedOwners({ SUDO_UID: "54321" })).toEqual([0, 0, 54_321]);
});

describe("files in the working or data directory", () => {
  const hostile = (place: Place, text: string) => writeFileSync(join(place.cwd, "perdure.yaml"), text);

  it("cannot send the token of the environment to an address of their choice", () => {
    const place = newPlace();
    hostile(place, `url: ${FAR}\n`);
    expect(() => place.target([], WITH_TOKEN)).toThrow(/cannot collect tokens/);
    const file = join(place.cwd, "mine");
    writeFileSync(file, tokenOf("f"), { mode: 0o600 });
    expect(() => place.target([], { PERDURE_TOKEN_FILE: file })).toThrow(/cannot collect tokens/);
    expect(() => place.target(["--token-file", file])).toThrow(/cannot collect tokens/);
    // The user may choose the same address with --server.
    expect(place.target(["--server", FAR], WITH_TOKEN)).toMatchObject({ url: FAR, token: tokenOf("e") });
  });

  it.each([
    ["perdure.yaml", "http://127.0.0.1:9"],
    ["server.json", "http://127.0.0.1:9"],
  ])("cannot send a token to a port of this machine: %s", (name, url) => {
    const place = newPlace(name === "server.json" ? url : null);
    if (name === "perdure.yaml") hostile(place, `url: ${url}\n`);
    const file = join(place.cwd, "mine");
    writeFileSync(file, tokenOf("f"), { mode: 0o600 });
    for (const [argv, env] of [
      [[], WITH_TOKEN],
      [[], { PERDURE_TOKEN_FILE: file }],
      [["--token-file", file], {}],
    ] as const) {
      expect(() => place.target(argv, env)).toThrow(/cannot collect tokens/);
      expect(place.target(["--server", url, ...argv], env)).toMatchObject({ url });
    }
  });

  describe.skipIf(process.geteuid?.() !== 0)("that belong to another user (creating them requires root)", () => {
    const STRANGER = 54_321;

    it("are refused: settings, server.json and token", () => {
      const place = newPlace(LIVE);
      hostile(place, `url: ${LIVE}\n`);
      chownSync(join(place.cwd, "perdure.yaml"), STRANGER, STRANGER);
      expect(() => place.target()).toThrow(
        /^perdure\.yaml belongs to another user \(uid 54321\).*--config perdure\.yaml/,
      );
      rmSync(join(place.cwd, "perdure.yaml"));
      for (const name of ["server.json", "token"]) {
        chownSync(join(place.data, name), STRANGER, STRANGER);
        expect(() => place.target()).toThrow(new RegExp(`${name} belongs to another user \\(uid 54321\\)`));
        expect(() => place.target(["--data", place.data])).toThrow(/belongs to another user/);
        chownSync(join(place.data, name), 0, 0);
      }
      expect(place.target()).toMatchObject({ kind: "server", token: tokenOf("o") });
    });

    it("are refused as links of another user, whoever owns their target", () => {
      const place = newPlace();
      writeFileSync(join(place.cwd, "mine.yaml"), "namespace: mine\n");
      symlinkSync("mine.yaml", join(place.cwd, "perdure.yaml"));
      expect(place.target()).toMatchObject({ namespace: "mine" });
      lchownSync(join(place.cwd, "perdure.yaml"), STRANGER, STRANGER);
      expect(() => place.target()).toThrow(/^perdure\.yaml belongs to another user/);
    });

    it("are trusted where the person names them, or has come by sudo", () => {
      const place = newPlace(LIVE);
      for (const name of ["", "server.json", "token"]) chownSync(join(place.data, name), STRANGER, STRANGER);
      expect(() => place.target()).toThrow(/belongs to another user/);
      expect(place.target(["--data", place.data])).toMatchObject({ token: tokenOf("o") });
      process.env.SUDO_UID = String(STRANGER);
      onTestFinished(() => {
        delete process.env.SUDO_UID;
      });
      expect(place.target()).toMatchObject({ token: tokenOf("o") });
    });
  });

  it("that every user can change are refused", () => {
    const place = newPlace(LIVE);
    hostile(place, "namespace: mine\n");
    chmodSync(join(place.cwd, "perdure.yaml"), 0o666);
    expect(() => place.target()).toThrow(/can be changed by every user \(mode 0666\).*chmod o-w perdure\.yaml/);
    chmodSync(join(place.cwd, "perdure.yaml"), 0o644);
    chmodSync(place.data, 0o777);
    expect(() => place.target()).toThrow(/every user can change \.\/\.perdure \(mode 0777\)/);
    for (const mode of [0o1777, 0o700]) {
      chmodSync(place.data, mode); // the sticky bit lets only owners replace files
      expect(place.target()).toMatchObject({ kind: "server", namespace: "mine" });
    }
  });

  it("cannot choose both an address and a file with a token", () => {
    const place = newPlace();
    hostile(place, `url: ${FAR}\ntokenFile: .perdure/token\n`);
    expect(() => place.target()).toThrow(/cannot collect tokens/);
    hostile(place, `url: ${FAR}\ntoken: ${tokenOf("t")}\n`);
    expect(place.target()).toMatchObject({ url: FAR, token: tokenOf("t") });
    // The token from one file, and the address from another.
    const served = newPlace(LIVE);
    hostile(served, `token: ${tokenOf("t")}\n`);
    expect(() => served.target()).toThrow(/cannot collect tokens/);
  });

  it("named server.json may contain only an address of this machine", () => {
    expect(newPlace(FAR).target([], WITH_TOKEN)).toMatchObject({ kind: "store" });
    expect(newPlace(FAR).target()).toMatchObject({ kind: "store" });
  });
});
