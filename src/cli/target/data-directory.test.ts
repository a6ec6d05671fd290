import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { Perdure } from "../../embedded/perdure.ts";
import { dataAt, makeDataDirectory } from "./data-directory.ts";

function newCwd(): string {
  const cwd = mkdtempSync(join(tmpdir(), "perdure-data-dir-"));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
  return cwd;
}

const ignored = (dir: string) =>
  existsSync(join(dir, ".gitignore")) && readFileSync(join(dir, ".gitignore"), "utf8").split("\n").includes("*");

it("makes git ignore a data directory that it creates, or one named .perdure", () => {
  const cwd = newCwd();
  const make = (name: string) => makeDataDirectory(dataAt(name, "--data", cwd)).path;
  expect(ignored(make("new/data"))).toBe(true);
  expect(existsSync(join(cwd, "new", ".gitignore"))).toBe(false);
  mkdirSync(join(cwd, ".perdure"));
  expect(ignored(make(".perdure"))).toBe(true);
  // An existing directory may contain other files.
  expect(ignored(make("."))).toBe(false);
  writeFileSync(join(cwd, ".perdure", ".gitignore"), "mine\n");
  expect(ignored(make(".perdure"))).toBe(false);
});

it("makes git ignore the directory that the library creates", async () => {
  const dir = join(newCwd(), ".perdure");
  await using _ = await Perdure.open(join(dir, "perdure.db"));
  expect(ignored(dir)).toBe(true);
});
