import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { testIo } from "../../../test/cli/kit.ts";
import { main } from "../main.ts";
import { config } from "./config.ts";

const cwd = mkdtempSync(join(tmpdir(), "perdure-config-command-"));
beforeAll(() => writeFileSync(join(cwd, "perdure.yaml"), "token: geheim\nserver:\n  port: 4401\n"));
afterAll(() => rmSync(cwd, { recursive: true }));

async function run(args: readonly string[], env: Record<string, string> = {}) {
  const io = testIo({ cwd, env });
  const code = await main(["config", ...args], io, [config]);
  return { code, stdout: io.stdout.text, stderr: io.stderr.text };
}

describe("perdure config", () => {
  it("shows each setting with its source, and no secret", async () => {
    const env = { PERDURE_DB: "postgres://me:geheim@h/d", PERDURE_LABELS: "a=1,b=2" };
    const { code, stdout, stderr } = await run(["--host", "0.0.0.0"], env);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/^KEY +VALUE +SOURCE\n/);
    expect(stdout).toMatch(/^server\.host +0\.0\.0\.0 +--host$/m);
    expect(stdout).toMatch(/^server\.port +4401 +perdure\.yaml:3$/m);
    expect(stdout).toMatch(/^server\.lease +15s +default$/m);
    expect(stdout).toMatch(/^token +set \(hidden\) +perdure\.yaml:1$/m);
    expect(stdout).toMatch(/^db +postgres:\/\/me:\*\*\*@h\/d +PERDURE_DB$/m);
    expect(stdout).toMatch(/^worker\.labels +a=1,b=2 +PERDURE_LABELS$/m);
    expect(stdout).toMatch(/^worker\.name +- +default$/m);
    expect(stdout).not.toContain("geheim");
  });

  it("shows them as JSON", async () => {
    const { stdout } = await run(["--json"], { PERDURE_DB: "postgres://me:geheim@h/d" });
    const facts = JSON.parse(stdout) as { key: string }[];
    expect(facts).toContainEqual({ key: "server.port", value: 4401, source: "perdure.yaml:3", process: "here" });
    expect(facts).toContainEqual({ key: "worker.name", value: null, source: "default", process: "here" });
    expect(facts).toContainEqual({ key: "server.bodyLimit", value: "10MB", source: "default", process: "here" });
    expect(stdout).not.toContain("geheim");
  });

  it("shows one of them", async () => {
    expect(await run(["server.port"])).toEqual({ code: 0, stdout: "4401\n", stderr: "" });
    expect(await run(["token"])).toEqual({ code: 0, stdout: "set (hidden)\n", stderr: "" });
    expect(JSON.parse((await run(["worker.kinds", "--json"])).stdout)).toMatchObject({ value: ["exec", "http"] });
    expect(await run(["worker.name"])).toEqual({
      ...{ code: 1, stdout: "", stderr: "perdure config: worker.name is not set\n" },
    });
    const unknown = 'perdure config: setting "server.prot" does not exist; did you mean server.port?\n';
    expect(await run(["server.prot"])).toEqual({ code: 2, stdout: "", stderr: unknown });
  });

  it("shows a group of them", async () => {
    const { code, stdout } = await run(["agent.retry"]);
    expect(code).toBe(0);
    const keys = stdout
      .trimEnd()
      .split("\n")
      .slice(1)
      .map((line) => line.split(" ")[0]);
    expect(keys).toContain("agent.retry.legionary.maxAttempts");
    expect(keys.every((key) => key?.startsWith("agent.retry."))).toBe(true);
    const facts = JSON.parse((await run(["fluster", "--json"])).stdout) as { key: string }[];
    expect(facts.map(({ key }) => key)).toContain("fluster.default_retry_delay_ms");
    expect((await run(["attune.retri"])).stderr).toContain("did you mean attune.retry?");
  });

  it("warns of variables that are not settings", async () => {
    const { code, stderr } = await run(["server.port"], {
      ...{ PERDURE_PROT: "1", PERDURE_JOB_ID: "x", PERDURE_TEST_X: "1", PERDURE_CONFIG: "perdure.yaml", PATH: "/bin" },
    });
    expect(code).toBe(0);
    expect(stderr).toBe("perdure config: PERDURE_PROT is not a setting and is ignored; did you mean PERDURE_PORT?\n");
  });

  it("has help for all options", async () => {
    const { code, stdout } = await run(["--help"]);
    expect(code).toBe(0);
    expect(stdout).toContain("--port N");
    expect(stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
  });
});
