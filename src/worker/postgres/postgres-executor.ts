/** Runs jobs of kind `postgres` on the connections of the worker. Returns an outcome and never throws.
 *
 *  Not promised: that an attempt whose connection was lost during the commit has stored nothing. Repeated attempts need SQL that can
 *  be repeated, such as `on conflict do nothing`. */
import { type Failure, failure } from "../../core/decision/failure.ts";
import { ConfigError } from "../../core/errors.ts";
import { type CheckedPostgres, checkPostgresInput } from "../../core/input/postgres-input.ts";
import { NO_INPUT } from "../../core/worker-protocol.ts";
import type { Clock } from "../../lib/clock.ts";
import { storable } from "../../lib/text.ts";
import type { AttemptRun } from "../attempt-run.ts";
import type { ExecutionResult, Executor } from "../executor.ts";
import { type HeldConnection, PostgresConnections } from "./connections.ts";
import { runStatements, TooLargeError } from "./transaction.ts";

interface PostgresExecutorOptions {
  /** Addresses by name. */
  readonly connections: ReadonlyMap<string, string>;
  readonly clock: Clock;
}

/** The worker's own timer ends an attempt first, with the cause; the limit at the server is for a worker that was lost. */
const MARGIN_MS = 1_000;
/** A cancel takes a connection and the answer of the server. */
const STOP_MS = 8_000;
const MAX_MESSAGE = 2_000;

export class PostgresExecutor implements Executor {
  readonly kind = "postgres";
  readonly #connections: PostgresConnections;
  readonly #clock: Clock;

  constructor({ connections, clock }: PostgresExecutorOptions) {
    this.#connections = new PostgresConnections(connections, clock);
    this.#clock = clock;
  }

  async run(run: AttemptRun): Promise<ExecutionResult> {
    let name: string | null = null;
    try {
      const input = checkPostgresInput(inputOf(run.job.payload), "postgres");
      name = input.connection;
      if (!this.#connections.has(name)) return failed(missing(name));
      run.stopGraceMs = STOP_MS;
      const result = await this.#connections.use(name, run.signal, (held) => this.#run(run, held, input));
      return { outcome: { kind: "completed", result } };
    } catch (error) {
      return failed(this.#failureOf(error, name));
    }
  }

  /** To be called when no job is running any more. */
  close(): Promise<void> {
    return this.#connections.close();
  }

  async #run(run: AttemptRun, held: HeldConnection, input: CheckedPostgres): Promise<string> {
    const { timeoutMs } = run.job;
    const leftMs = timeoutMs === null ? null : timeoutMs - (this.#clock.monotonic() - run.startedAt) + MARGIN_MS;
    const cancel = () => held.cancel();
    run.signal.addEventListener("abort", cancel, { once: true });
    try {
      return await runStatements(held, input, leftMs);
    } finally {
      run.signal.removeEventListener("abort", cancel);
    }
  }

  #failureOf(error: unknown, name: string | null): Failure {
    if (error instanceof ConfigError) return failure({ kind: "error", class: "invalid", message: error.message });
    const { message, code } = reasonOf(error);
    const safe = name === null ? message : this.#connections.withoutPassword(name, message);
    return failure({
      kind: "error",
      class: error instanceof TooLargeError ? "logical" : "transient",
      name: "PostgresError",
      code: typeof code === "string" ? code : null,
      message: storable(`connection ${name}: ${safe}`, MAX_MESSAGE),
    });
  }
}

/** Where all addresses of a host were tried in vain, the reason of the first. */
function reasonOf(error: unknown): NodeJS.ErrnoException {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  return error instanceof Error ? error : new Error(String(error));
}

function missing(name: string): Failure {
  const message = `this worker has no connection ${name}, although it took the job: require the label connection/${name}`;
  return failure({ kind: "error", class: "invalid", name: "PostgresError", code: "connection_missing", message });
}

/** Does not pass on the error of JSON.parse, which quotes the text. */
function inputOf(payload: string): unknown {
  if (payload === NO_INPUT) return undefined;
  try {
    return JSON.parse(payload);
  } catch {
    throw new ConfigError({ path: "payload", given: "text", allowed: "JSON", shown: "other text" });
  }
}

function failed(cause: Failure): ExecutionResult {
  return { outcome: { kind: "failed", failure: cause } };
}
