/** F32: the disk fails under a running server. It reports so everywhere, answers correctly, and continues by itself
 *  when the disk works. A limit on file size simulates a disk that fails for a while, strace one that fails once. */
import { execFileSync, spawn } from "node:child_process";
import { existsSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { Perdure } from "../../src/index.ts";
import { newPlace, type Place, PROGRAM, perdureIn, start } from "../cli/program.ts";
import { straceProblem } from "../crash/strace.ts";

const TEST_MS = 120_000;
const JOB = JSON.stringify({ kind: "exec", input: { argv: ["true"] } });

interface Server {
  readonly url: string;
  /** The status of the request, and the code of an error. */
  submit(): Promise<readonly [number, string | undefined, string | null]>;
  ready(): Promise<number>;
}

async function reach(place: Place): Promise<Server> {
  let url: string | null = null;
  while (url === null) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    try {
      url = (JSON.parse(readFileSync(join(place.data, "server.json"), "utf8")) as { url: string | null }).url;
    } catch {
      // It does not exist yet.
    }
  }
  const base = url;
  const token = readFileSync(join(place.data, "token"), "utf8").trim();
  return {
    url: base,
    async submit() {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      const reply = await fetch(`${base}/v1/jobs`, { method: "POST", headers, body: JOB });
      const { code } = (await reply.json()) as { code?: string };
      return [reply.status, code, reply.headers.get("retry-after")];
    },
    ready: async () => (await fetch(`${base}/readyz`)).status,
  };
}

async function whenReady(server: Server): Promise<void> {
  while ((await server.ready()) !== 200) await new Promise((resolve) => setTimeout(resolve, 50));
}

it(
  "is reported by /readyz, doctor and the log while it lasts, and ends without a restart",
  async () => {
    const place = newPlace();
    const program = start(place, ["server", "--data", place.data, "--port", "0", "--log-format", "text"]);
    onTestFinished(() => program.kill("SIGKILL"));
    const server = await reach(place);
    expect((await server.submit())[0]).toBe(201);
    const limit = (bytes: string) =>
      execFileSync("prlimit", ["--pid", String(program.pid), `--fsize=${bytes}:unlimited`]);

    limit("4096");
    const first = await server.submit();
    // A beat of the engine may have come first.
    expect(["store_unknown", "store_unavailable"]).toContain(first[1]);
    expect(await server.submit()).toEqual([503, "store_unavailable", expect.stringMatching(/^\d+$/)]);
    expect(await server.ready()).toBe(503);
    await program.untilPrinted("store_down: the database is not accepting writes (disk I/O error)");
    const sick = await perdureIn(place, ["doctor", "--data", place.data]);
    expect(sick.code).toBe(1);
    expect(sick.stdout).toMatch(/problem +store +the server refuses writes: sqlite: .*disk I\/O error/);
    expect((await perdureIn(place, ["ps", "--data", place.data])).code).toBe(0); // reads continue

    limit("unlimited");
    await whenReady(server);
    await program.untilPrinted("store_up: the database was reopened");
    expect((await server.submit())[0]).toBe(201);
    // Refused calls are reported until none has been refused for some seconds.
    await expect.poll(async () => (await perdureIn(place, ["doctor", "--data", place.data])).code).toBe(0);
    program.kill("SIGTERM");
    expect((await program.ended).code).toBe(0);
  },
  TEST_MS,
);

it(
  "a data directory that is moved away: the server is not ready, stores nothing, and continues when it is back",
  async () => {
    const place = newPlace();
    const program = start(place, ["server", "--data", place.data, "--port", "0", "--log-format", "text"]);
    onTestFinished(() => program.kill("SIGKILL"));
    const server = await reach(place);
    expect((await server.submit())[0]).toBe(201);
    const aside = `${place.data}.aside`;
    renameSync(place.data, aside);
    // Detected by the engine's beat: there are no submits.
    await program.untilPrinted(/store_down: .*perdure\.db was deleted or moved while it was in use; restore the file/);
    expect(await server.ready()).toBe(503);
    expect(await server.submit()).toEqual([503, "store_unavailable", expect.stringMatching(/^\d+$/)]);
    const token = ["--token-file", join(aside, "token")];
    const sick = await perdureIn(place, ["doctor", "--server", server.url, ...token]);
    expect(sick.code).toBe(1);
    expect(sick.stdout).toMatch(
      /problem +store +the server refuses writes: sqlite: .*perdure\.db was deleted or moved/,
    );
    expect(existsSync(place.data)).toBe(false); // it would block the one that is moved back

    renameSync(aside, place.data);
    await whenReady(server);
    await program.untilPrinted("store_up: the database was reopened");
    expect((await server.submit())[0]).toBe(201);
    expect(program.stderr.match(/store_(down|up)/g)).toEqual(["store_down", "store_up"]);
    program.kill("SIGTERM");
    expect((await program.ended).code).toBe(0);
    const { stdout } = await perdureIn(place, ["ps", "--data", place.data, "--json"]);
    expect(stdout.match(/"job_[0-9a-z]+"/g)).toHaveLength(2);
  },
  TEST_MS,
);

it("a library detects it by its beat, without a call", async () => {
  const place = newPlace();
  const lines: string[] = [];
  const url = join(place.data, "jobs.db");
  const perdure = await Perdure.open({ url, logger: (_, message) => void lines.push(message) });
  onTestFinished(() => perdure.close().catch(() => {}));
  renameSync(place.data, `${place.data}.aside`);
  await expect.poll(() => lines.find((line) => line.includes("store_down"))).toMatch(/jobs\.db was deleted or moved/);
  await expect(perdure.submit("echo", {})).rejects.toMatchObject({
    code: "store_unavailable",
    message: expect.stringMatching(/jobs\.db was deleted or moved while it was in use; restore the file/),
  });
  renameSync(`${place.data}.aside`, place.data);
  await expect.poll(() => lines.find((line) => line.includes("store_up"))).toBeDefined();
  expect((await perdure.submit("echo", {})).id).toMatch(/^job_/);
});

const why = straceProblem();

it.skipIf(why !== null)(
  `that is transient costs one answer${why === null ? "" : ` (NOT TESTED, because ${why})`}`,
  async () => {
    const place = newPlace();
    const fault = "inject=fsync,fdatasync:error=EIO:when=40";
    const strace = ["-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", fault];
    const args = [...strace, process.execPath, PROGRAM, "server", "--data", place.data, "--port", "0"];
    const child = spawn("strace", args, { cwd: place.cwd, stdio: ["ignore", "pipe", "pipe"] });
    let log = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (log += text));
    const server = await reach(place);
    const { pid } = JSON.parse(readFileSync(join(place.data, "server.json"), "utf8")) as { pid: number };
    onTestFinished(() => {
      child.kill("SIGKILL");
      process.kill(pid, "SIGKILL");
    });
    const codes: (string | undefined)[] = [];
    for (let i = 0; i < 60; i++) {
      const [status, code] = await server.submit();
      if (status !== 201) codes.push(code);
      if (status === 503) await whenReady(server);
    }
    expect(codes.filter((code) => code === "store_unknown").length).toBeLessThanOrEqual(1);
    expect(codes.every((code) => code === "store_unknown" || code === "store_unavailable")).toBe(true);
    expect(await server.ready()).toBe(200);
    expect((await server.submit())[0]).toBe(201);
    expect([...log.matchAll(/store_(down|up)/g)].map(([word]) => word)).toEqual(["store_down", "store_up"]);
  },
  TEST_MS,
);
