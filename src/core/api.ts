/** The library's API as types: an engine in this process and the client of a server both implement it, so that code moves from
 *  a file to a server by changing one address. Each noun has a file in `api/`, with the checks of its options; those of a submit
 *  and of a search are tables (`task/submit-options.ts`, `job/jobs-filter.ts`). */

import type { CommandsApi } from "./api/commands.ts";
import type { EventsApi } from "./api/events.ts";
import type { JobsApi } from "./api/jobs.ts";
import type { OutputsApi } from "./api/outputs.ts";
import type { PlaybooksApi } from "./api/playbooks.ts";
import type { QueuesApi } from "./api/queues.ts";
import type { RunsApi } from "./api/runs.ts";
import type { WorkersApi } from "./api/workers.ts";
import type { Duration } from "./duration.ts";

export interface Perdure
  extends JobsApi,
    CommandsApi,
    OutputsApi,
    EventsApi,
    QueuesApi,
    WorkersApi,
    RunsApi,
    PlaybooksApi,
    MaintenanceApi,
    AsyncDisposable {}

export interface MaintenanceApi {
  /** Defaults for files of other systems, where a file lacks them: those of the server, or those this was opened with.
   *  Their content is known to `dialectSettingsFrom` of `perdure/dialects`. */
  dialectSettings(): Promise<object>;
  /** Deletes now what the pruner would delete within a minute; the answer is the number of deleted jobs. */
  prune(): Promise<number>;
  /** Stops the workers that were started here, then closes the engine, or the connection to the server. */
  close(options?: { grace?: Duration }): Promise<void>;
}
