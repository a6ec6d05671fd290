/** `perdure doctor`: on healthy and on damaged data, through a server, and on PostgreSQL. */
import { chmodSync, closeSync, existsSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { checkNode, judgeDisk } from "../../src/cli/doctor/local-checks.ts";
import { judgeClock, judgeVersion } from "../../src/cli/doctor/server-checks.ts";
import { version } from "../../src/cli/version.ts";
import { API_VERSION } from "../../src/contract/wire.ts";
import { NonRetryableError } from "../../src/core/decision/failure.ts";
import { task } from "../../src/core/task/task.ts";
import { Perdure } from "../../src/embedded/perdure.ts";
import { newSchema } from "../postgres/kit.ts";
import { claimAndVanish, DANGEROUS, dropSessions, HOSTILE, perdure } from "./kit.ts";
import { KINDS, newDir, openWhere } from "./targets.ts";

interface Report {
  readonly ok: boolean;
  readonly problems: number;
  readonly findings: readonly { check: string; level: string; message: string; advice: string | null }[];
}

const PAST = ["--run-at", "2020-01-01T00:00:00Z"];

/** `level check: message`, one per line. */
function linesOf({ findings }: Report): string {
  return findings.map(({ check, level, message }) => `${level} ${check}: ${message}`).join("\n");
}

async function examine(
  argv: string[],
  parts: Parameters<typeof perdure>[1] = {},
): Promise<{ code: number; lines: string }> {
  const { code, stdout, stderr } = await perdure(["doctor", "--json", ...argv], parts);
  expect(stderr).toBe("");
  const report = JSON.parse(stdout) as Report;
  expect(report.ok).toBe(code === 0);
  for (const { level, advice } of report.findings) if (level === "warning") expect(advice).not.toBeNull();
  return { code, lines: linesOf(report) };
}

/** A data directory as `submit` creates it, with one job. */
async function madeData(...argv: string[]): Promise<string> {
  const cwd = newDir();
  expect((await perdure(["submit", "k", ...argv], { cwd })).code).toBe(0);
  return join(cwd, ".perdure");
}

const idle = task("k", {}, () => null);
const hopeless = task("hopeless", {}, () => {
  throw new NonRetryableError("no");
});

describe.each(KINDS)("on %s", (kind) => {
  it("prints a line for each check, and no problem for healthy data", async () => {
    const { ask, library } = await openWhere(kind);
    await library.work([idle]);
    const { code, stdout, stderr } = await ask("doctor");
    expect(stdout).not.toMatch(/^problem /m);
    expect(code).toBe(0);
    expect(stderr).toMatch(/^no problems, /);
    expect(stdout).toMatch(/^ok {6}program +Perdure \S+ on Node /m);
    expect(stdout).toMatch(/^ok {6}sqlite +\S+ with SQLite 3\./m);
    expect(stdout).toMatch(/^ok {6}settings +no settings file$/m);
    expect(stdout).toMatch(/^ok {6}workers +1 worker alive$/m);
    expect(stdout).toMatch(/^ok {6}work +no job is due$/m);
    expect(stdout).toMatch(/^ok {6}letters +no dead letters$/m);
    if (kind === "data") {
      expect(stdout).toMatch(/^ok {6}store +.* has schema \d+$/m);
      expect(stdout).toMatch(/^ok {6}store +the SQLite file is intact$/m);
      expect(stdout).toMatch(/^(ok|warning) +disk +.* free, /m);
    } else {
      expect(stdout).toMatch(/^ok {6}server +http:\S+ answers$/m);
      expect(stdout).toMatch(/^warning server +the server has version 0\.0\.0-test/m);
      expect(stdout).toMatch(/^ok {6}token +token \w{8} \(admin\) has scope admin in all namespaces$/m);
      expect(stdout).toMatch(/^ok {6}clock +this clock and the server's are [\d.]+ m?s apart$/m);
      expect(stdout).toMatch(/^ok {6}secrets +the server can read its signing secrets$/m);
      expect(stdout).toMatch(/^ok {6}store +the server's SQLite database answers in /m);
    }
  });

  it("reports jobs that make no progress", async () => {
    const { ask, library } = await openWhere(kind);
    const worker = await library.work([hopeless]);
    await (await library.submit(hopeless)).result().catch(() => {});
    await library.pause("mail");
    await library.submit("k", 1, { queue: "mail", runAt: 0 });
    await library.submit(`gpu${HOSTILE.replaceAll(/\p{Cc}/gu, "")}`, 1, { labels: { gpu: "yes" }, runAt: 0 });
    await library.submit("fresh", 1);
    await worker.stop();
    const { code, stdout, stderr } = await ask("doctor");
    expect(code).toBe(1);
    expect(stderr).toMatch(/^1 problem, \d warnings?\n$/);
    expect(stdout).toMatch(/^warning workers +no worker is alive\n +→ start one/m);
    expect(stdout).toMatch(
      /^warning work +the queue mail is paused for \S+ m?s, with 1 job due\n.*`perdure queues resume mail`/m,
    );
    expect(stdout).toMatch(
      /^problem work +1 job due, the oldest .* ago, and no live worker takes kind gpu.* from queue default with gpu=yes/m,
    );
    expect(stdout).not.toContain("kind fresh");
    expect(stdout).toMatch(/^note {4}letters +1 dead letter: failed jobs that need attention/m);
  });
});

describe.each(KINDS)("on %s, with live workers", (kind) => {
  it("reports jobs that no worker can ever take, also because of their size", async () => {
    const { ask, library } = await openWhere(kind);
    await library.work([idle], { resources: { cpu: 0.5, memory: "1g" } });
    await library.submit("k", 1, { resources: { cpu: 100_000 } });
    await library.submit("other", 1);
    await library.submit("later", 1, { delay: "1h" });
    const { code, stdout } = await ask("doctor");
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^warning work +1 job due, .*no live worker takes kind k from queue default with 100000 cpus$/m,
    );
    expect(stdout).toMatch(/^warning work +1 job due, .*no live worker takes kind other from queue default$/m);
    expect(stdout).not.toContain("kind later");
  });
});

describe("on data", () => {
  it("reports running jobs whose session is missing", async () => {
    const dir = await madeData(...PAST);
    await claimAndVanish(dir);
    await dropSessions(dir);
    const { code, lines } = await examine(["--data", dir]);
    expect(code).toBe(1);
    const [, id = ""] = /^problem workers: 1 job in state running without a session: (job_\w+)$/m.exec(lines) ?? [];
    // No engine runs.
    expect(await perdure(["cancel", "--data", dir, id])).toMatchObject({ code: 0, stdout: `${id}  cancelled\n` });
    expect((await examine(["--data", dir])).lines).not.toContain("without a session");
  });

  it("reports missing data without creating it", async () => {
    const cwd = newDir();
    const { code, lines } = await examine([], { cwd });
    expect(code).toBe(1);
    expect(lines).toContain("problem data: no Perdure data in ./.perdure");
    expect(lines).toContain("ok program: ");
    expect((await perdure(["ps"], { cwd })).code).toBe(1);
  });

  it("reports permissions of other users", async () => {
    const dir = await madeData();
    writeFileSync(join(dir, "token"), "x", { mode: 0o600 });
    expect((await examine(["--data", dir])).lines).toContain("ok data: only its owner can read it");
    chmodSync(dir, 0o755);
    chmodSync(join(dir, "perdure.db"), 0o644);
    chmodSync(join(dir, "token"), 0o640);
    const { code, lines } = await examine(["--data", dir]);
    expect(code).toBe(1);
    expect(lines).toMatch(/^warning data: \S+ is open to other users \(mode 0755\)$/m);
    expect(lines).toMatch(/^warning data: \S+perdure\.db is open to other users \(mode 0644\)$/m);
    expect(lines).toMatch(/^problem data: \S+token is open to other users \(mode 0640\)$/m);
  });

  it("reports jobs held by a silent worker", async () => {
    const dir = await madeData(...PAST);
    await claimAndVanish(dir);
    const { lines } = await examine(["--data", dir]);
    expect(lines).toMatch(/^warning workers: 1 job run by gone \(ses_gone\), which is silent for [\d.]+ min$/m);
  });

  it("reports a damaged file, and one that is not a database", async () => {
    const dir = await madeData();
    const many = await Perdure.open(join(dir, "perdure.db"));
    await many.submitMany(Array.from({ length: 300 }, (_, n) => ({ task: "k", input: "x".repeat(500) + n })));
    await many.close();
    const file = openSync(join(dir, "perdure.db"), "r+");
    for (let page = 12; page < 40; page++) writeSync(file, Buffer.alloc(4_000, 0xa5), 0, 4_000, page * 4_096);
    closeSync(file);
    const damaged = await examine(["--data", dir]);
    expect(damaged.code).toBe(1);
    expect(damaged.lines).toMatch(/^problem store: .*(damaged|malformed)/m);
    expect(damaged.lines).toContain("ok program: ");

    const none = newDir();
    writeFileSync(join(none, "perdure.db"), "no database at all, but longer than a header ".repeat(9));
    const { code, lines } = await examine(["--data", none]);
    expect(code).toBe(1);
    expect(lines).toMatch(/^problem store: .* is not an SQLite database/m);
    expect(lines).toContain("note work: not checked");
  });
});

it("does not create the file that --db names", async () => {
  const file = join(newDir(), "gone.db");
  const { code, lines } = await examine(["--db", file]);
  expect({ code, made: existsSync(file) }).toEqual({ code: 0, made: false });
  expect(lines).toContain(`warning store: ${file} has no Perdure tables yet`);
});

describe("mistakes in settings", () => {
  it("are reported one by one", async () => {
    const dir = await madeData();
    const env = { PERDURE_PORT: "99999", PERDURE_LEASE: "soon", PERDURE_PROT: "1" };
    const { code, lines } = await examine(["--data", dir], { env });
    expect(code).toBe(1);
    expect(lines).toMatch(/^problem settings: PERDURE_PORT: /m);
    expect(lines).toMatch(/^problem settings: PERDURE_LEASE: /m);
    expect(lines).toMatch(
      /^note settings: PERDURE_PROT is not a setting and is ignored; did you mean PERDURE_PORT\?$/m,
    );
    expect(lines).toContain("ok store: ");
  });

  it("are reported once if the file cannot be read", async () => {
    const cwd = newDir();
    writeFileSync(join(cwd, "perdure.yaml"), "server: {prot: 1}\n");
    const { code, lines } = await examine([], { cwd });
    expect(code).toBe(1);
    expect(lines.match(/server\.prot/g)).toHaveLength(1);
    expect(lines).toContain("ok program: ");
    writeFileSync(join(cwd, "perdure.yaml"), "server: {port: 1}\n");
    expect((await examine([], { cwd })).lines).toContain("ok settings: perdure.yaml is valid");
  });
});

describe("through a server", () => {
  it("reports a server that does not answer, and checks nothing else there", async () => {
    const listener = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void listener.close());
    const url = `http://127.0.0.1:${(listener.address() as { port: number }).port}`;
    const { code, lines } = await examine(["--server", url], { env: { PERDURE_TOKEN: "pdr_x" }, cwd: newDir() });
    expect(code).toBe(1);
    expect(lines).toMatch(/^problem server: /m);
    expect(lines.match(/^problem /gm)).toHaveLength(1);
    expect(lines).toContain("note clock: not checked: the server does not answer");
  });

  it("reports a server that cannot read its signing secrets, and shows the path only to an admin of all namespaces", async () => {
    const { server } = await openWhere("server");
    if (server === null) throw new Error("a server is required");
    server.keys.fault = "/srv/perdure/secret: permission denied";
    const seenBy = async (token: string) => {
      const env = { PERDURE_TOKEN: token };
      const { code, lines } = await examine(["--server", server.url], { cwd: newDir(), env });
      return [code, /^problem secrets: .*$/m.exec(lines)?.[0]];
    };
    const message = "problem secrets: the server cannot read its signing secrets: ";
    expect(await seenBy(server.admin)).toEqual([1, `${message}/srv/perdure/secret: permission denied`]);
    const other = await server.token({ scopes: ["read"] });
    expect(await seenBy(other)).toEqual([1, `${message}the file of the signing secrets cannot be read`]);
  });

  it("reports a missing token, a wrong one, and one of another namespace", async () => {
    const { server } = await openWhere("server");
    const url = server?.url as string;
    const cwd = newDir();
    const missing = await examine(["--server", url], { cwd });
    expect(missing).toMatchObject({ code: 1, lines: expect.stringMatching(/^problem target: no token for /m) });
    const wrong = await examine(["--server", url], { cwd, env: { PERDURE_TOKEN: `pdr_00000000_${"x".repeat(43)}` } });
    expect(wrong).toMatchObject({ code: 1, lines: expect.stringMatching(/^problem token: the server refused/m) });
    expect(wrong.lines).toContain("ok server: ");
    expect(wrong.lines.match(/^problem /gm)).toHaveLength(1);
    const working = await server?.token({ scopes: ["work"] });
    const blind = await examine(["--server", url], { cwd, env: { PERDURE_TOKEN: working } });
    expect(blind).toMatchObject({ code: 0, lines: expect.stringContaining("note work: not checked: this token") });
    const token = await server?.token({ scopes: ["read"], namespace: "other" });
    const other = await examine(["--server", url, "--namespace", "other"], { cwd, env: { PERDURE_TOKEN: token } });
    expect(other.lines).toMatch(/^ok token: .* has scope read in the namespace other$/m);
    const astray = await examine(["--server", url], { cwd, env: { PERDURE_TOKEN: token } });
    expect(astray).toMatchObject({ code: 1, lines: expect.stringMatching(/^problem token: .*namespace/m) });
  });
});

describe("on PostgreSQL", () => {
  it("checks the schema and the jobs, and creates nothing", async () => {
    const { url } = newSchema("doctor");
    const cwd = newDir();
    const fresh = await examine(["--db", url], { cwd });
    expect(fresh.code).toBe(0);
    expect(fresh.lines).toMatch(/^warning store: .* has no Perdure tables yet$/m);
    expect(fresh.lines).toContain("note work: not checked");

    const library = await Perdure.open(url);
    onTestFinished(() => library.close());
    await library.submit("k", 1, { runAt: 0 });
    const { code, lines } = await examine([], { cwd, env: { PERDURE_DB: url } });
    expect(code).toBe(1);
    expect(lines).toMatch(/^ok store: .* has schema \d+$/m);
    expect(lines).toMatch(/^problem work: 1 job due, .* takes kind k /m);
    await library.work([idle]);
    await library.work([hopeless]);
    expect((await examine(["--db", url], { cwd })).lines).toMatch(/^ok workers: 2 workers alive$/m);
  });

  it("reports a database that cannot be reached", async () => {
    const { code, lines } = await examine(["--db", "postgres://u:geheim@127.0.0.1:1/none"], { cwd: newDir() });
    expect(code).toBe(1);
    expect(lines).toMatch(/^problem store: /m);
    expect(lines).not.toContain("geheim");
    // It only reads.
    expect(lines).not.toContain("stored");
    expect(lines).toContain("ok program: ");
  });
});

describe("checks", () => {
  it("of the disk", () => {
    expect(judgeDisk(50e9, 100e9)).toMatchObject({ level: "ok", message: "50 GB free, 50 %" });
    expect(judgeDisk(4e9, 100e9)).toMatchObject({ level: "warning" });
    expect(judgeDisk(9e8, 1e9)).toMatchObject({ level: "warning", message: "low disk space: 900 MB free, 90 %" });
    expect(judgeDisk(5_000, 0)).toMatchObject({ level: "warning" });
  });

  it("of clocks, which allow for the time of the request", () => {
    expect(judgeClock(10_000, 9_000, 11_000)).toMatchObject({ level: "ok" });
    expect(judgeClock(12_900, 9_000, 11_000)).toMatchObject({ level: "ok" });
    expect(judgeClock(13_100, 9_000, 11_000)).toMatchObject({
      level: "warning",
      message: expect.stringContaining("ahead"),
    });
    expect(judgeClock(5_000, 10_000, 10_010)).toMatchObject({
      level: "warning",
      message: expect.stringContaining("behind"),
    });
  });

  it("of versions", async () => {
    expect(judgeVersion(version(), API_VERSION)).toMatchObject({ level: "ok" });
    expect(judgeVersion("0.0.1", API_VERSION)).toMatchObject({ level: "warning" });
    expect(judgeVersion(version(), API_VERSION + 1)).toMatchObject({ level: "problem" });
    expect(await checkNode("20.18.0")).toMatchObject([{ level: "problem" }]);
    expect(await checkNode("20.19.0")).toMatchObject([{ level: "ok" }]);
  });
});

it("escapes hostile names", async () => {
  const cwd = newDir();
  mkdirSync(join(cwd, "d"));
  const { stdout } = await perdure(["doctor", "--data", `d${HOSTILE}`], { cwd });
  expect(stdout).not.toMatch(DANGEROUS);
});
