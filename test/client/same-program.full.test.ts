/** The same program, run on a file and on a server, as a reader would run it: only the address differs. */
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it, onTestFinished } from "vitest";
import { startServer } from "../server/kit.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const TSX = join(ROOT, "node_modules/tsx/dist/cli.mjs");
const PROGRAM = join(ROOT, "examples/same-program.ts");

async function run(address: string, env: Record<string, string> = {}): Promise<string> {
  const options = { cwd: tmpdir(), env: { ...process.env, ...env } };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [TSX, PROGRAM, address], options);
  expect(stderr).toBe("");
  return stdout;
}

/** Without what is of one run: ids, instants, durations and chance. */
function plain(text: string): string {
  return text
    .replaceAll(/\b(job|ses)_[0-9a-z]{26}/g, "$1")
    .replaceAll(/\d{4}-\d\d-\d\d[T ][\d:.]+( UTC|Z)?|\b\d\d:\d\d:\d\d(\.\d+)?/g, "TIME")
    .replaceAll(/, [\d.]+ m?s after it was due,/g, "") // only for an attempt that started late
    .replaceAll(/\b\d+(\.\d+)? (ms|s)\b/g, "SPAN")
    .replaceAll(/jitter [+-]?[\d.]+ %/g, "JITTER")
    .replaceAll(/\bon \S+-\d+\b|worker "[^"]*"/g, "WORKER");
}

it("one program prints the same on a file and on a server", async () => {
  if (!existsSync(join(ROOT, "dist/index.js"))) throw new Error("it runs the built package: npm run build");
  const directory = mkdtempSync(join(tmpdir(), "perdure-same-"));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const server = await startServer();
  onTestFinished(() => server.close());
  const token = await server.token({ name: "program", scopes: ["read", "submit", "work"], namespace: "default" });
  const [onFile, onServer] = [await run(join(directory, "jobs.db")), await run(server.url, { PERDURE_TOKEN: token })];
  expect(onFile.split("\n")[0]).toBe("tea costs 4.99 after 3 attempts");
  expect(onFile).toMatch(/^Succeeded at /m);
  expect(plain(onServer)).toBe(plain(onFile));
});
