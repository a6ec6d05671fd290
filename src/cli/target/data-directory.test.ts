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

it("keeps git from a data directory that it makes, and from one of our name", () => {
  const cwd = newCwd();
  const make = (name: string) => makeDataDirectory(dataAt(name, "--data", cwd)).path;
  expect(ignored(make("new/data"))).toBe(true);
  expect(existsSync(join(cwd, "new", ".gitignore"))).toBe(false);
  mkdirSync(join(cwd, ".perdure"));
  expect(ignored(make(".perdure"))).toBe(true);
  // What was there before may hold more than ours.
  expect(ignored(make("."))).toBe(false);
  writeFileSync(join(cwd, ".perdure", ".gitignore"), "mine\n");
  expect(ignored(make(".perdure"))).toBe(false);
});

it("keeps git from the directory that the library makes", async () => {
  const dir = join(newCwd(), ".perdure");
  await using _ = await Perdure.open(join(dir, "perdure.db"));
  expect(ignored(dir)).toBe(true);
});
