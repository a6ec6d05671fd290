/** Perdure on a server: the library's API over HTTP. It needs only a fetch, so that it works in browsers and at the edge too; a
 *  worker needs more, and is started from `perdure` or `perdure/worker`. Jobs, events and workers are those of the namespace
 *  that the token belongs to, or that the client was connected with. Each noun has a file beside this one. */

import { checkFeed } from "../core/api/events.ts";
import { checkGrace } from "../core/api/workers.ts";
import type { Perdure } from "../core/api.ts";
import { type Admin, adminOf } from "./admin.ts";
import { clientCommands } from "./commands.ts";
import { eventFeed } from "./event-feed.ts";
import { jobOutputs, upload } from "./files.ts";
import { ClientHttpLink, type LinkOptions } from "./http-call.ts";
import { clientJobs } from "./jobs.ts";
import { clientQueues } from "./queues.ts";
import { clientRuns } from "./runs.ts";
import { EndWaiter } from "./wait-end.ts";
import { checkJobId } from "./wire-jobs.ts";
import { clientWorkers } from "./workers.ts";

/** A client of a server: the same calls as an engine in this process, and `admin`.
 *  @example
 *  const client: PerdureClient = await Perdure.connect("https://jobs.example.com", { token: "pdr_…" }); */
export interface PerdureClient extends Perdure {
  /** Calls that exist only on a server. */
  readonly admin: Admin;
}

export function perdureClient(options: LinkOptions): PerdureClient {
  const link = new ClientHttpLink(options);
  const waiter = new EndWaiter((jobs, waitMs, signal) =>
    link.json("waitJobs", {
      ...{ body: JSON.stringify({ jobs, waitMs }), heldMs: waitMs, signal },
      ...{ repeatable: true, patienceMs: 0 }, // the waiter repeats it
    }),
  );

  /** Ends all waits and calls of this client with the code `closed`. The server keeps running. */
  const close: Perdure["close"] = async (given = {}) => {
    checkGrace(given, "close");
    waiter.close();
    link.close();
  };

  return {
    ...clientJobs(link, waiter),
    ...clientCommands(link),
    ...clientQueues(link),
    ...clientWorkers(link),
    ...clientRuns(link, waiter),
    admin: adminOf(link),

    events: (given = {}) => eventFeed(link, checkFeed(given)),
    upload: (source) => upload(link, source),
    outputs: async (id) => jobOutputs(link, checkJobId(id)),

    dialectSettings: () => link.json("getDialects"),
    prune: async () => (await link.json<{ jobs: number }>("prune")).jobs,
    close,
    [Symbol.asyncDispose]: () => close(),
  };
}
