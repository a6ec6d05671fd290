/** Perdure in your own process: the library's API on an engine, its store and its workers here. Each noun has a file beside
 *  this one. */

import { checkFeed } from "../core/api/events.ts";
import { checkGrace } from "../core/api/workers.ts";
import type { Perdure } from "../core/api.ts";
import { PerdureError } from "../core/errors.ts";
import type { StdinFile } from "../core/input/exec-input.ts";
import { embeddedCommands } from "./commands.ts";
import { jobOutputs } from "./job-outputs.ts";
import { embeddedJobs } from "./jobs.ts";
import type { LocalWorkerParts } from "./local-worker.ts";
import { type EmbeddedParts, readRow } from "./parts.ts";
import { embeddedQueues } from "./queues.ts";
import { embeddedRuns } from "./runs.ts";
import { embeddedWorkers } from "./workers.ts";

export interface EmbeddedPerdure extends Perdure {
  /** The time of the clock that the instants of this store come from. */
  storeNow(): number;
}

/** `closeEngine` stops the engine and closes what it was opened with. */
export function embeddedPerdure(parts: EmbeddedParts, closeEngine: () => Promise<void>): EmbeddedPerdure {
  const { engine, blobs, by } = parts;
  const running: LocalWorkerParts["running"] = new Set();
  let closed: Promise<void> | null = null;

  const checkOpen = () => {
    if (closed !== null) throw new PerdureError("closed", "the engine is closed, or about to be");
  };

  async function stop(graceMs: number): Promise<void> {
    try {
      await Promise.all([...running].map((worker) => worker.stop(graceMs)));
    } finally {
      // A worker that cannot end its session, as on a broken disk, must not keep the rest open.
      await closeEngine();
    }
  }

  /** Stops the workers as `stop` does, then the engine, then the store. */
  const close: Perdure["close"] = async (options = {}) => {
    closed ??= stop(checkGrace(options, "close"));
    return closed;
  };

  return {
    ...embeddedJobs(parts),
    ...embeddedCommands(parts),
    ...embeddedQueues(parts),
    ...embeddedRuns(parts),
    ...embeddedWorkers(parts, running, checkOpen),

    events: (options = {}) => engine.events(checkFeed(options)),
    async upload(source) {
      const id = engine.newUpload();
      await engine.writeUpload(id, 0, source);
      return { id, ...((await engine.readUpload(id)) as StdinFile) };
    },
    async outputs(id) {
      await readRow(parts, id);
      return jobOutputs(blobs, engine.store, id);
    },

    storeNow: () => engine.clock.now(),
    dialectSettings: async () => parts.dialects ?? {},
    prune: () => engine.prune(by ?? undefined),
    close,
    [Symbol.asyncDispose]: () => close(),
  };
}
