/** A PostgreSQL server for the tests, so that `npm test` needs none installed: the real one, in a temporary directory,
 *  on the loopback address only. It is as durable as a server in production (fsync is on), because tests kill it and
 *  check what is left. */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes, randomInt } from "node:crypto";
import { chownSync, closeSync, mkdtempSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Binaries, findBinaries, serverUser, type User } from "./binaries.ts";
import { ask, until } from "./client.ts";
import { Keeper } from "./keeper.ts";

/** `fast` closes every connection and writes a checkpoint; `immediate` just stops, and the next start recovers. */
export type StopMode = "fast" | "immediate";

export interface ServerOptions {
  /** Lines of postgresql.conf that override those below. */
  readonly settings?: Readonly<Record<string, string>>;
}

const SETTINGS = {
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
  max_connections: "200",
  shared_buffers: "128MB",
  wal_level: "replica",
  fsync: "on",
  synchronous_commit: "on",
  scram_iterations: "1", // tests make thousands of connections
};

const USER_NAME = "postgres";
const STOP_DEADLINE_MS = 30_000;
/** Without the caller's environment: variables such as PGOPTIONS and PGPORT affect these programs. */
const ENV = { PATH: process.env.PATH, LC_ALL: "C" };

export class PostgresServer {
  readonly dataDir: string;
  readonly logFile: string;
  readonly url: string;
  readonly port: number;
  readonly password: string;
  readonly user: User | undefined;
  readonly binaries: Binaries;
  readonly #directory: string;
  readonly #keeper: Keeper;
  #process: ChildProcess | undefined;

  private constructor(directory: string, keeper: Keeper, binaries: Binaries, port: number, password: string) {
    this.#directory = directory;
    this.#keeper = keeper;
    this.binaries = binaries;
    this.user = serverUser();
    this.dataDir = join(directory, "data");
    this.logFile = join(directory, "server.log");
    this.port = port;
    this.password = password;
    this.url = `postgres://${USER_NAME}:${password}@127.0.0.1:${port}/postgres`;
  }

  /** A server whose data directory `fill` creates. Without a password it generates one. */
  static async make(fill: (server: PostgresServer) => Promise<void>, password?: string): Promise<PostgresServer> {
    const directory = mkdtempSync(join(tmpdir(), "perdure-postgres-"));
    const keeper = new Keeper(directory);
    try {
      const user = serverUser();
      if (user !== undefined) chownSync(directory, user.uid, user.gid);
      const binaries = await findBinaries(directory, user);
      const secret = password ?? randomBytes(12).toString("hex");
      const server = new PostgresServer(directory, keeper, binaries, await freePort(), secret);
      await fill(server);
      await server.up();
      return server;
    } catch (error) {
      await keeper.end();
      throw error;
    }
  }

  /** The main process of the server; undefined while it is down. */
  get pid(): number | undefined {
    return this.#process?.pid;
  }

  get log(): string {
    return readFileSync(this.logFile, "utf8");
  }

  /** Starts it, on the same port as before, and resolves when it accepts queries. */
  async up(): Promise<void> {
    if (this.#process !== undefined) throw new Error("the server is up");
    const child = this.#spawn(this.binaries.postgres, ["-D", this.dataDir, "-p", String(this.port)]);
    await until(
      "the server accepts queries",
      async () => {
        if (this.#process !== child) throw new Error(`the PostgreSQL server did not start\n${this.log}`);
        return (await ask(this.url, "SELECT 1")).length === 1;
      },
      () => this.#process === child,
    );
  }

  /** Stops it but keeps its data, for `up`. Does nothing if it is down. */
  async down(mode: StopMode = "fast"): Promise<void> {
    const child = this.#process;
    if (child === undefined) return;
    const ended = new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`the server did not stop\n${this.log}`)), STOP_DEADLINE_MS);
      child.once("exit", () => {
        clearTimeout(timer);
        resolve();
      });
    });
    child.kill(mode === "fast" ? "SIGINT" : "SIGQUIT");
    await ended;
  }

  async restart(mode: StopMode = "fast"): Promise<void> {
    await this.down(mode);
    await this.up();
  }

  /** Stops it permanently and removes its directory. */
  async stop(mode: StopMode = "fast"): Promise<void> {
    try {
      await this.down(mode);
    } finally {
      await this.#keeper.end();
    }
  }

  /** Runs one of the server's programs to its end. */
  async run(program: string, args: readonly string[]): Promise<void> {
    const child = this.#spawn(program, args);
    child.ref();
    const code = await new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", resolve);
    });
    if (code !== 0) throw new Error(`${program} ended with ${code}\n${this.log}`);
  }

  /** In a separate session, so that Ctrl-C does not reach it, and without keeping this process alive. */
  #spawn(program: string, args: readonly string[]): ChildProcess {
    const log = openSync(this.logFile, "a");
    const options = { ...this.user, cwd: this.#directory, env: ENV, detached: true };
    const child = spawn(program, args, { ...options, stdio: ["ignore", log, log] });
    closeSync(log);
    child.unref();
    this.#process = child;
    this.#keeper.watch(child.pid);
    const over = () => {
      if (this.#process !== child) return;
      this.#process = undefined;
      this.#keeper.watch(undefined);
    };
    child.once("exit", over);
    child.once("error", over);
    return child;
  }
}

export function startServer({ settings = {} }: ServerOptions = {}): Promise<PostgresServer> {
  return PostgresServer.make(async (server) => {
    const passwordFile = join(server.dataDir, "..", "password");
    writeFileSync(passwordFile, `${server.password}\n`, { mode: 0o600 });
    if (server.user !== undefined) chownSync(passwordFile, server.user.uid, server.user.gid);
    const set = Object.entries({ ...SETTINGS, ...settings }).map(([name, value]) => `--set=${name}=${value}`);
    const access = [`--username=${USER_NAME}`, `--pwfile=${passwordFile}`, "--auth=scram-sha-256"];
    // The files of initdb need no sync: only what the running server writes must survive.
    const rest = ["--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"];
    await server.run(server.binaries.initdb, [`--pgdata=${server.dataDir}`, ...access, ...rest, ...set]);
  });
}

/** Below the range from which systems choose ports for connections: while the server is down, a client that keeps
 *  reconnecting could otherwise get this very port, and be connected to itself. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(15_000, 32_000);
    const isFree = await new Promise<boolean>((resolve) => {
      const probe = createServer();
      probe.once("error", () => resolve(false));
      probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
}
