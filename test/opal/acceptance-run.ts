/** `npm run acceptance:opal`: the five tests by which OPAL A2.1 was accepted, run for real, with the results stored as evidence.
 *  It starts the built `perdure up` with a runtime folder and five workers, uses the document's times and prompts, and stops it.
 *  Exit code 0: all five passed; 1: one failed; 2: usage error; 130 or 143: stopped by a signal. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { arch, hostname, platform, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { ACCEPTANCE_TESTS, type AcceptanceTest } from "./acceptance-tests.ts";
import { ENGINE, OpalApi } from "./api.ts";
import { Evidence, evidenceName, passedAll, type RunSummary, type StepResult, type TestResult } from "./evidence.ts";

const DOCUMENT = "OPAL Track A2.1 — Retry Policy & Idempotency Guard";
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PROGRAM = join(ROOT, "dist/cli/main.js");
const WORKERS = 5;
/** The document's defaults. */
const SETTINGS = {
  ...{
    OPAL_MAX_RETRIES: "2",
    OPAL_RETRY_BACKOFFS: "[3, 8, 15]",
    OPAL_LEASE_TTL_SECS: "15",
    OPAL_LEASE_RENEW_SECS: "5",
  },
  ...{ OPAL_RECLAIM_SCAN_EVERY_LOOPS: "10", OPAL_HEARTBEAT_INTERVAL_SECS: "2", OPAL_WORKER_TTL_SECS: "10" },
};
const STOP_MS = 15_000;

const HELP = `Usage: npm run acceptance:opal -- [OPTIONS]

Runs Test #1 to #5 of "Verification (DoD)" in OPAL's document on this machine, and keeps their evidence in a directory: the
runtime folder, the log of the server and its workers, answers of the API, summary.json and SUMMARY.md. Takes about a minute.
Needs a build; the npm script makes it.

Options:
  --port N   The port of the server on 127.0.0.1. Default: a free one.
  --out DIR  Where to keep the evidence. It must not exist. Default: opal_a2_evidence/p2_<UTC time>.
  --help     Print this.

Exit code: 0 all five tests passed, 1 one of them failed, 2 wrong use, 130 or 143 stopped by a signal.`;

class Server extends OpalApi {
  readonly #child: ChildProcess;
  readonly #gone: Promise<void>;
  #url = "";
  #stopped: Promise<void> | null = null;

  private constructor(child: ChildProcess) {
    super();
    this.#child = child;
    this.#gone = new Promise((resolve) => child.once("exit", () => resolve()));
  }

  static async start(cwd: string, data: string, port: number, signal: AbortSignal): Promise<Server> {
    const log = openSync(join(cwd, "perdure.log"), "wx", 0o600);
    const { PATH, HOME } = process.env;
    const env = { PATH, HOME, ...SETTINGS, PERDURE_OPAL_ENGINE: JSON.stringify(ENGINE) };
    const options = ["--opal-runtime", "runtime", "--opal-anonymous", "--concurrency", "1", "--grace", "1s"];
    const args = ["up", "--port", String(port), "--data", data, "--workers", String(WORKERS), ...options];
    // A separate session: Ctrl-C in the terminal stops this script, which then stops the server.
    const child = spawn(process.execPath, [PROGRAM, ...args, "--json", "--log-format", "json"], {
      ...{ cwd, env, detached: true, stdio: ["ignore", "pipe", log] },
    });
    closeSync(log);
    const server = new Server(child);
    signal.addEventListener("abort", () => void server.stop());
    server.#url = await new Promise<string>((resolve, reject) => {
      let text = "";
      createInterface({ input: child.stdout as NonNullable<typeof child.stdout> }).on("line", (line) => {
        text += line;
        if (line === "}") resolve((JSON.parse(text) as { url: string }).url);
      });
      child.once("exit", (code) => reject(new Error(`perdure up ended with ${code}; see perdure.log`)));
    });
    return server;
  }

  get pid(): number {
    return this.#child.pid as number;
  }

  /** Kills the server; its workers end when their pipe to it breaks. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) this.#child.kill("SIGTERM");
    const late = setTimeout(() => this.#child.kill("SIGKILL"), STOP_MS);
    await this.#gone;
    clearTimeout(late);
  }

  override url(): string {
    return this.#url;
  }

  protected override token(): null {
    return null;
  }
}

async function runTest(
  test: AcceptanceTest,
  number: number,
  parts: { readonly server: Server; readonly evidence: Evidence; readonly jobs: Map<string, string> },
  signal: AbortSignal,
): Promise<TestResult> {
  const { server, evidence, jobs } = parts;
  const steps: StepResult[] = [];
  const { name, objective, run } = test;
  console.log(`\nTest #${number}: ${name}`);
  const add = (result: StepResult) => {
    steps.push(result);
    console.log(`  ${result.result}  ${result.step}: ${result.detail} (${result.seconds.toFixed(1)} s)`);
  };
  const passed = await run(
    { api: server, evidence, runtime: join(evidence.dir, "runtime") },
    async (step, work) => {
      const start = performance.now();
      const took = () => (performance.now() - start) / 1_000;
      try {
        signal.throwIfAborted();
        const [value, detail] = await work();
        add({ step, result: "pass", detail, seconds: took() });
        return value;
      } catch (error) {
        const { message } = (signal.aborted ? signal.reason : error) as Error;
        add({ step, result: "fail", detail: message, seconds: took() });
        throw error;
      }
    },
    jobs,
  ).then(
    () => true,
    (error: Error) => {
      // An error between two steps.
      if (steps.at(-1)?.result !== "fail") add({ step: "inspect", result: "fail", detail: error.message, seconds: 0 });
      return false;
    },
  );
  return { number, name, objective, jobs: [...jobs.values()], passed, steps };
}

async function main(): Promise<number> {
  const { port, out } = argumentsOf();
  if (!existsSync(PROGRAM)) throw new UsageError("there is no dist/cli/main.js: run npm run build first");
  const startedAt = new Date();
  const dir = resolve(out ?? join("opal_a2_evidence", evidenceName(startedAt)));
  if (existsSync(dir)) throw new UsageError(`--out: ${dir} exists; name a directory that does not`);
  const stop = new AbortController();
  let stoppedBy: NodeJS.Signals | null = null;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => {
      stoppedBy ??= signal;
      stop.abort(new Error(`stopped by ${signal}`));
    });
  }
  const evidence = new Evidence(dir);
  // Not stored with the evidence, because it contains tokens.
  const data = mkdtempSync(join(tmpdir(), "perdure-acceptance-"));
  const tests: TestResult[] = [];
  let brokenOff: string | null = null;
  let server: Server | null = null;
  try {
    server = await Server.start(dir, data, port, stop.signal);
    const { pid } = server;
    console.log(`perdure up: ${server.url()}, pid ${pid}, ${WORKERS} workers; evidence in ${dir}`);
    const up = server;
    await up.waitFor(`${WORKERS} workers`, async () => {
      stop.signal.throwIfAborted();
      const online = (await up.workers()).filter(({ status }) => status === "online");
      return online.length === WORKERS ? online : null;
    });
    evidence.keep("api/jobs_before.json", await up.json("/api/jobs"));
    evidence.keep("api/workers_before.json", await up.workers());
    const jobs = new Map<string, string>();
    for (const [i, test] of ACCEPTANCE_TESTS.entries()) {
      if (stop.signal.aborted) break;
      tests.push(await runTest(test, i + 1, { server: up, evidence, jobs }, stop.signal));
    }
    if (!stop.signal.aborted) evidence.keep("api/workers_after.json", await up.workers());
  } catch (error) {
    brokenOff = (error as Error).message;
  } finally {
    await server?.stop();
    rmSync(data, { recursive: true, force: true });
  }
  if (stop.signal.aborted) brokenOff = (stop.signal.reason as Error).message;
  const passed = tests.filter((test) => test.passed).length;
  const summary: RunSummary = {
    ...{ document: DOCUMENT, started_at: startedAt.toISOString(), finished_at: new Date().toISOString() },
    broken_off: brokenOff,
    environment: environmentOf(server?.url() ?? "not started"),
    ...{ tests, passed, failed: ACCEPTANCE_TESTS.length - passed },
  };
  evidence.summarize(summary);
  if (brokenOff !== null) console.log(`\nbroken off: ${brokenOff}`);
  console.log(`\nevidence in ${dir}`);
  console.log(`${passed} passed, ${summary.failed} failed`);
  if (stoppedBy !== null) return stoppedBy === "SIGINT" ? 130 : 143;
  return passedAll(summary) ? 0 : 1;
}

function environmentOf(url: string): RunSummary["environment"] {
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
  const system = { host: hostname(), system: `${platform()} ${arch()}`, node: process.version, perdure: version };
  const note =
    "On Linux a killed worker of the same host is noticed within about a second; nobody waits for the lease.";
  return {
    ...system,
    "API server": url,
    "worker pool": WORKERS,
    ...SETTINGS,
    ...(platform() === "linux" ? { note } : {}),
  };
}

class UsageError extends Error {}

function argumentsOf(): { readonly port: number; readonly out: string | undefined } {
  let values: { port?: string; out?: string; help?: boolean };
  try {
    const options = { port: { type: "string" }, out: { type: "string" }, help: { type: "boolean" } } as const;
    values = parseArgs({ options }).values;
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
  if (values.help) {
    console.log(HELP);
    process.exit(0);
  }
  const { port = "0", out } = values;
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) {
    throw new UsageError(`--port takes a number from 0 to 65535, not ${JSON.stringify(port)}`);
  }
  if (out === "") throw new UsageError("--out takes a directory");
  return { port: Number(port), out };
}

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(`${error.message}; see --help`);
  process.exitCode = 2;
}
