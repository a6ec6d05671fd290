/** The commands in docs/guides/opal.md, run as they are written except for the port. */
import { type ChildProcess, spawn } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { PROGRAM } from "../cli/program.ts";
import { freePort } from "../e2e/machine.ts";
import { pathWithJq } from "./jq.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const GUIDE = readFileSync(join(ROOT, "docs/guides/opal.md"), "utf8");
const [
  START = "",
  USE = "",
  ARTIFACT = "",
  OWN_RETRY = "",
  RETRY = "",
  ANONYMOUS = "",
  RUNTIME = "",
  VERIFY = "",
  ...more
] = [...GUIDE.matchAll(/^```sh\n(.*?)^```$/gms)].map(({ 1: body = "" }) => body);
const [AUTH = ""] = USE.split("\n");

let cwd = "";
let port = "";
const started = new Set<ChildProcess>();

function shell(script: string): ChildProcess {
  const env = { PATH: `${join(cwd, "bin")}:${pathWithJq(cwd)}`, HOME: process.env.HOME };
  // A separate process group, so that all of it can be stopped.
  const text = script.replaceAll("7001", port);
  const child = spawn("/bin/sh", ["-c", text], { cwd, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  started.add(child);
  child.once("close", () => started.delete(child));
  return child;
}

/** Resolves with the output when the script has ended. */
function ran(script: string): Promise<string> {
  const child = shell(script);
  let output = "";
  const collect = (text: unknown) => {
    output += String(text);
  };
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", collect);
  return new Promise((resolve) => child.once("close", () => resolve(output)));
}

/** Resolves when the server is ready; `stop` resolves when it has stopped. `logged` returns the log so far. */
async function up(script: string): Promise<{ logged(): string; stop(): Promise<void> }> {
  const child = shell(script);
  let logged = "";
  child.stderr?.on("data", (text) => {
    logged += String(text);
  });
  await new Promise<void>((resolve, reject) => {
    child.stdout?.on("data", (text) => String(text).includes("Ctrl-C stops it") && resolve());
    child.once("close", () => reject(new Error(logged)));
  });
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const stop = () => {
    process.kill(-(child.pid as number), "SIGINT");
    return ended;
  };
  return { logged: () => logged, stop };
}

async function until(script: string, wanted: RegExp): Promise<string> {
  for (const start = performance.now(); performance.now() - start < 40_000; ) {
    const said = await ran(script);
    if (wanted.test(said)) return said;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`waited in vain for ${wanted}`);
}

beforeAll(async () => {
  if (!existsSync(PROGRAM)) throw new Error("this runs the built program: npm run build");
  cwd = mkdtempSync(join(tmpdir(), "perdure-guide-"));
  mkdirSync(join(cwd, "bin"));
  for (const name of ["examples", "README.md"]) symlinkSync(join(ROOT, name), join(cwd, name));
  writeFileSync(join(cwd, "bin/npx"), `#!/bin/sh\nshift\nexec "${process.execPath}" "${PROGRAM}" "$@"\n`);
  chmodSync(join(cwd, "bin/npx"), 0o755);
  port = String(await freePort());
});

afterAll(() => {
  for (const { pid } of started) process.kill(-(pid as number), "SIGKILL");
  rmSync(cwd, { recursive: true, force: true });
});

it("shows what happens", async () => {
  expect(more).toEqual([]);
  const server = await up(START);
  const lines = USE.trim().split("\n");
  await until(`${AUTH}\n${lines.at(-1)}`, /"status":"online"/); // it serves before its worker is online
  const [posted, second, all, one, withAttempts, workers] = (await ran(USE.replaceAll(/^curl.*$/gm, "$&; echo")))
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(posted).toEqual({ id: "job_demo", status: "queued" });
  expect(second).toMatchObject({ id: expect.stringMatching(/^job_[0-9a-f]{12}$/) });
  expect(Object.keys(all).sort()).toEqual([second.id, "job_demo"].sort());
  expect(one.id).toBe("job_demo");
  expect(withAttempts.attempts).toMatchObject({ job_id: "job_demo" });
  expect(workers).toMatchObject([{ status: "online" }]);

  await until(`${AUTH}\n${lines[4]}`, /"status":"succeeded"/);
  expect(JSON.parse(await ran(`${AUTH}\n${ARTIFACT}`))).toEqual({
    ...{ job_id: "job_demo", attempt: 1, metadata: { ui: "v2" } },
  });

  const own = (await ran(`${AUTH}\n${OWN_RETRY.replaceAll(/^curl.*$/gm, "$&; echo")}`)).trim().split("\n");
  const refusal = /`(retry\.max_retry: .*?)`\n/.exec(GUIDE)?.[1];
  expect(own.map((line) => JSON.parse(line))).toEqual([
    ...[{ id: "job_list", status: "queued" }, { id: "job_growing", status: "queued" }, { detail: refusal }],
  ]);

  await ran(`${AUTH}\n${RETRY}`);
  const again = `${AUTH}\n${RETRY.trim().split("\n").at(-1)}`;
  await until(again, /"error":"lease_expired_retry_1"/); // a slow machine needs more than the two seconds of the guide
  const line = "[Lease] ♻️ Reclaiming job job_retry (Attempt 1/2) -> QUEUED (backoff=8s)";
  await expect.poll(server.logged, { timeout: 40_000 }).toContain(line); // the line is written after the job is visible
  await until(again, /"attempt":2,.*"status":"running"/);
  await server.stop();

  const open = await up(`${START.split("\n")[0]}\n${ANONYMOUS}`);
  expect(JSON.parse(await ran("curl -sS http://127.0.0.1:7001/api/jobs"))).toHaveProperty("job_demo");
  await open.stop();

  const copied = await up(`${START.split("\n")[0]}\n${RUNTIME}`);
  const [store = "", outputs = "", reclaims = "", keys = ""] = VERIFY.trim().split("\n");
  await until(reclaims, /Reclaiming job job_retry \(Attempt 1\/2\) -> QUEUED \(backoff=8s\)/);
  await until(outputs, /attempt_2/);
  expect(JSON.parse(await ran(store))).toMatchObject({ job_id: "job_retry", reclaim: { reason: "lease_expired" } });
  expect(JSON.parse(await ran(keys))).toContain("job_demo");
  await copied.stop();
  const refused = await ran(`${ANONYMOUS.trim()} --host 0.0.0.0 --insecure`);
  expect(refused).toContain("opal.anonymous");
}, 120_000);
