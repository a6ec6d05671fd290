/** The times at which something in the store becomes due without an event: a retry, an expiry, the end of a retention.
 *  The test engine moves its clock to each of them and skips the checks in between. It observes the store's calls and
 *  reads only changed jobs again. */
import type { Job } from "../core/job/job.ts";
import type { Beat, PruneQuery, Store } from "../store/store.ts";

interface PausePeriod {
  readonly from: number;
  to: number;
}

/** Jobs read at a time. */
const READ = 500;

export class DueDates {
  /** The pruner's last query, which has the retention of ended jobs. Its first round is at the start. */
  #pruned: PruneQuery | null = null;
  readonly #onChange: () => void;
  readonly #onClaimed: () => void;
  /** By job id, or by name for dates of the engine itself. */
  readonly #dates = new Map<string, readonly number[]>();
  readonly #running = new Set<string>();
  readonly #stale = new Set<string>();
  /** Jobs that ended before the first round of the pruner. */
  readonly #endedEarly = new Set<string>();
  readonly #pauses = new Map<string, PausePeriod[]>();
  #others = 0;
  #store: Store | null = null;

  /** `onChange` is called when a job, or what determines who may take it, has changed; `onClaimed` before handlers
   *  start. */
  constructor({ onChange, onClaimed }: { readonly onChange: () => void; readonly onClaimed: () => void }) {
    this.#onChange = onChange;
    this.#onClaimed = onClaimed;
  }

  /** Running jobs: as of the last `next`, plus those claimed since. */
  get running(): ReadonlySet<string> {
    return this.#running;
  }

  /** The first time after `seen`; null if there is none. */
  async next(seen: number): Promise<number | null> {
    await this.#read();
    let next: number | null = null;
    for (const [id, dates] of this.#dates) {
      let isOver = true;
      for (const at of dates) {
        if (at <= seen) continue;
        isOver = false;
        if (next === null || at < next) next = at;
      }
      if (isOver) this.#dates.delete(id);
    }
    return next;
  }

  /** Wraps the store to observe its calls. */
  follow(store: Store): Store {
    this.#store = store;
    const changed = (ids: Iterable<string>) => {
      for (const id of ids) this.#stale.add(id);
      this.#onChange();
    };
    const verbs: Partial<Store> = {
      insert: async (items, now) => {
        const answers = await store.insert(items, now);
        changed(answers.flatMap((answer) => (answer.status === "inserted" ? [answer.id] : [])));
        return answers;
      },
      claim: async (requests, now) => {
        const answers = await store.claim(requests, now);
        const ids = answers.flatMap(({ jobs }) => jobs.map(({ id }) => id));
        if (ids.length > 0) this.#onClaimed();
        for (const id of ids) this.#running.add(id); // now: a handler may begin before the store is read again
        if (ids.length > 0) changed(ids);
        return answers;
      },
      settle: async (reports, now, decide) => {
        const answers = await store.settle(reports, now, decide);
        changed(reports.map(({ jobId }) => jobId));
        return answers;
      },
      amend: async (commands, now, decide, parentId) => {
        const answers = await store.amend(commands, now, decide, parentId);
        changed(commands.map(({ jobId }) => jobId));
        return answers;
      },
      runs: {
        ...store.runs,
        advance: async (writes, now) => {
          const answers = await store.runs.advance(writes, now);
          changed(writes.flatMap(({ run, jobs }) => [run, ...jobs.map(({ id }) => id)]));
          return answers;
        },
      },
      queues: {
        ...store.queues,
        setPaused: async (namespace, queue, paused, now, by) => {
          await store.queues.setPaused(namespace, queue, paused, now, by);
          this.#pause(placeOf(namespace, queue), paused, now);
          this.#forgetLater(now);
          changed(this.#dates.keys());
        },
      },
      sessions: {
        ...store.sessions,
        open: async (session, now) => {
          const isOpen = await store.sessions.open(session, now);
          this.#forgetLater(now);
          changed([]);
          return isOpen;
        },
        close: async (id, now, why) => {
          await store.sessions.close(id, now, why);
          this.#forgetLater(now);
          changed([]);
        },
        drain: async (id, now, by) => {
          const answer = await store.sessions.drain(id, now, by);
          this.#forgetLater(now);
          changed([]);
          return answer;
        },
      },
      prune: (query) => {
        for (const id of this.#endedEarly) this.#stale.add(id);
        this.#endedEarly.clear();
        this.#pruned = query;
        return store.prune(query);
      },
      close: () => {
        this.#store = null;
        this.#running.clear();
        this.#dates.clear();
        return store.close();
      },
      // The clock jumps because a test moves it: no engine was asleep.
      beat: (beat: Beat) => store.beat({ ...beat, maxGapMs: Number.MAX_SAFE_INTEGER }),
    };
    return new Proxy(store, {
      get(target, property) {
        const own: unknown = Reflect.get(verbs, property);
        if (own !== undefined) return own;
        const verb: unknown = Reflect.get(target, property);
        return typeof verb === "function" ? verb.bind(target) : verb;
      },
    });
  }

  /** Sessions and engine events are deleted when they are old. */
  #forgetLater(now: number): void {
    if (this.#pruned === null) return;
    this.#others += 1;
    this.#dates.set(`#${this.#others}`, [now + this.#pruned.now - this.#pruned.sessionsEndedBefore + 1]);
  }

  async #read(): Promise<void> {
    while (this.#stale.size > 0 && this.#store !== null) {
      const ids = [...this.#stale].filter((id) => !id.startsWith("#")).slice(0, READ);
      if (ids.length === 0) return this.#stale.clear();
      for (const id of ids) this.#stale.delete(id);
      const jobs = await this.#store.facts(ids);
      ids.forEach((id, i) => {
        const job = jobs[i] ?? null;
        if (job?.state === "running") this.#running.add(id);
        else this.#running.delete(id);
        const dates = job === null ? [] : this.#datesOf(job);
        if (dates.length > 0) this.#dates.set(id, dates);
        else this.#dates.delete(id);
      });
    }
  }

  #datesOf(job: Job): readonly number[] {
    const { state, runAt, expiresAt, deadlineAt, finishedAt, key } = job;
    const dates: number[] = [];
    if (state === "queued") {
      dates.push(runAt);
      if (deadlineAt !== null) dates.push(deadlineAt + 1); // a job may still start in its last millisecond
      if (expiresAt !== null) dates.push(this.#withPauses(expiresAt, job) + 1);
    }
    if (state === "queued" || state === "running" || state === "blocked" || finishedAt === null) return dates;
    if (this.#pruned === null) {
      this.#endedEarly.add(job.id);
      return dates;
    }
    const { now, endedBefore, keyWindowMs } = this.#pruned;
    const before = endedBefore[state];
    if (before !== undefined) dates.push(finishedAt + now - before + 1); // kept up to that time, deleted after it
    if (key !== null) dates.push(finishedAt + keyWindowMs);
    return dates;
  }

  #pause(place: string, paused: boolean, now: number): void {
    const pauses = this.#pauses.get(place) ?? [];
    this.#pauses.set(place, pauses);
    const last = pauses.at(-1);
    const isPaused = last?.to === Number.POSITIVE_INFINITY;
    if (paused && !isPaused) pauses.push({ from: now, to: Number.POSITIVE_INFINITY });
    if (!paused && isPaused && last !== undefined) last.to = now;
  }

  /** The wait of a job does not count while its queue is paused. */
  #withPauses(expiresAt: number, { namespace, queue, runAt }: Job): number {
    let at = expiresAt;
    for (const { from, to } of this.#pauses.get(placeOf(namespace, queue)) ?? []) {
      if (from <= at) at += Math.max(0, to - Math.max(from, runAt));
    }
    return at;
  }
}

function placeOf(namespace: string, queue: string): string {
  return JSON.stringify([namespace, queue]);
}
