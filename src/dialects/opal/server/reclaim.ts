/** The warning that OPAL's operators search for: one line for each lost attempt of an OPAL job, logged by the server whose
 *  engine found it. It reads the job back, so it comes a moment after the reclaim. Where the store cannot be read then,
 *  another line reports that; the job's events still have the loss. */
import type { JobEvent } from "../../../core/job/event.ts";
import type { SettledAttempt } from "../../../engine/observer.ts";
import type { ServerLog } from "../../../server/log.ts";
import { JSON_KEYS } from "../../../server/log.ts";
import type { Store } from "../../../store/store.ts";
import { OPAL_TAG, opalIdOf } from "../words.ts";
import { reclaimRecord } from "../worker-log.ts";

/** For a job with more events no line is written: reading them back would cost too much. */
const MAX_EVENTS = 5_000;

type LostOpalAttempt = Pick<SettledAttempt, "jobId" | "attempt">;
type ReclaimReads = Pick<Store, "jobs" | "history">;

export class ReclaimLog {
  readonly #log: ServerLog;
  #store: ReclaimReads | null = null;
  #waiting: LostOpalAttempt[] = [];

  constructor(log: ServerLog) {
    this.#log = log;
  }

  /** Must be called before the engine reaps. */
  start(store: ReclaimReads): void {
    this.#store = store;
  }

  /** As an observer of the engine. All that one round of the reaper found are read together. */
  reaped(attempts: readonly SettledAttempt[]): void {
    const lost = attempts.filter(({ outcome }) => outcome === "lost");
    if (lost.length === 0) return;
    const isFirst = this.#waiting.length === 0;
    this.#waiting.push(...lost);
    if (isFirst) queueMicrotask(() => this.#flush());
  }

  #flush(): void {
    const lost = this.#waiting;
    this.#waiting = [];
    this.#write(lost).catch((error: unknown) => {
      this.#log("warn", "jobs were reclaimed, but cannot be read for OPAL's log", { jobs: lost.length, error });
    });
  }

  async #write(lost: readonly LostOpalAttempt[]): Promise<void> {
    const store = this.#store;
    if (store === null) return;
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
      this.#log("warn", record.line.event, { ...fields, [JSON_KEYS]: record.line });
    }
  }
}
