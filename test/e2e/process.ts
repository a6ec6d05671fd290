/** Processes of the built program, started as an operator would: each with a log file, awaited by what it prints when
 *  it is ready, and ended by its pid. Each test ends the processes it started; those of a `beforeAll` end with their
 *  file. If a test failed, the ends of their logs are shown. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { TestRunner } from "vitest";
import { whenFileIsOver, whenTestIsOver } from "../file-is-over.ts";

/** Built by `npm run build`, or elsewhere. */
const DIST = process.env.PERDURE_TEST_DIST ?? fileURLToPath(new URL("../../dist", import.meta.url));
const PROGRAM = join(DIST, "cli", "main.js");

export type Env = Readonly<Record<string, string>>;

/** What a process prints when it is ready. */
export interface Said {
  readonly url: string;
  readonly pid: number;
  readonly tokenFile: string;
  readonly store: string;
  readonly session: string;
  readonly kinds: readonly string[];
  readonly workers: number;
}

/** What a test, or a file, has started and created. */
class Belongings {
  readonly processes = new Set<Proc>();
  readonly homes = new Set<string>();

  tell(): void {
    for (const one of this.processes) console.log(one.story());
  }

  async clear(): Promise<void> {
    for (const one of this.processes) one.signal("SIGKILL");
    await Promise.all([...this.processes].map((one) => one.ended));
    this.processes.clear();
    for (const home of this.homes) rmSync(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    this.homes.clear();
  }
}

const ofTest = new Belongings();
const ofFile = new Belongings();
let started = 0;

whenTestIsOver(async () => {
  if (TestRunner.getCurrentTest()?.result?.state === "fail") for (const all of [ofFile, ofTest]) all.tell();
  await ofTest.clear();
});

whenFileIsOver(() => ofFile.clear());

/** A directory that is deleted after the test, or the file. */
export function newHome(): string {
  const home = realpathSync(mkdtempSync(join(tmpdir(), "perdure-e2e-")));
  // Outside a test it is called from `beforeAll`.
  (TestRunner.getCurrentTest() === undefined ? ofFile : ofTest).homes.add(home);
  return home;
}

export class Proc {
  readonly name: string;
  readonly argv: readonly string[];
  readonly pid: number;
  readonly logFile: string;
  /** The JSON object that it prints; rejects if it ends without one. */
  readonly ready: Promise<Said>;
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  readonly #child: ChildProcess;
  #isOver = false;

  /** `under` is a command that runs it. */
  constructor(home: string, argv: readonly string[], env: Env, under: readonly string[] = []) {
    if (!existsSync(PROGRAM)) throw new Error("these tests run the built program: npm run build");
    this.argv = argv;
    this.name = `${argv[0]}-${++started}`;
    mkdirSync(join(home, "logs"), { recursive: true });
    this.logFile = join(home, "logs", `${this.name}.log`);
    const log = openSync(this.logFile, "a");
    const [command = "", ...args] = [...under, process.execPath, PROGRAM, ...argv];
    const child = spawn(command, args, {
      cwd: home,
      env: { PATH: process.env.PATH ?? "", HOME: home, LANG: "C.UTF-8", ...env },
      stdio: ["ignore", "pipe", log],
    });
    closeSync(log);
    this.#child = child;
    this.pid = child.pid as number;
    this.ended = new Promise((resolve) => {
      child.once("close", (code, signal) => {
        this.#isOver = true;
        resolve({ code, signal });
      });
    });
    this.ready = new Promise((resolve, reject) => {
      let text = "";
      child.stdout?.setEncoding("utf8").on("data", (more: string) => {
        text += more;
        if (text.trimEnd().endsWith("}")) resolve(JSON.parse(text) as Said); // it is the only one, over several lines
      });
      void this.ended.then(() => reject(new Error(`it ended before it was ready\n${this.story()}`)));
    });
    this.ready.catch(() => {}); // reported to whoever awaits it
    // A server of a file that a test restarts outlives that test.
    (ofFile.homes.has(home) ? ofFile : ofTest).processes.add(this);
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  get log(): string {
    return readFileSync(this.logFile, "utf8");
  }

  signal(signal: NodeJS.Signals): void {
    if (!this.#isOver) this.#child.kill(signal);
  }

  /** kill -9, and waits until it has exited. */
  async kill(): Promise<void> {
    this.signal("SIGKILL");
    await this.ended;
  }

  /** SIGTERM, and its exit code. */
  async stop(): Promise<number | null> {
    this.signal("SIGTERM");
    return (await this.ended).code;
  }

  story(): string {
    return `--- ${this.name} (${this.pid}): ${this.argv.join(" ")}\n${this.log.slice(-3_000)}`;
  }
}
