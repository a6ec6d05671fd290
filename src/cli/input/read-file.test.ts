import { mkdirSync, truncateSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { namedPipe, tempFile } from "../../../test/kit.ts";
import { findPack } from "../../dialects/attune/cli/find-pack.ts";
import type { Store } from "../../store/store.ts";
import { readConfigFile } from "../config/config-file.ts";
import { outputsOf } from "../serve/outputs.ts";
import { readSecretFile } from "../serve/secret-file.ts";
import { checkModules } from "../serve/task-modules.ts";
import { databaseOf, liveServer } from "../target/server-notes.ts";
import { readTokenFile } from "../target/token-file.ts";
import { readJobFile } from "./job-file.ts";
import { readBounded } from "./read-file.ts";

/** A PostgreSQL store, reduced to what the choice of a directory needs. */
const OTHER_STORE = { blobs: () => null } as unknown as Store;

describe("anything but a plain file is refused at once", () => {
  it("a named pipe as a job, a token, settings, tasks, or an action of a pack", async () => {
    const pipe = namedPipe(tempFile("pipe.yaml"));
    const cwd = dirname(pipe);
    await expect(readJobFile("pipe.yaml", { cwd })).rejects.toThrow("pipe.yaml is a named pipe; pass a file");
    expect(() => readTokenFile(pipe, "")).toThrow("named pipe");
    expect(() => readConfigFile({ io: { cwd, env: {} }, named: "pipe.yaml" })).toThrow("named pipe");
    expect(() => checkModules(["pipe.yaml"], cwd)).toThrow("not a plain file");
    const packs = dirname(tempFile());
    mkdirSync(join(packs, "mine"));
    namedPipe(join(packs, "mine", "pack.yaml"));
    expect(() => findPack("mine", { dirs: [packs], cwd, areSet: true })).toThrow("named pipe");
  });

  it.each<[string, (dir: string) => unknown, string]>([
    ["server.json", liveServer, "remove it"],
    ["database", databaseOf, "remove it"],
    [".perdure-outputs", (dir) => outputsOf(dir, "/", "db")(OTHER_STORE), "pass a file"],
    ["secret", (dir) => readSecretFile(join(dir, "secret")), "pass a file"],
  ])("a named pipe as %s of a data directory", async (name, read, advice) => {
    const pipe = namedPipe(tempFile(name));
    await expect(async () => read(dirname(pipe))).rejects.toThrow(`${pipe} is a named pipe; ${advice}`);
  });

  it("only the first bytes of a token and of a secret are read", () => {
    const [token, secret] = [tempFile("token"), tempFile("secret")];
    for (const path of [token, secret]) {
      writeFileSync(path, "", { mode: 0o600 });
      truncateSync(path, 2 ** 40); // uses no disk space
    }
    expect(() => readTokenFile(token, "start anew")).toThrow("is empty; start anew");
    expect(() => readSecretFile(secret)).toThrow("the secret is not");
  });

  it.each([
    ["/dev/zero", "a device"],
    ["/", "a directory"],
  ])("%s: %s", (path, what) => {
    expect(() => readBounded(path, 1_000, path)).toThrow(`${path} is ${what}`);
  });

  it("a plain file is read up to the limit", () => {
    const file = tempFile("text");
    writeFileSync(file, "0123456789");
    expect(readBounded(file, 4, file).toString()).toBe("0123");
    expect(readBounded(file, 1_000, file).toString()).toBe("0123456789");
  });
});
