/** The commands in the header of each example playbook, as a reader would copy them, with the built program. */
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ROOT } from "./fences.ts";
import { exampleSources } from "./hostile-playbooks.ts";
import { type PlaybookService, startPlaybookService } from "./playbook-service.ts";
import { ask } from "./postgres/client.ts";
import { newSchema, postgresUrl } from "./postgres/kit.ts";

const PROGRAM = join(process.env.PERDURE_TEST_DIST ?? join(ROOT, "dist"), "cli/main.js");
const { schema } = newSchema("headers");
let service: PlaybookService;
let cwd = "";

beforeAll(async () => {
  if (!existsSync(PROGRAM)) throw new Error("the examples are run by the built program: npm run build");
  await ask(postgresUrl(), `create schema ${schema}`);
  service = await startPlaybookService();
  cwd = mkdtempSync(join(tmpdir(), "perdure-headers-"));
  symlinkSync(join(ROOT, "examples"), join(cwd, "examples"), "dir");
});

afterAll(() => {
  service.close();
  rmSync(cwd, { recursive: true, force: true });
});

/** Those whose header shows how a run fails. */
const FAILS = new Set(["handlers.yaml"]);

it.each([...exampleSources()])("%s", { timeout: 120_000 }, async (file, source) => {
  const lines = [...source.matchAll(/^# {3}(.+)$/gm)].map(([, line]) => line as string);
  const shop = new URL(postgresUrl());
  shop.searchParams.set("options", `-c search_path=${schema}`);
  const script = lines
    .join("\n")
    .replaceAll("http://localhost:8080", file === "failure-branch.yaml" ? `${service.url}/down` : service.url)
    .replaceAll("postgres://localhost/shop", `'${shop.href}'`);
  const { code, output } = await bash(`set -e\nperdure() { "${process.execPath}" "${PROGRAM}" "$@"; }\n${script}`);
  expect(output).toMatch(FAILS.has(file) ? /^job_\S+: failed \(step\) after \d+ step/m : /^job_\S+: succeeded after/m);
  expect({ code, output }).toEqual({ code: FAILS.has(file) ? 1 : 0, output });
});

function bash(script: string): Promise<{ readonly code: number; readonly output: string }> {
  const env = { PATH: process.env.PATH, HOME: cwd };
  return new Promise((resolve) => {
    const child = execFile("bash", ["--noprofile", "--norc", "-c", script], { cwd, env }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code ?? -1), output: `${stderr}${stdout}` }),
    );
    child.stdin?.end();
  });
}
