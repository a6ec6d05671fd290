/** `opal.runtime`: the folder that OPAL's operators use, with `job_leases/`, `job_attempts/`, `opal_artifacts/` and
 *  `logs/worker_pool/`, as a copy of the store and the outputs. It follows the event feed and writes the jobs that
 *  changed; nothing depends on it. It has all OPAL jobs of namespace `default`. Memory is bounded: while many jobs
 *  wait here, no more events are read, so a folder that cannot be written falls behind and catches up later. Failed
 *  writes are retried; the log has a line when they begin to fail and one when they work again. Outputs are copied
 *  separately, one job at a time, and do not delay events. */
import type { PerdureEvent } from "../../../core/job/event.ts";
import type { Job } from "../../../core/job/job.ts";
import type { Engine } from "../../../engine/engine.ts";
import { sleep } from "../../../lib/clock.ts";
import { TroubleLog } from "../../../lib/log.ts";
import type { ServerLog } from "../../../server/log.ts";
import type { Blobs } from "../../../store/blobs.ts";
import type { JobFilter } from "../../../store/store.ts";
import { OPAL_TAG } from "../format.ts";
import { workerLog } from "../worker-log.ts";
import { MAX_LISTED } from "./opal-reader.ts";
import {
  artifactsFolder,
  isUpToDate,
  NAMESPACE,
  type RuntimeFiles,
  recordedJob,
  writeAttemptStore,
  writeAttempts,
} from "./runtime-files.ts";
import { type AttemptsToCopy, NO_LINES, type PendingJob, RuntimeCopies, RuntimePending } from "./runtime-pending.ts";
import { RuntimeLeases, RuntimeLogs, RuntimeSweep } from "./runtime-records.ts";

export interface RuntimeOptions {
  readonly engine: Engine;
  readonly blobs: Blobs;
  readonly files: RuntimeFiles;
  readonly log: ServerLog;
  /** How often to search for jobs that the store no longer has. A requested prune is followed by a search at once. */
  readonly sweepEveryMs?: number;
}

/** Jobs whose small files are written in one round, before files of an attempt are copied. */
const BATCH = 100;
/** Limited because rows may be large. */
const PAGE = 40;
const RETRY_MS = 1_000;
const IDLE_MS = 1_000;
/** The error code of a copy that would leave too little free disk space; it is retried later. */
const LOW_SPACE = "low_space";
/** The error codes of a path that is a link, or not a folder. */
const REFUSED = "refused";
/** How far the recorded end of a lease may lag behind. */
const MAX_REFRESH_MS = 3_000;
const SWEEP_EVERY_MS = 600_000;
/** The next start writes what is missing then. */
const STOP_MS = 5_000;

export class RuntimeFolder {
  readonly #options: RuntimeOptions;
  readonly #logs: RuntimeLogs;
  readonly #leases: RuntimeLeases;
  readonly #sweep: RuntimeSweep;
  readonly #pending: RuntimePending;
  readonly #copies: RuntimeCopies;
  readonly #trouble: TroubleLog;
  /** Aborted when no more events should be read, and when nothing more should be written. */
  readonly #stopping = new AbortController();
  readonly #cut = new AbortController();
  #idle = new AbortController();
  /** The last event read. */
  #seen = 0;
  #refreshAt = 0;
  #searches = 0;
  /** Set until the newest jobs of a rebuild are written; then the lines of all of them are logged in order. */
  #heldRounds = 0;
  #hasFailed = false;
  #copy: { readonly done: Promise<void>; readonly cut: AbortController } | null = null;
  /** OPAL ids of the last jobs whose attempts were copied. */
  #lastCopied: readonly string[] = [];
  #running: Promise<unknown> = Promise.resolve();

  constructor(options: RuntimeOptions) {
    const { engine, files, log, sweepEveryMs = SWEEP_EVERY_MS } = options;
    const { clock, store } = engine;
    this.#options = options;
    this.#logs = new RuntimeLogs(files);
    this.#leases = new RuntimeLeases(files, store);
    this.#sweep = new RuntimeSweep(files, store, clock, sweepEveryMs);
    this.#pending = new RuntimePending(clock);
    this.#copies = new RuntimeCopies(clock);
    this.#trouble = new TroubleLog({ clock, log, name: "opal.runtime", level: "warn" });
  }

  start(): void {
    this.#running = this.#run().catch((error: unknown) => {
      this.#options.log("error", "opal.runtime: writing to the folder stopped", { error });
    });
  }

  /** Writes everything up to now, unless the folder fails or is slow: then the next start does. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#idle.abort();
    this.#pending.gate.close();
    this.#copies.gate.close();
    const isOver = new AbortController();
    const finished = this.#running.then(() => this.#finish()).finally(() => isOver.abort());
    await Promise.race([finished, sleep(this.#options.engine.clock, STOP_MS, { signal: isOver.signal })]);
    this.#cut.abort();
  }

  async #run(): Promise<void> {
    const { store, leaseMs } = this.#options.engine;
    const { signal } = this.#stopping;
    const start = async () => {
      this.#seen = await store.events.lastSeq();
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
      if (!this.#hasFailed && !this.#pending.hasFailed && !this.#copies.hasFailed) this.#trouble.works();
      if (!isReady || !this.#hasWork) await this.#pause(Math.min(IDLE_MS, leaseMs / 5));
    }
    await following;
  }

  get #hasWork(): boolean {
    return this.#pending.hasWork || this.#sweep.isUnderWay || (this.#copy === null && this.#copies.hasWork);
  }

  /** Returns early when there is work. */
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
          await this.#pending.gate.room();
          if (signal.aborted) return;
          this.#read(event);
        }
      });
      if (!signal.aborted) await sleep(engine.clock, RETRY_MS, { signal, background: true });
    }
  }

  #read({ jobId, name, seq }: PerdureEvent): void {
    if (jobId !== null) this.#pending.add({ id: jobId, from: seq, isWhole: false });
    else if (name === "jobs.pruned") this.#sweep.request();
    this.#seen = seq;
    this.#idle.abort();
  }

  /** Everything since the feed was left. Failed writes are not retried. */
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
    while (!signal.aborted && (this.#pending.hasWork || this.#copies.hasWaiting || this.#copy !== null)) {
      await this.#round();
      await this.#copy?.done;
    }
  }

  /** Rebuilds everything: the log of the newest jobs, and the files of all jobs. */
  async #rebuild(): Promise<void> {
    await this.#forgetCopies();
    await this.#logs.clear().catch((error: unknown) => {
      // Only that folder has an obstacle. When it is removed, the rebuild starts again.
      if (codeOf(error) !== REFUSED) throw error;
      this.#report("logs", error);
    });
    const ids: string[] = [];
    let next: string | null | undefined;
    while (next !== null && ids.length < MAX_LISTED) {
      const page = await this.#page(next);
      ids.push(...page.ids);
      next = page.next;
    }
    // Done before anything else is written, so that no line is logged twice.
    for (const id of ids.reverse()) this.#pending.add({ id, from: 0, isWhole: true });
    this.#heldRounds = Math.ceil(this.#pending.changed / BATCH);
    this.#sweep.request();
    void this.#addOlder(next);
  }

  /** Copies made while the folder was deleted may lack files and still have the timestamp of a complete one. */
  async #forgetCopies(): Promise<void> {
    this.#copy?.cut.abort();
    await this.#copy?.done;
    for (const id of this.#lastCopied) {
      await this.#tried("jobs", () => this.#options.files.remove(artifactsFolder(id)));
    }
    this.#lastCopied = [];
  }

  /** Adds jobs from a position on, as there is capacity, without log lines. The next call ends this one. */
  async #addOlder(from: string | null | undefined): Promise<void> {
    const { signal } = this.#stopping;
    this.#searches += 1;
    const search = this.#searches;
    for (let next = from; next !== null && !signal.aborted; ) {
      await this.#pending.gate.room();
      await this.#copies.gate.room();
      const isRead = await this.#tried("store", async () => {
        const page = await this.#page(next);
        if (signal.aborted || search !== this.#searches) return;
        for (const id of page.ids) this.#pending.add({ id, from: NO_LINES, isWhole: true });
        next = page.next;
        this.#idle.abort();
      });
      if (search !== this.#searches) return;
      if (!isRead) await sleep(this.#options.engine.clock, RETRY_MS, { signal, background: true });
    }
  }

  async #page(cursor: string | null | undefined): Promise<{ readonly ids: string[]; readonly next: string | null }> {
    const from: Pick<JobFilter, "cursor"> = typeof cursor === "string" ? { cursor } : {};
    const filter: JobFilter = { namespace: NAMESPACE, tag: OPAL_TAG, order: "newest", limit: PAGE };
    const { jobs, next } = await this.#options.engine.store.find({ ...filter, ...from });
    return { ids: jobs.map(({ id }) => id), next };
  }

  /** Does some of each kind of work, so that no kind waits for another. */
  async #round(): Promise<void> {
    const { clock, leaseMs } = this.#options.engine;
    await this.#writeChanged();
    if (this.#heldRounds > 0 && --this.#heldRounds > 0) return;
    this.#report("logs", await this.#logs.write());
    this.#startCopy();
    if (this.#copies.takeDropped()) void this.#addOlder(undefined);
    if (clock.monotonic() >= this.#refreshAt) {
      this.#refreshAt = clock.monotonic() + Math.min(MAX_REFRESH_MS, leaseMs / 5);
      this.#report("leases", await this.#leases.refresh());
    }
    await this.#tried("sweep", () => this.#sweep.step());
  }

  /** Writes the small files of some jobs, and their log lines. */
  async #writeChanged(): Promise<void> {
    // All events up to here have been read; later ones will follow.
    const upTo = this.#seen;
    const some = this.#pending.take(BATCH);
    if (some.length === 0) return;
    let facts: readonly (Job | null)[] = [];
    const isRead = await this.#tried("store", async () => {
      facts = await this.#options.engine.store.facts(some.map(({ id }) => id));
    });
    for (const [i, job] of some.entries()) {
      if (!isRead) this.#pending.addFailed(job);
      const row = facts[i] ?? null;
      if (row?.tags.includes(OPAL_TAG) && !(await this.#isUpToDate(job, row))) await this.#writeSmall(job, upTo);
    }
  }

  /** Whether an old job must be written. Jobs with log lines are read in any case. */
  async #isUpToDate({ from, isWhole }: PendingJob, facts: Job): Promise<boolean> {
    if (!isWhole || from !== NO_LINES) return false;
    const { engine, files } = this.#options;
    return isUpToDate(engine.store, files, facts).catch(() => false); // a write reports the error
  }

  async #writeSmall(pending: PendingJob, upTo: number): Promise<void> {
    const { id, isWhole } = pending;
    let { from } = pending;
    const isRead = await this.#tried("jobs", async () => {
      const job = await recordedJob(this.#options.engine.store, id);
      if (job === null) return;
      const lines = from === NO_LINES ? [] : workerLog(job.row, job.events);
      this.#logs.add(lines.filter(({ seq }) => seq >= from && seq <= upTo));
      from = NO_LINES;
      if (job.row.attempt > 0) this.#copies.add(id, isWhole);
      // One by one: a job that cannot be written does not affect others.
      const isWritten = [
        await this.#tried("jobs", () => writeAttemptStore(this.#options.files, job)),
        await this.#tried("jobs", () => this.#leases.set(job)),
      ];
      if (isWritten.includes(false)) this.#pending.addFailed({ id, from, isWhole });
    });
    if (!isRead) this.#pending.addFailed({ id, from, isWhole });
  }

  /** Copies the attempts of one job, unless a copy is running. Runs beside the rounds. */
  #startCopy(): void {
    if (this.#copy !== null) return;
    const next = this.#copies.take();
    if (next === null) return;
    const cut = new AbortController();
    const signal = AbortSignal.any([cut.signal, this.#cut.signal]);
    const done = this.#writeAttempts(next, signal).finally(() => {
      this.#copy = null;
      this.#idle.abort();
    });
    this.#copy = { done, cut };
  }

  async #writeAttempts({ id, isWhole, isRetry }: AttemptsToCopy, signal: AbortSignal): Promise<void> {
    const { engine, blobs, files } = this.#options;
    try {
      const job = await recordedJob(engine.store, id);
      if (job === null) return;
      this.#lastCopied = [job.id, ...this.#lastCopied].slice(0, 2);
      await writeAttempts({ store: engine.store, blobs, files, signal }, job, isWhole);
    } catch (error) {
      if (signal.aborted) return; // the rebuild or the next start repeats it
      this.#copies.addFailed(id);
      this.#report(isRetry ? "retries" : codeOf(error) === LOW_SPACE ? "skipped" : "copies", error);
    }
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
    const cause = error instanceof Error ? error.message : String(error);
    this.#trouble.failed(codeOf(error) ?? "error", cause, what);
  }
}

function codeOf(error: unknown): string | null {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === "string" ? code : null;
}
