import { spawn } from "node:child_process";
import {
  chmodSync,
  chownSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { systemClock } from "../../lib/system-clock.ts";
import { hashOf } from "../../server/tokens.ts";
import { openStore } from "../../store/open.ts";
import { liveServer, ServerClaim } from "./server-notes.ts";
import { ownTokens, readTokenFile, writeTokenFile } from "./token-file.ts";

function directory(): string {
  const dir = mkdtempSync(join(tmpdir(), "perdure-files-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

const TOKEN = `pdr_abcdefgh_${"x".repeat(43)}`;

describe("the token file", () => {
  it("is readable only for its owner, whatever the umask", () => {
    const dir = directory();
    const before = process.umask(0);
    try {
      expect(writeTokenFile(join(dir, "token"), TOKEN)).toBe(TOKEN);
    } finally {
      process.umask(before);
    }
    expect(statSync(join(dir, "token")).mode & 0o777).toBe(0o600);
    expect(readTokenFile(join(dir, "token"), "")).toBe(TOKEN);
    expect(readdirSync(dir)).toEqual(["token"]);
  });

  it("is not overwritten: the second writer gets the first token", () => {
    const path = join(directory(), "token");
    writeTokenFile(path, TOKEN);
    expect(writeTokenFile(path, `pdr_zzzzzzzz_${"y".repeat(43)}`)).toBe(TOKEN);
  });

  it.each([0o644, 0o640, 0o604, 0o660])("S35: is refused when others can read or change it (mode %o)", (mode) => {
    const path = join(directory(), "token");
    writeTokenFile(path, TOKEN);
    chmodSync(path, mode);
    expect(() => readTokenFile(path, "")).toThrow(/can be read by others .*chmod 600/);
  });

  it("with other content is refused, and a missing one is null", () => {
    const path = join(directory(), "token");
    expect(readTokenFile(path, "")).toBeNull();
    writeFileSync(path, "hello\n", { mode: 0o600 });
    expect(() => readTokenFile(path, "")).toThrow(/holds no token/);
  });

  it.each(["", "\n", "\0".repeat(56)])("that is empty after a power cut (%j) is reported with what to do", (left) => {
    const path = join(directory(), "token");
    writeFileSync(path, left, { mode: 0o600 });
    expect(() => readTokenFile(path, "restart the server")).toThrow(`${path} is empty; restart the server`);
  });

  it("that is empty after a power cut is replaced when the server starts, with one log line", async () => {
    const dir = directory();
    const store = await openStore({
      url: ":memory:",
      clock: systemClock,
      random: Math.random,
      newSecret: () => "s".repeat(32),
    });
    onTestFinished(() => store.close());
    const lines: string[] = [];
    const request = {
      ...{ dir, now: () => 1, isShared: false, hasWorkers: true },
      log: (_: string, message: string) => void lines.push(message),
    };
    await ownTokens(store, request);
    const first = readTokenFile(join(dir, "token"), "");
    expect(lines).toEqual([]);
    truncateSync(join(dir, "token"));
    await ownTokens(store, request);
    const second = readTokenFile(join(dir, "token"), "") as string;
    expect(second).not.toBe(first);
    expect(lines).toEqual([`${join(dir, "token")} was empty, as after a power cut: it has a new token now`]);
    expect((await store.tokens.list()).map(({ hash }) => hash)).toContain(hashOf(second));
    expect(statSync(join(dir, "token")).mode & 0o777).toBe(0o600);
    expect(readdirSync(dir).sort()).toEqual(["token", "worker-token"]);
  });
});

it.skipIf(process.geteuid?.() !== 0)("an empty token file that root replaces keeps its owner", () => {
  const path = join(directory(), "token");
  writeFileSync(path, "", { mode: 0o600 });
  chownSync(path, 65534, 65534);
  writeTokenFile(path, TOKEN, { replace: true });
  expect([statSync(path).uid, statSync(path).gid, statSync(path).mode & 0o777]).toEqual([65534, 65534, 0o600]);
});

describe("the server file", () => {
  it("makes a second server fail with the pid of the first, until the first releases it", async () => {
    const dir = directory();
    const first = await ServerClaim.take(dir);
    first.listening("http://127.0.0.1:4400");
    await expect(ServerClaim.take(dir)).rejects.toThrow(
      `in use by the server with pid ${process.pid}, at http://127.0.0.1:4400`,
    );
    expect(liveServer(dir)).toMatchObject({ pid: process.pid, url: "http://127.0.0.1:4400" });
    expect(statSync(join(dir, "server.json")).mode & 0o777).toBe(0o600);
    first.release();
    expect(liveServer(dir)).toBeNull();
    (await ServerClaim.take(dir)).release();
  });

  it("of a process that was killed is ignored", async () => {
    const dir = directory();
    const child = spawn("sleep", ["60"]);
    const { pid } = child;
    writeFileSync(join(dir, "server.json"), JSON.stringify({ pid, process: null, url: "http://127.0.0.1:1" }));
    expect(liveServer(dir)?.pid).toBe(pid);
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
    expect(liveServer(dir)).toBeNull();
    const claim = await ServerClaim.take(dir);
    expect(JSON.parse(readFileSync(join(dir, "server.json"), "utf8"))).toMatchObject({ pid: process.pid, url: null });
    claim.release();
  });
});
