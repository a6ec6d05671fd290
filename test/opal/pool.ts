/** Servers and a pool of workers, each a separate process as a user starts it, used only through OPAL's routes. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { PROGRAM } from "../cli/program.ts";
import { ENGINE, OpalApi } from "./api.ts";

/** All servers of a database sign with the same secret. */
const SECRET = "the-secret-of-all-servers-of-one-pool";

export interface PoolOptions {
  /** The database of all servers. Without it there is one server, on a file. */
  readonly db?: string;
  readonly servers: number;
  readonly workers: number;
}

/** A log record and the process that wrote it. */
export interface Logged {
  readonly pid: number;
  readonly level: string;
  readonly message: string;
  /** Only for a reclaim: the text of OPAL's log line. */
  readonly timestamp?: string;
  readonly worker?: string;
  readonly event?: string;
}

export class Pool extends OpalApi {
  readonly logged: Logged[] = [];
  readonly #directory = mkdtempSync(join(tmpdir(), "perdure-opal-"));
  readonly #children: ChildProcess[] = [];
  readonly #urls: string[] = [];
  #token = "";
  #asked = 0;

  static async start(options: PoolOptions): Promise<Pool> {
    if (!existsSync(PROGRAM)) throw new Error("this runs the built program: npm run build");
    const pool = new Pool();
    try {
      await pool.#start(options);
    } catch (error) {
      await pool.stop();
      throw error;
    }
    return pool;
  }

  async #start({ db, servers, workers }: PoolOptions): Promise<void> {
    for (let i = 0; i < servers; i++) {
      const data = join(this.#directory, `server-${i}`);
      const where = ["--data", data, "--port", "0", ...(db === undefined ? [] : ["--db", db])];
      const started = (await this.#child(["server", ...where])) as { url: string; tokenFile: string | null };
      this.#urls.push(started.url);
      if (started.tokenFile !== null) this.#token = readFileSync(started.tokenFile, "utf8").trim();
    }
    const token = ["--token-file", join(this.#directory, "server-0/worker-token")];
    const starting = Array.from({ length: workers }, (_, i) => {
      const data = ["--data", join(this.#directory, `worker-${i}`)];
      return this.#child(["worker", ...data, "--server", this.url(), ...token, "--concurrency", "1", "--with-stdin"]);
    });
    await Promise.all(starting);
  }

  async stop(): Promise<void> {
    const living = this.#children.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null);
    const gone = living.map((child) => new Promise((resolve) => child.once("exit", resolve)));
    for (const child of living) child.kill("SIGKILL");
    await Promise.all(gone);
    rmSync(this.#directory, { recursive: true, force: true });
  }

  /** Waits for this many log lines about reclaims of a job, and returns all of them. */
  async reclaims(id: string, count: number): Promise<Logged[]> {
    const lines = () => this.logged.filter(({ event }) => event?.includes(` Reclaiming job ${id} `));
    await this.waitFor(`${count} lines on reclaims`, async () => (lines().length >= count ? true : null));
    return lines();
  }

  /** Uses the servers in turn, since each must return the same. */
  protected override url(): string {
    return this.#urls[this.#asked++ % this.#urls.length] as string;
  }

  protected override token(): string {
    return this.#token;
  }

  protected override trouble(): string {
    return JSON.stringify(this.logged);
  }

  /** Starts a process; resolves with the object that it prints at startup. */
  #child(args: readonly string[]): Promise<unknown> {
    const { PATH, HOME } = process.env;
    const own = args[0] === "server" ? { PERDURE_SECRET: SECRET } : {};
    const env = { PATH, HOME, PERDURE_OPAL_ENGINE: JSON.stringify(ENGINE), ...own };
    const log = ["--log-format", "json", "--json"];
    const child = spawn(process.execPath, [PROGRAM, ...args, ...log], { cwd: this.#directory, env, stdio: "pipe" });
    this.#children.push(child);
    let errors = "";
    createInterface({ input: child.stderr }).on("line", (line) => {
      if (line.startsWith("{")) this.logged.push({ ...(JSON.parse(line) as Logged), pid: child.pid as number });
      else errors += `${line}\n`;
    });
    return new Promise((resolve, reject) => {
      let output = "";
      createInterface({ input: child.stdout }).on("line", (line) => {
        output += line;
        if (line === "}") resolve(JSON.parse(output)); // the last line of the object
      });
      child.once("exit", (code) => reject(new Error(`${args[0]} ended with ${code}: ${errors}`)));
    });
  }
}
