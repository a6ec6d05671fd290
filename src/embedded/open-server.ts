/** `Perdure.open("http://…")`: a client of a server that can start workers of this process for it, too. What keeps a store
 *  and how long is the server's own business: options about that are refused here, not ignored. */

import { PerdureClient } from "../client/client.ts";
import { checkConnect } from "../client/connect.ts";
import type { LinkOptions } from "../client/http-call.ts";
import { checkGrace } from "../core/api.ts";
import type { Duration } from "../core/duration.ts";
import { ConfigError, PerdureError } from "../core/errors.ts";
import { type AnyTask, isTask } from "../core/task/task.ts";
import type { WorkerHandle, WorkOptions } from "../core/task/work-options.ts";
import type { Log } from "../engine/parts.ts";
import { policyOf } from "../engine/submit-item.ts";
import { connectWorker } from "../worker/connect-worker.ts";
import { checkOpen, type OpenOptions } from "./options.ts";

const OF_THE_SERVER = ["schema", "connections", "artifacts", "retention", "keyWindow", "dialects", "by"] as const;

export async function openServer(url: string, options: OpenOptions, log: Log): Promise<ServerPerdure> {
  const { leaseMs } = checkOpen(options);
  for (const key of OF_THE_SERVER) {
    if (options[key] === undefined) continue;
    const allowed = "only for an engine of this process; a server has its own";
    throw new ConfigError({ path: `open.${key}`, given: options[key], allowed });
  }
  const { token = process.env.PERDURE_TOKEN, namespace } = options;
  if (token === undefined || token === "") {
    const allowed = "a token of the server, here or as PERDURE_TOKEN in the environment";
    throw new ConfigError({ path: "open.token", given: token, problem: "missing", allowed });
  }
  const link = checkConnect(url, { token, ...(namespace === undefined ? {} : { namespace }) }, "open");
  return new ServerPerdure(link, leaseMs, log);
}

export class ServerPerdure extends PerdureClient {
  readonly #options: LinkOptions;
  readonly #leaseMs: number | undefined;
  readonly #log: Log;
  readonly #starting = new Set<Promise<WorkerHandle>>();
  readonly #workers = new Set<WorkerHandle>();
  readonly #closing = new AbortController();
  #closed: Promise<void> | null = null;

  constructor(options: LinkOptions, leaseMs: number | undefined, log: Log) {
    super(options);
    this.#options = options;
    this.#leaseMs = leaseMs;
    this.#log = log;
  }

  /** Waits for a server that cannot be reached. A wrong token is an error at once. */
  override async work(tasks: readonly AnyTask[], options: WorkOptions = {}): Promise<WorkerHandle> {
    if (this.#closed !== null) throw new PerdureError("closed", "the client is closed, or about to be");
    if (Array.isArray(tasks)) for (const task of tasks) if (isTask(task)) policyOf(task);
    const { base, token, namespace } = this.#options;
    const starting = connectWorker(base, tasks, {
      ...{ ...options, token, logger: this.#log, signal: this.#closing.signal },
      ...(namespace === null ? {} : { namespace }),
      ...(this.#leaseMs === undefined ? {} : { lease: this.#leaseMs }),
    });
    this.#starting.add(starting);
    try {
      const worker = await starting;
      this.#workers.add(worker);
      return worker;
    } finally {
      this.#starting.delete(starting);
    }
  }

  /** Stops the workers that were started here as `stop` does, then ends the client's own calls. */
  override async close(options: { grace?: Duration } = {}): Promise<void> {
    this.#closed ??= this.#close(checkGrace(options, "close"));
    return this.#closed;
  }

  async #close(grace: number): Promise<void> {
    this.#closing.abort();
    try {
      await Promise.allSettled(this.#starting);
      await Promise.all([...this.#workers].map((worker) => worker.stop({ grace })));
    } finally {
      await super.close();
    }
  }
}
