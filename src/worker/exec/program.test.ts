import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkProgram, startFailure } from "./program.ts";

const dir = mkdtempSync(join(tmpdir(), "perdure-program-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

beforeAll(() => {
  writeFileSync(join(dir, "runs"), "#!/bin/sh\n", { mode: 0o755 });
  writeFileSync(join(dir, "plain"), "text\n", { mode: 0o644 });
  mkdirSync(join(dir, "bin"));
  mkdirSync(join(dir, "other/runs"), { recursive: true });
  writeFileSync(join(dir, "bin/tool"), "#!/bin/sh\n");
  chmodSync(join(dir, "bin/tool"), 0o755);
  symlinkSync("runs", join(dir, "link"));
  symlinkSync("nowhere", join(dir, "dangling"));
});

const code = async (program: string, { cwd = dir, path = `${dir}/other:${dir}/bin` } = {}) =>
  (await checkProgram(program, cwd, path))?.code ?? null;

describe("before a program is started", () => {
  it("searches the PATH of the command, not that of the worker", async () => {
    expect(await code("tool")).toBe(null);
    expect(await code("tool", { path: "/nowhere:bin" })).toBe(null); // a relative folder: of its directory
    expect(await code("sh")).toBe("ENOENT");
    expect(await code("runs", { path: "" })).toBe(null); // an empty folder is the directory itself, as for shells
  });

  it("with a slash it is a file, relative to its directory", async () => {
    expect(await code("./runs")).toBe(null);
    expect(await code("bin/tool")).toBe(null);
    expect(await code("./link")).toBe(null);
    expect(await code(join(dir, "runs"))).toBe(null);
    expect(await code("./runs", { cwd: join(dir, "bin") })).toBe("ENOENT");
  });

  it("refuses what is not an executable file", async () => {
    expect(await code("./plain")).toBe("EACCES");
    expect(await code("./bin")).toBe("EACCES");
    expect(await code("./dangling")).toBe("ENOENT");
    expect(await code("plain/x")).toBe("ENOENT");
    expect(await code("runs")).toBe("EACCES"); // there is one on the path, and it is a folder
  });

  it("its directory must be one", async () => {
    expect(await code("tool", { cwd: join(dir, "gone") })).toBe("ENOENT");
    expect(await code("tool", { cwd: join(dir, "plain") })).toBe("ENOTDIR");
    expect((await checkProgram("tool", join(dir, "gone"), ""))?.message).toContain("working directory");
  });
});

describe("an error at the start", () => {
  it.each(["ENOENT", "EACCES", "ENOTDIR", "E2BIG", "ENOEXEC", "EPERM", "ELOOP", "ENAMETOOLONG"])(
    "%s is permanent",
    (each) => {
      expect(startFailure(each, "prog")).toMatchObject({ kind: "error", class: "invalid", code: each, exitCode: null });
    },
  );

  it.each(["EAGAIN", "ENOMEM", "EMFILE", "ENFILE", "ETXTBSY"])("%s passes", (each) => {
    expect(startFailure(each, "prog")).toMatchObject({ kind: "error", class: "transient", code: each });
  });

  it("names the program or directory", () => {
    expect(startFailure("ENOENT", "./flaky.sh").message).toBe("cannot start: ./flaky.sh does not exist (ENOENT)");
    expect(startFailure("EXYZ", "a").message).toBe("cannot start: a cannot be executed (EXYZ)");
  });
});
