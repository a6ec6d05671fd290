/** The warning that OPAL's operators look for: one line for each attempt that was lost, by the engine that found it. For
 *  jobs of this door only. It reads the job back, so it comes a moment after the reclaim; where the store cannot be read
 *  then, another line says so, and the job's events still tell it. */
import type { JobEvent } from "../../core/event.ts";
import { counted } from "../../dialects/counted.ts";
import { OPAL_TAG, opalIdOf, reclaimLine } from "../../dialects/opal/words.ts";
import type { EngineOptions } from "../../engine/engine.ts";
import type { Store } from "../../store/store.ts";
import type { ServerLog } from "../parts.ts";

/** Of a job with more, no line is written: nobody reads so many back for it. */
const MAX_EVENTS = 5_000;

type OnLost = NonNullable<EngineOptions["onLost"]>;
type Lost = { readonly jobId: string; readonly attempt: number };
type LostEvent = Extract<JobEvent, { readonly name: "attempt.lost" }>;

function isLossOf(event: JobEvent, attempt: number): boolean {
  return event.name === "attempt.lost" && event.data.attempt === attempt;
}

/** To be given to the engine as its `onLost`; `storeOf` is asked when there is something to tell, since an engine is made
 *  with this before it can be asked for its store. */
export function opalOnLost(storeOf: () => Pick<Store, "jobs" | "history">, log: ServerLog): OnLost {
  let waiting: Lost[] = [];

  async function tell(lost: readonly Lost[]): Promise<void> {
    const store = storeOf();
    const rows = await store.jobs(lost.map(({ jobId }) => jobId));
    for (const [i, row] of rows.entries()) {
      const { attempt } = lost[i] as Lost;
      const id = row === null || !row.tags.includes(OPAL_TAG) ? null : opalIdOf(row);
      const isShort = row !== null && row.revision <= MAX_EVENTS;
      const history = id === null || !isShort ? null : await store.history(row.id);
      if (id === null || history === null) continue;
      const found = counted(history.events as JobEvent[]).find(({ event }) => isLossOf(event, attempt));
      if (found === undefined) continue;
      const { data } = found.event as LostEvent;
      const { kind, delay } = data.decision;
      const backoffSecs = kind === "retry" ? (delay?.delayMs ?? 0) / 1_000 : null;
      const error = kind === "cancel" ? { error: "cancelled" } : {};
      // Not our own number: a run that was handed back is none of those that the limit counts, nor is one before a redrive.
      const numbers = { attempt: found.attempt, maxRetries: history.job.policy.maxAttempts };
      const line = reclaimLine({ id, ...numbers, backoffSecs, ...error });
      log("warn", line, { jobId: history.job.id, session: data.session, why: data.why });
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
