import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { tempFile } from "../../test/kit.ts";
import { readConfigFile } from "./config/config-file.ts";
import { readJobFile } from "./job-file.ts";
import { findPack } from "./packs/find.ts";
import { readBounded } from "./read-file.ts";
import { checkModules } from "./serve/tasks.ts";
import { readTokenFile } from "./serve/token-file.ts";

/** Nobody writes to it: whoever opens it to read waits for ever. */
function namedPipe(name: string, dir = dirname(tempFile())): string {
  const path = join(dir, name);
  execFileSync("mkfifo", ["-m", "600", path]);
  return path;
}

describe("what is not a plain file is refused at once", () => {
  it("a named pipe as a job, a token, settings, tasks, or an action of a pack", async () => {
    const pipe = namedPipe("pipe.yaml");
    const cwd = dirname(pipe);
    await expect(readJobFile("pipe.yaml", { cwd })).rejects.toThrow("pipe.yaml: it is a named pipe; give a file");
    expect(() => readTokenFile(pipe, "")).toThrow("named pipe");
    expect(() => readConfigFile({ io: { cwd, env: {} }, named: "pipe.yaml" })).toThrow("named pipe");
    expect(() => checkModules(["pipe.yaml"], cwd)).toThrow("not a plain file");
    const packs = dirname(tempFile());
    mkdirSync(join(packs, "mine"));
    namedPipe("pack.yaml", join(packs, "mine"));
    expect(() => findPack("mine", { dirs: [packs], cwd, areSet: true })).toThrow("named pipe");
  });

  it.each([
    ["/dev/zero", "a device"],
    ["/", "a directory"],
  ])("%s: %s", (path, what) => {
    expect(() => readBounded(path, 1_000, path)).toThrow(`${path}: it is ${what}`);
  });

  it("a plain file is read, no further than the limit", () => {
    const file = tempFile("text");
    writeFileSync(file, "0123456789");
    expect(readBounded(file, 4, file).toString()).toBe("0123");
    expect(readBounded(file, 1_000, file).toString()).toBe("0123456789");
  });
});
