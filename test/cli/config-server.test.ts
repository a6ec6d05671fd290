/** `perdure config` with a running server: it shows the server's values. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { readArguments } from "../../src/cli/command.ts";
import { server } from "../../src/cli/commands/server.ts";
import { loadConfig } from "../../src/cli/config/config.ts";
import { Printer } from "../../src/cli/output/print.ts";
import { SERVER_KEYS } from "../../src/cli/serve/process-settings.ts";
import { startServing } from "../../src/cli/serve/start-server.ts";
import { perdure, testIo } from "./kit.ts";
import { newDir } from "./targets.ts";

/** A server as `perdure server` starts it, in this process. */
async function serving(cwd: string, env: Record<string, string>) {
  const io = testIo({ cwd, env });
  const given = readArguments(server, ["--port", "0", "--body-limit", "2MB"]);
  if (given === null) throw new Error("help was requested");
  const config = loadConfig({ given, io }, SERVER_KEYS);
  const started = await startServing({ io, given, out: new Printer(io) }, config, () => {}, { hasWorkers: false });
  onTestFinished(() => started.stop(0));
  return started;
}

it("shows what the server was started with, and names it as the source", async () => {
  const cwd = newDir();
  const { localUrl } = await serving(cwd, {
    ...{ OPAL_LEASE_TTL_SECS: "30", PERDURE_RETENTION_FAILED: "9d", PERDURE_OPAL_ENGINE: "engine" },
  });
  // The settings of commands on this machine do not matter.
  writeFileSync(join(cwd, "perdure.yaml"), "server: { lease: 3s, bodyLimit: 5MB }\nworker: { concurrency: 3 }\n");
  const ask = (...argv: string[]) => perdure(["config", ...argv], { cwd });

  const { code, stdout, stderr } = await ask();
  expect(code).toBe(0);
  expect(stderr).toContain(`PROCESS server is pid ${process.pid} on `);
  expect(stderr).toContain(`, at ${new URL(localUrl).origin};`);
  expect(stdout).toMatch(/^KEY +VALUE +SOURCE +PROCESS$/m);
  expect(stdout).toMatch(/^server\.lease +30s +OPAL_LEASE_TTL_SECS +server$/m);
  expect(stdout).toMatch(/^server\.bodyLimit +2MB +--body-limit +server$/m);
  expect(stdout).toMatch(/^server\.retention\.failed +9d +PERDURE_RETENTION_FAILED +server$/m);
  expect(stdout).toMatch(/^worker\.concurrency +3 +perdure\.yaml:2 +here$/m);

  expect((await ask("server.lease")).stdout).toBe("30s\n");
  expect((await ask("server.lease", "--local")).stdout).toBe("3s\n");
  // With an option it shows what a process started with it would use.
  expect((await ask("server.lease", "--lease", "7s")).stdout).toBe("7s\n");
  expect(JSON.parse((await ask("server.lease", "--json")).stdout)).toEqual({
    ...{ key: "server.lease", value: "30s", source: "OPAL_LEASE_TTL_SECS", process: "server" },
  });
});

it("requires admin scope: with another token it shows the local settings, and the reason", async () => {
  const cwd = newDir();
  const { localUrl } = await serving(cwd, { PERDURE_LEASE: "30s" });
  const made = await perdure(["token", "create", "ci", "-s", "read"], { cwd });
  const env = { PERDURE_URL: localUrl, PERDURE_TOKEN: made.stdout.trim() };
  const said = await perdure(["config", "server.lease"], { cwd, env });
  expect(said).toMatchObject({
    code: 0,
    stdout: "15s\n",
    stderr: expect.stringContaining("cannot read the settings of the server"),
  });
  const named = await perdure(["config", "server.lease", "--server", localUrl], { cwd, env });
  expect(named).toMatchObject({ code: 1, stdout: "" });
  const db = "postgres://me:geheim@db.example/jobs";
  expect(JSON.stringify(await perdure(["config", "--db", db], { cwd }))).not.toContain("geheim");
});
