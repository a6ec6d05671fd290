/** `Perdure.open("http://…")`: a client of a server that can also start workers for it in this process. Options of a store and
 *  its retention are set on the server: they are refused here, not ignored. */

import { type PerdureClient, perdureClient } from "../client/client.ts";
import { checkConnect } from "../client/connect.ts";
import type { LinkOptions } from "../client/http-call.ts";
import { checkGrace } from "../core/api/workers.ts";
import type { Perdure } from "../core/api.ts";
import { ConfigError, PerdureError } from "../core/errors.ts";
import { isTask } from "../core/task/task.ts";
import type { WorkerHandle } from "../core/task/work-options.ts";
import type { Log } from "../engine/parts.ts";
import { policyOf } from "../engine/submit-item.ts";
import { connectWorker } from "../worker/connect-worker.ts";
import { checkOpen, type OpenOptions } from "./options.ts";

const OF_THE_SERVER = ["schema", "connections", "artifacts", "retention", "keyWindow", "dialects", "by"] as const;

export async function openServer(url: string, options: OpenOptions, log: Log): Promise<PerdureClient> {
  const { leaseMs } = checkOpen(options);
  for (const key of OF_THE_SERVER) {
    if (options[key] === undefined) continue;
    const allowed = "left out: it is for an engine of this process; a server has its own";
    throw new ConfigError({ path: `open.${key}`, given: options[key], allowed });
  }
  const { token = process.env.PERDURE_TOKEN, namespace } = options;
  if (token === undefined || token === "") {
    const allowed = "a token of the server, here or as PERDURE_TOKEN in the environment";
    throw new ConfigError({ path: "open.token", given: token, problem: "is missing", fix: `pass ${allowed}` });
  }
  const link = checkConnect(url, { token, ...(namespace === undefined ? {} : { namespace }) }, "open");
  return serverPerdure(link, leaseMs, log);
}

function serverPerdure(link: LinkOptions, leaseMs: number | undefined, log: Log): PerdureClient {
  const client = perdureClient(link);
  const starting = new Set<Promise<WorkerHandle>>();
  const workers = new Set<WorkerHandle>();
  const closing = new AbortController();
  let closed: Promise<void> | null = null;

  /** Waits for a server that cannot be reached. A wrong token is an error at once. */
  const work: Perdure["work"] = async (tasks, options = {}) => {
    if (closed !== null) throw new PerdureError("closed", "the client is closed, or about to be");
    if (Array.isArray(tasks)) for (const task of tasks) if (isTask(task)) policyOf(task);
    const { base, token, namespace } = link;
    const start = connectWorker(base, tasks, {
      ...{ ...options, token, logger: log, signal: closing.signal },
      ...(namespace === null ? {} : { namespace }),
      ...(leaseMs === undefined ? {} : { lease: leaseMs }),
    });
    starting.add(start);
    try {
      const worker = await start;
      workers.add(worker);
      return worker;
    } finally {
      starting.delete(start);
    }
  };

  /** Stops the workers that were started here as `stop` does, then ends the client's own calls. */
  const close: Perdure["close"] = async (options = {}) => {
    closed ??= stop(checkGrace(options, "close"));
    return closed;
  };

  async function stop(grace: number): Promise<void> {
    closing.abort();
    try {
      await Promise.allSettled(starting);
      await Promise.all([...workers].map((worker) => worker.stop({ grace })));
    } finally {
      await client.close();
    }
  }

  return { ...client, work, close, [Symbol.asyncDispose]: () => close() };
}
