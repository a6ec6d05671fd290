/** Servers and a pool of workers, each a separate process as a user starts it, used only through OPAL's routes. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { PROGRAM } from "../cli/program.ts";
import { ENGINE, OpalApi } from "./api.ts";

/** All servers of a database sign with the same. */
const SECRET = "the-secret-of-all-servers-of-one-pool";

export interface PoolOptions {
  /** The database of all servers; without it a file, and one server. */
  readonly db?: string;
  readonly servers: number;
  readonly workers: number;
}

/** A record of a log, and who wrote it. */
export interface Logged {
  readonly pid: number;
  readonly level: string;
  readonly message: string;
  /** Of a reclaim: as OPAL's log has it. */
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

  /** The log lines of a job's reclaims, once there are that many; then any others. */
  async reclaims(id: string, count: number): Promise<Logged[]> {
    const lines = () => this.logged.filter(({ event }) => event?.includes(` Reclaiming job ${id} `));
    await this.waitFor(`${count} lines on reclaims`, async () => (lines().length >= count ? true : null));
    return lines();
  }

  /** The servers in turn: what one knows all must know. */
  protected override url(): string {
    return this.#urls[this.#asked++ % this.#urls.length] as string;
  }

  protected override token(): string {
    return this.#token;
  }

  protected override trouble(): string {
    return JSON.stringify(this.logged);
  }

  /** Resolves with what it says at its start. */
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
      let said = "";
      createInterface({ input: child.stdout }).on("line", (line) => {
        said += line;
        if (line === "}") resolve(JSON.parse(said)); // of an object over several lines
      });
      child.once("exit", (code) => reject(new Error(`${args[0]} ended with ${code}: ${errors}`)));
    });
  }
}
