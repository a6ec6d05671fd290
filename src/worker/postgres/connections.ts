/** The PostgreSQL connections of a worker: for each name a pool of at most ten, opened when they are needed and closed when they
 *  have been idle. Each job gets a connection without traces of another: settings, temporary tables and locks of a session are
 *  discarded in between. The addresses contain passwords: no message of this file shows one. */
import type pg from "pg";
import type { Clock } from "../../lib/clock.ts";
import { limiter } from "../../lib/limiter.ts";

export type PgModule = typeof pg;

const MAX_CONNECTIONS = 10;
const IDLE_MS = 30_000;
const CONNECT_MS = 10_000;
const CANCEL_MS = 3_000;
/** Ends the traces of a job. Also one that hangs must end. */
const DISCARD = { text: "discard all", query_timeout: 5_000 };

/** A connection that a job uses alone. */
export interface HeldConnection {
  readonly client: pg.PoolClient;
  readonly pg: PgModule;
  readonly isCancelled: boolean;
  /** Cancels the statement that is running; the connection is closed afterwards, as a late cancel could hit another job. */
  cancel(): void;
}

export class PostgresConnections {
  readonly #addresses: ReadonlyMap<string, string>;
  readonly #clock: Clock;
  readonly #pools = new Map<string, { readonly pool: pg.Pool; readonly inTurn: ReturnType<typeof limiter> }>();
  #pg: Promise<PgModule> | null = null;

  constructor(addresses: ReadonlyMap<string, string>, clock: Clock) {
    this.#addresses = addresses;
    this.#clock = clock;
  }

  has(name: string): boolean {
    return this.#addresses.has(name);
  }

  /** Calls `work` with a connection; waits for one while all of this name are in use. Aborting `signal` ends the wait. */
  async use<T>(name: string, signal: AbortSignal, work: (held: HeldConnection) => Promise<T>): Promise<T> {
    this.#pg ??= import("pg").then((loaded) => loaded.default);
    const pg = await this.#pg;
    const { pool, inTurn } = this.#pools.get(name) ?? this.#open(pg, name);
    return untilStarted(signal, (started) =>
      inTurn(async () => {
        if (signal.aborted) throw stopped();
        const client = await pool.connect();
        const use = new ConnectionUse(pg, client, this.#configOf(name), this.#clock);
        try {
          if (signal.aborted) throw stopped();
          started();
          return await work(use);
        } finally {
          await use.end();
        }
      }),
    );
  }

  /** Removes the password from a text, such as an error of the server or the driver. They contain none as far as we know. */
  withoutPassword(name: string, text: string): string {
    const address = this.#addresses.get(name) ?? "";
    const { password } = new URL(address);
    const secrets = [address, password, decoded(password)].filter((secret) => secret.length >= 4);
    return secrets.reduce((shown, secret) => shown.replaceAll(secret, "***"), text);
  }

  /** To be called when no job is running any more. */
  async close(): Promise<void> {
    const pools = [...this.#pools.values()];
    this.#pools.clear();
    await Promise.allSettled(pools.map(({ pool }) => pool.end()));
  }

  #configOf(name: string): pg.ClientConfig {
    return {
      connectionString: this.#addresses.get(name),
      fallback_application_name: "perdure",
      connectionTimeoutMillis: CONNECT_MS,
      keepAlive: true,
    };
  }

  #open({ Pool }: PgModule, name: string) {
    const pool = new Pool({ ...this.#configOf(name), max: MAX_CONNECTIONS, idleTimeoutMillis: IDLE_MS });
    // The server closed an idle connection: the next job gets another. In use, its error goes to the statement.
    pool.on("error", () => {});
    pool.on("connect", (client) => client.on("error", () => {}));
    // The pool's own queue has the time limit of a connect, which a busy pool would exceed.
    const opened = { pool, inTurn: limiter(MAX_CONNECTIONS) };
    this.#pools.set(name, opened);
    return opened;
  }
}

class ConnectionUse implements HeldConnection {
  readonly pg: PgModule;
  readonly client: pg.PoolClient;
  readonly #config: pg.ClientConfig;
  readonly #clock: Clock;
  #cancelling: Promise<void> | null = null;
  #giveUp: (() => void) | null = null;

  constructor(pg: PgModule, client: pg.PoolClient, config: pg.ClientConfig, clock: Clock) {
    this.pg = pg;
    this.client = client;
    this.#config = config;
    this.#clock = clock;
  }

  get isCancelled(): boolean {
    return this.#cancelling !== null;
  }

  cancel(): void {
    this.#cancelling ??= this.#cancel();
  }

  /** If the server does not end the statement in time, the connection is closed, which ends the wait for it here. */
  async #cancel(): Promise<void> {
    const { processID } = this.client as unknown as { readonly processID: number | null };
    this.#giveUp = this.#clock.after(2 * CANCEL_MS, () => this.#release(true), { background: true });
    const other = new this.pg.Client({ ...this.#config, connectionTimeoutMillis: CANCEL_MS, query_timeout: CANCEL_MS });
    other.on("error", () => {});
    try {
      await other.connect();
      await other.query("select pg_cancel_backend($1)", [processID]);
    } catch {
      this.#release(true);
    } finally {
      await other.end().catch(() => {});
    }
  }

  async end(): Promise<void> {
    if (this.#cancelling !== null) {
      await this.#cancelling;
      this.#giveUp?.();
      return this.#release(true);
    }
    const isClean = await this.client.query(DISCARD).then(
      () => true,
      () => false,
    );
    this.#release(!isClean);
  }

  #release(isBroken: boolean): void {
    try {
      this.client.release(isBroken);
    } catch {
      // It was released by a cancel.
    }
  }
}

function stopped(): Error {
  return new Error("stopped before a connection was free");
}

/** The result of `work`. Until it calls `started`, aborting the signal ends the wait for it. */
function untilStarted<T>(signal: AbortSignal, work: (started: () => void) => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(stopped());
    if (signal.aborted) return stop();
    const started = () => signal.removeEventListener("abort", stop);
    signal.addEventListener("abort", stop, { once: true });
    work(started).then(resolve, reject).finally(started);
  });
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
