/** `opal.runtime`: the folder that OPAL's operators know, with `job_leases/`, `job_attempts/`, `opal_artifacts/` and
 *  `logs/worker_pool/`, as a copy of what the store and the outputs have. It follows the event feed and writes the jobs that changed;
 *  nothing depends on it. It has all jobs of OPAL's in namespace `default`.
 *
 *  Memory is bounded: while many jobs wait here, no more events are read. So a folder that cannot be written falls behind, and
 *  catches up when it can. What fails is tried again, and logged when that begins and when it is over. */
import type { PerdureEvent } from "../../core/event.ts";
import type { Job } from "../../core/job.ts";
import { OPAL_TAG } from "../../dialects/opal/words.ts";
import { workerLog } from "../../dialects/opal/worker-log.ts";
import type { Engine } from "../../engine/engine.ts";
import { sleep } from "../../lib/clock.ts";
import { TroubleLog } from "../../lib/trouble-log.ts";
import type { Blobs } from "../../store/blobs.ts";
import type { JobFilter } from "../../store/store.ts";
import type { ServerLog } from "../parts.ts";
import { MAX_LISTED } from "./read.ts";
import { NAMESPACE, type RuntimeFiles, recordedJob, writeAttemptStore, writeAttempts } from "./runtime-job.ts";
import { RuntimeLeases } from "./runtime-leases.ts";
import { RuntimeLogs } from "./runtime-logs.ts";
import { NO_LINES, type PendingJob, RuntimePending } from "./runtime-pending.ts";
import { RuntimeSweep } from "./runtime-sweep.ts";

export interface RuntimeOptions {
  readonly engine: Engine;
  readonly blobs: Blobs;
  readonly files: RuntimeFiles;
  readonly log: ServerLog;
  /** How often jobs that the store no longer has are searched for. A prune that a person asked for is followed by a search at once. */
  readonly sweepEveryMs?: number;
}

/** Jobs whose small files are written before the files of an attempt are copied. */
const BATCH = 100;
/** Rows may be large. */
const PAGE = 40;
const RETRY_MS = 1_000;
const IDLE_MS = 1_000;
/** How far behind the end of a lease may be. */
const MAX_REFRESH_MS = 3_000;
const SWEEP_EVERY_MS = 600_000;
/** What is missing then is written by the next start. */
const STOP_MS = 5_000;

export class RuntimeFolder {
  readonly #options: RuntimeOptions;
  readonly #logs: RuntimeLogs;
  readonly #leases: RuntimeLeases;
  readonly #sweep: RuntimeSweep;
  readonly #pending: RuntimePending;
  readonly #trouble: TroubleLog;
  /** Aborted when no more events are to be read, and when nothing more is to be written. */
  readonly #stopping = new AbortController();
  readonly #cut = new AbortController();
  #idle = new AbortController();
  /** The last event that was read. */
  #seen = 0;
  #refreshAt = 0;
  #rebuilds = 0;
  /** Until the newest jobs of a rebuild are written: then the lines of all of them are logged in order. */
  #heldRounds = 0;
  #hasFailed = false;
  #running: Promise<unknown> = Promise.resolve();

  constructor(options: RuntimeOptions) {
    const { engine, files, log, sweepEveryMs = SWEEP_EVERY_MS } = options;
    const { clock, store } = engine;
    this.#options = options;
    this.#logs = new RuntimeLogs(files);
    this.#leases = new RuntimeLeases(files, store);
    this.#sweep = new RuntimeSweep(files, store, clock, sweepEveryMs);
    this.#pending = new RuntimePending(clock);
    this.#trouble = new TroubleLog({ clock, log, name: "opal.runtime", level: "warn" });
  }

  start(): void {
    this.#running = this.#run().catch((error: unknown) => {
      this.#options.log("error", "opal.runtime: nothing more is written to the folder", { error });
    });
  }

  /** Writes what happened up to now, unless the folder cannot be written or is slow: then the next start does. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#idle.abort();
    this.#pending.close();
    const isOver = new AbortController();
    const finished = this.#running.then(() => this.#finish()).finally(() => isOver.abort());
    await Promise.race([finished, sleep(this.#options.engine.clock, STOP_MS, { signal: isOver.signal })]);
    this.#cut.abort();
  }

  async #run(): Promise<void> {
    const { store, leaseMs } = this.#options.engine;
    const { signal } = this.#stopping;
    const start = async () => {
      this.#seen = await store.lastSeq();
    };
    while (!signal.aborted && !(await this.#tried("store", start))) await this.#pause(RETRY_MS);
    const following = this.#follow();
    let isWhole = false;
    while (!signal.aborted) {
      this.#hasFailed = false;
      const isReady = await this.#tried("folder", async () => {
        isWhole = (await this.#options.files.isWhole()) && isWhole;
        if (!isWhole) await this.#rebuild();
        isWhole = true;
      });
      if (isReady) await this.#round();
      if (!this.#hasFailed && !this.#pending.hasFailed) this.#trouble.works();
      if (!isReady || !this.#hasWork) await this.#pause(Math.min(IDLE_MS, leaseMs / 5));
    }
    await following;
  }

  get #hasWork(): boolean {
    return this.#pending.hasWork || this.#sweep.isUnderWay;
  }

  /** Ends early when there is something to do. */
  async #pause(ms: number): Promise<void> {
    this.#idle = new AbortController();
    if (this.#stopping.signal.aborted) return;
    await sleep(this.#options.engine.clock, ms, { signal: this.#idle.signal, background: true });
  }

  async #follow(): Promise<void> {
    const { engine } = this.#options;
    const { signal } = this.#stopping;
    const onRead = (upTo: number) => {
      this.#seen = upTo;
    };
    while (!signal.aborted) {
      await this.#tried("store", async () => {
        for await (const event of engine.events({ after: this.#seen, follow: true, signal, onRead })) {
          await this.#pending.room();
          if (signal.aborted) return;
          this.#read(event);
        }
      });
      if (!signal.aborted) await sleep(engine.clock, RETRY_MS, { signal, background: true });
    }
  }

  #read({ jobId, name, seq }: PerdureEvent): void {
    if (jobId !== null) this.#pending.add(jobId, seq);
    else if (name === "jobs.pruned") this.#sweep.request();
    this.#seen = seq;
    this.#idle.abort();
  }

  /** What happened since the feed was left. What fails is not tried again. */
  async #finish(): Promise<void> {
    const { engine } = this.#options;
    const { signal } = this.#cut;
    await this.#tried("store", async () => {
      for await (const event of engine.events({ after: this.#seen, signal })) {
        while (this.#pending.isFull && this.#pending.hasWork && !signal.aborted) await this.#round();
        if (this.#pending.isFull) return;
        this.#read(event);
      }
    });
    while (this.#pending.hasWork && !signal.aborted) await this.#round();
  }

  /** All anew: the log of the newest jobs, and the files of all. */
  async #rebuild(): Promise<void> {
    this.#rebuilds += 1;
    await this.#logs.clear();
    const ids: string[] = [];
    let next: string | null | undefined;
    while (next !== null && ids.length < MAX_LISTED) {
      const page = await this.#page(next);
      ids.push(...page.ids);
      next = page.next;
    }
    // At once, and before anything else is written: no line is logged twice.
    for (const id of ids.reverse()) this.#pending.add(id, 0);
    this.#heldRounds = Math.ceil(this.#pending.changed / BATCH);
    this.#sweep.request();
    void this.#addOlder(next, this.#rebuilds);
  }

  /** The jobs beyond the newest, as there is room. Of them no lines are logged. */
  async #addOlder(from: string | null | undefined, rebuild: number): Promise<void> {
    const { signal } = this.#stopping;
    for (let next = from; next !== null && !signal.aborted; ) {
      await this.#pending.room();
      const isRead = await this.#tried("store", async () => {
        const page = await this.#page(next);
        if (signal.aborted || rebuild !== this.#rebuilds) return;
        for (const id of page.ids) this.#pending.add(id, NO_LINES);
        next = page.next;
        this.#idle.abort();
      });
      if (rebuild !== this.#rebuilds) return;
      if (!isRead) await sleep(this.#options.engine.clock, RETRY_MS, { signal, background: true });
    }
  }

  async #page(cursor: string | null | undefined): Promise<{ readonly ids: string[]; readonly next: string | null }> {
    const from: Pick<JobFilter, "cursor"> = typeof cursor === "string" ? { cursor } : {};
    const filter: JobFilter = { namespace: NAMESPACE, tag: OPAL_TAG, order: "newest", limit: PAGE };
    const { jobs, next } = await this.#options.engine.store.find({ ...filter, ...from });
    return { ids: jobs.map(({ id }) => id), next };
  }

  /** A little of everything, so that no part waits until another is done. */
  async #round(): Promise<void> {
    const { clock, leaseMs } = this.#options.engine;
    await this.#writeChanged();
    if (this.#heldRounds > 0 && --this.#heldRounds > 0) return;
    this.#report("logs", await this.#logs.write());
    const id = this.#pending.takeAttempts();
    if (id !== null) await this.#writeAttempts(id);
    if (clock.monotonic() >= this.#refreshAt) {
      this.#refreshAt = clock.monotonic() + Math.min(MAX_REFRESH_MS, leaseMs / 5);
      this.#report("leases", await this.#leases.refresh());
    }
    await this.#tried("sweep", () => this.#sweep.step());
  }

  /** The small files of some jobs, and their lines of the logs. */
  async #writeChanged(): Promise<void> {
    // All events up to here have been read, so that those after it are yet to come.
    const upTo = this.#seen;
    const some = this.#pending.take(BATCH);
    if (some.length === 0) return;
    let facts: readonly (Job | null)[] = [];
    const isRead = await this.#tried("store", async () => {
      facts = await this.#options.engine.store.facts(some.map(([id]) => id));
    });
    for (const [i, job] of some.entries()) {
      if (!isRead) this.#pending.addFailed(...job);
      else if (facts[i]?.tags.includes(OPAL_TAG)) await this.#writeSmall(job, upTo);
    }
  }

  async #writeSmall([id, from]: PendingJob, upTo: number): Promise<void> {
    let missing = from;
    const isWritten = await this.#tried("jobs", async () => {
      const job = await recordedJob(this.#options.engine.store, id);
      if (job === null) return;
      const lines = from === NO_LINES ? [] : workerLog(job.row, job.events);
      this.#logs.add(lines.filter(({ seq }) => seq >= from && seq <= upTo));
      missing = NO_LINES;
      await writeAttemptStore(this.#options.files, job);
      await this.#leases.set(job);
      if (job.row.attempt > 0) this.#pending.addAttempts(id);
    });
    if (!isWritten) this.#pending.addFailed(id, missing);
  }

  async #writeAttempts(id: string): Promise<void> {
    const { engine, blobs, files } = this.#options;
    const isWritten = await this.#tried("jobs", async () => {
      const job = await recordedJob(engine.store, id);
      if (job !== null) await writeAttempts({ store: engine.store, blobs, files, signal: this.#cut.signal }, job);
    });
    if (!isWritten) this.#pending.addFailed(id, NO_LINES);
  }

  async #tried(what: string, work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      this.#report(what, error);
      return false;
    }
  }

  #report(what: string, error: unknown): void {
    if (error === null) return;
    this.#hasFailed = true;
    if (this.#cut.signal.aborted || this.#options.engine.storeState.failed(error, "rounds")) return;
    const { code } = (error ?? {}) as { code?: unknown };
    const cause = error instanceof Error ? error.message : String(error);
    this.#trouble.failed(typeof code === "string" ? code : "error", cause, what);
  }
}
