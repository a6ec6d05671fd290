/** The warning that OPAL's operators look for: one line for each attempt that was lost, by the engine that found it. For
 *  jobs of this door only. It reads the job back, so it comes a moment after the reclaim; where the store cannot be read
 *  then, another line says so, and the job's events still tell it. */
import type { JobEvent } from "../../../core/job/event.ts";
import type { EngineOptions } from "../../../engine/parts.ts";
import type { ServerLog } from "../../../server/log.ts";
import { JSON_KEYS } from "../../../server/log.ts";
import type { Store } from "../../../store/store.ts";
import { OPAL_TAG, opalIdOf } from "../words.ts";
import { reclaimRecord } from "../worker-log.ts";

/** Of a job with more, no line is written: nobody reads so many back for it. */
const MAX_EVENTS = 5_000;

type OnLost = NonNullable<EngineOptions["onLost"]>;
type LostOpalAttempt = { readonly jobId: string; readonly attempt: number };

/** To be given to the engine as its `onLost`; `storeOf` is asked when there is something to tell, since an engine is made
 *  with this before it can be asked for its store. */
export function opalOnLost(storeOf: () => Pick<Store, "jobs" | "history">, log: ServerLog): OnLost {
  let waiting: LostOpalAttempt[] = [];

  async function tell(lost: readonly LostOpalAttempt[]): Promise<void> {
    const store = storeOf();
    const rows = await store.jobs(lost.map(({ jobId }) => jobId));
    for (const [i, row] of rows.entries()) {
      const { attempt } = lost[i] as LostOpalAttempt;
      const id = row === null || !row.tags.includes(OPAL_TAG) ? null : opalIdOf(row);
      const isShort = row !== null && row.revision <= MAX_EVENTS;
      const history = id === null || !isShort ? null : await store.history(row.id);
      if (id === null || history === null) continue;
      const record = reclaimRecord(history.job, history.events as JobEvent[], attempt);
      if (record === null) continue;
      const { session, why } = record.lost.data;
      const fields = { jobId: history.job.id, session, why, worker: record.line.worker };
      log("warn", record.line.event, { ...fields, [JSON_KEYS]: record.line });
    }
  }

  return (jobId, attempt) => {
    waiting.push({ jobId, attempt });
    if (waiting.length > 1) return;
    // All that one look of the reaper found are read together.
    queueMicrotask(() => {
      const lost = waiting;
      waiting = [];
      tell(lost).catch((error: unknown) => {
        log("warn", "jobs were reclaimed, but cannot be read for OPAL's log", { jobs: lost.length, error });
      });
    });
  };
}
