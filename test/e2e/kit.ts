/** Shared by the end-to-end tests: servers, workers and clients on the loopback address, each with its own directory,
 *  and access to what they store on the server. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { type ConnectOptions, type JobHandle, Perdure, type PerdureClient } from "../../src/client/index.ts";
import { freePort } from "./machine.ts";
import { type Env, newHome, Proc, type Said } from "./process.ts";

export * from "./machine.ts";
export { newHome, Proc };

/** With `PERDURE_SOAK=1` the long tests run much longer. */
export const IS_SOAK = process.env.PERDURE_SOAK === "1";
export const TASKS = fileURLToPath(new URL("tasks.mjs", import.meta.url));

/** Timeout of a whole test: longer than the deadlines within it, so that those are reported first. */
export const TEST_MS = 150_000;

/** A running process with what it printed when it was ready. */
export type Running = Said & { readonly proc: Proc };

async function running(proc: Proc): Promise<Running> {
  return { ...(await proc.ready), proc };
}

export interface UpOptions {
  readonly home?: string;
  readonly args?: readonly string[];
  readonly env?: Env;
}

export function up({ home = newHome(), args = [], env = {} }: UpOptions = {}): Promise<Running> {
  const port = args.includes("--port") ? [] : ["--port", "0"];
  const own = ["--data", join(home, "data"), ...port, "--dir", join(home, "work"), "--json"];
  return running(new Proc(home, ["up", ...own, ...args], env));
}

/** All servers of a database sign with the same secret. */
export const SECRET = "the-secret-of-all-servers-in-these-tests";

/** A server that can be killed and restarted at the same address. */
export class Server {
  readonly home: string;
  readonly port: number;
  proc: Proc;
  readonly #args: readonly string[];
  readonly #env: Env;

  private constructor(home: string, port: number, args: readonly string[], env: Env) {
    this.home = home;
    this.port = port;
    this.#args = args;
    this.#env = env;
    this.proc = this.#spawn();
  }

  /** With `db` on PostgreSQL, passed in the environment: arguments are visible to all users. */
  static async start(options: UpOptions & { readonly db?: string } = {}): Promise<Server> {
    const { home = newHome(), args = [], env = {}, db } = options;
    const shared = db === undefined ? {} : { PERDURE_DB: db, PERDURE_SECRET: SECRET };
    const server = new Server(home, await freePort(), args, { ...shared, ...env });
    await server.proc.ready;
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }
  get token(): string {
    return readFileSync(join(this.home, "data", "token"), "utf8").trim();
  }
  get workerTokenFile(): string {
    return join(this.home, "data", "worker-token");
  }

  /** Does not wait until it is ready: the caller may want to kill it before. */
  again(): Proc {
    this.proc = this.#spawn();
    return this.proc;
  }

  #spawn(): Proc {
    const own = ["--data", join(this.home, "data"), "--port", String(this.port), "--json"];
    return new Proc(this.home, ["server", ...own, ...this.#args], this.#env);
  }
}

export interface WorkerOptions {
  readonly args?: readonly string[];
  readonly env?: Env;
  readonly home?: string;
  /** The address that it calls, if not the server itself. */
  readonly url?: string;
  /** As if on another host, if possible: it sees only its own processes, and no server sees that it has exited. */
  readonly elsewhere?: boolean;
  /** Of many servers on one database the first has the tokens. */
  readonly tokenOf?: Server;
}

/** Killing it ends all its processes, like a machine. Needs Linux and root. */
const ELSEWHERE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
export const HAS_ELSEWHERE = spawnSync("unshare", [...ELSEWHERE.slice(1), "true"], { stdio: "ignore" }).status === 0;

/** A worker with its own directory and only the address and a token of the server. */
export function spawnWorker(server: Server, options: WorkerOptions = {}): Proc {
  const { args = [], env = {}, home = newHome(), url, elsewhere = false, tokenOf = server } = options;
  const link = ["--server", url ?? server.url, "--token-file", tokenOf.workerTokenFile, "--data", join(home, "data")];
  const own = ["--dir", join(home, "work"), "--tasks", TASKS, "--heartbeat", "300ms", "--json"];
  return new Proc(home, ["worker", ...link, ...own, ...args], env, elsewhere && HAS_ELSEWHERE ? ELSEWHERE : []);
}

export function worker(server: Server, options: WorkerOptions = {}): Promise<Running> {
  return running(spawnWorker(server, options));
}

/** Closed after the test. */
export async function connect(url: string, token: string, options: Partial<ConnectOptions> = {}) {
  const client = await Perdure.connect(url, { token, ...options });
  onTestFinished(() => client.close());
  return client;
}

/** The result of a job, for checks that come later: a test that fails earlier must not fail twice. */
export function resultOf<Output>(job: JobHandle<Output>): Promise<Output> {
  const result = job.result();
  result.catch(() => {});
  return result;
}

export function tokenIn({ tokenFile }: { readonly tokenFile: string }): string {
  return readFileSync(tokenFile, "utf8").trim();
}

export function sh(command: string) {
  return { command, shell: true } as const;
}

/** A file of an attempt as the server has it; null if it has none. */
export async function output(client: PerdureClient, id: string, attempt: number, name: string): Promise<string | null> {
  const bytes = await (await client.outputs(id)).read(attempt, name);
  if (bytes === null) return null;
  const chunks: Uint8Array[] = [];
  for await (const chunk of bytes) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}
