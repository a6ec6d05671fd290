/** Logs the warning that OPAL's operators search for: one line per lost attempt of an OPAL job, from the server whose
 *  engine found it. The job is read after the reclaim; if the store cannot be read, another line reports that. The
 *  job's events have the loss in any case. */
import type { JobEvent } from "../../../core/job/event.ts";
import type { SettledAttempt } from "../../../engine/observer.ts";
import type { ServerLog } from "../../../server/log.ts";
import { JSON_KEYS } from "../../../server/log.ts";
import type { Store } from "../../../store/store.ts";
import { OPAL_TAG, opalIdOf } from "../format.ts";
import { reclaimRecord } from "../worker-log.ts";

/** Jobs with more events are not logged: reading them would cost too much. */
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

  /** Observes the engine. All jobs of one reaper round are read together. */
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
      this.#log("warn", "cannot read reclaimed jobs for OPAL's log", { jobs: lost.length, error });
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
