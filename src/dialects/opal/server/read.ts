/** Jobs and workers out of the store, in OPAL's shapes. A job is one of this door if it has its tag and an id of OPAL's; one
 *  of another namespace is answered exactly as one that does not exist. */

import { PerdureError } from "../../../core/errors.ts";
import type { JobEvent } from "../../../core/job/event.ts";
import { attemptsAtSnapshot, eventsAtSnapshot } from "../../../core/job/snapshot.ts";
import type { Engine } from "../../../engine/engine.ts";
import { lastAttempts, toInfo } from "../../../engine/read-job.ts";
import { nextTurn } from "../../../lib/clock.ts";
import { type JobFilter, type JobRow, SESSIONS_PAGE, type SessionRow, type Store } from "../../../store/store.ts";
import { type OpalAttempts, type OpalResult, opalAttempts, opalResult } from "../attempts.ts";
import { type OpalEndedAttempt, type OpalJob, opalJob, type WorkerName } from "../job.ts";
import type { OpalSettings } from "../settings.ts";
import { isOpalId, OPAL_TAG, type OpalWorker, opalIdOf, opalKey, opalWorker } from "../words.ts";

export type ShownOpalJob = OpalJob & { readonly attempts?: OpalAttempts };

/** As many as the listing has at most: the newest. */
export const MAX_LISTED = 1_000;
/** A row may hold two megabytes, of which little is shown: so few are read at a time. */
const PAGE = 40;
/** How long a worker that has gone is told of. */
const GONE_FOR_MS = 3_600_000;

const MAX_PAGES = 100;
/** Of a job with more, what it is now is told, and not when it was last changed. */
export const MAX_EVENTS = 5_000;
/** Pages of workers: 2,000 of those that work, and as many that have gone. */
const SESSION_PAGES = 10;
/** No session has ended since then. */
const END_OF_TIME = 8.64e15;

export class OpalReader {
  readonly #engine: Engine;
  readonly #settings: OpalSettings;

  constructor(engine: Engine, settings: OpalSettings) {
    this.#engine = engine;
    this.#settings = settings;
  }

  /** By id, newest first. */
  async list(namespace: string, withAttempts: boolean): Promise<Map<string, ShownOpalJob>> {
    const { store } = this.#engine;
    const jobs = new Map<string, ShownOpalJob>();
    const filter: JobFilter = { namespace, tag: OPAL_TAG, order: "newest" };
    let next: string | null = null;
    let pages = 0;
    do {
      const cursor: Pick<JobFilter, "cursor"> = next === null ? {} : { cursor: next };
      const page = await store.find({ ...filter, ...cursor, limit: Math.min(PAGE, MAX_LISTED - jobs.size) });
      const ours = page.jobs.filter(isOpalJob);
      const names = await this.#workerNames(ours);
      const shown = await Promise.all(ours.map((row) => this.#show(row, names, withAttempts)));
      for (const job of shown) if (job !== null) jobs.set(job.id, job);
      next = page.next;
      pages += 1;
      await nextTurn(this.#engine.clock); // others have their turn
      // Jobs of other doors may bear the tag too: nobody looks through all of them.
    } while (next !== null && jobs.size < MAX_LISTED && pages < MAX_PAGES);
    return jobs;
  }

  async job(namespace: string, id: string, withAttempts: boolean): Promise<ShownOpalJob> {
    const row = await this.row(namespace, id);
    const job = await this.#show(row, await this.#workerNames([row]), withAttempts);
    if (job === null) throw notFound();
    return job;
  }

  /** The row behind an id of OPAL's. */
  async row(namespace: string, id: string): Promise<JobRow> {
    // Whatever can stand in an address comes here, a NUL too, which a database would stumble over.
    if (!isOpalId(id)) throw notFound();
    const { store } = this.#engine;
    const { jobs } = await store.find({ namespace, key: opalKey(id), limit: 1 });
    // Jobs of files may have no id but their own.
    const row = jobs[0] ?? (await store.jobs([id]))[0] ?? null;
    if (row === null || row.namespace !== namespace || !isOpalJob(row) || opalIdOf(row) !== id) throw notFound();
    return row;
  }

  /** What its result.json is made of, where its engine wrote none; null where there is no such attempt. */
  async result({ id }: JobRow, attempt: number): Promise<OpalResult | null> {
    const { store } = this.#engine;
    const [row = null] = await store.jobs([id]);
    if (row === null || attempt > row.attempt) return null;
    const history = row.revision > MAX_EVENTS ? null : await store.history(id);
    const events = eventsAtSnapshot(row, (history?.events ?? []) as JobEvent[]);
    const ended = await store.attempts(id, { after: attempt - 1, limit: 1 });
    return opalResult(row, attemptsAtSnapshot(row, ended), events, attempt);
  }

  /** Those that are there, then those that were within the last hour. */
  async workers(namespace: string): Promise<OpalWorker[]> {
    const { store, clock } = this.#engine;
    const now = clock.now();
    // Those that work first, by themselves: however many have ended, they are shown.
    const live = await sessionsOf(store, namespace, END_OF_TIME);
    const gone = (await sessionsOf(store, namespace, now - GONE_FOR_MS)).filter(({ endedAt }) => endedAt !== null);
    const known = new Map([...live, ...gone].map((session) => [session.id, session]));
    const sessions = [...known.values()].filter((each) => !isLongGone(each, now));
    const workers = sessions.map((session) => opalWorker(session, now, this.#settings.workerTtlSecs));
    return workers.sort((a, b) => Number(b.status === "online") - Number(a.status === "online"));
  }

  /** Of the workers that these jobs name. */
  async #workerNames(rows: readonly Pick<JobRow, "worker">[]): Promise<WorkerName> {
    const ids = new Set(rows.flatMap(({ worker }) => (worker === null ? [] : [worker])));
    if (ids.size === 0) return () => null;
    const names = await this.#engine.store.sessions.names([...ids]);
    return (session) => names.get(session) ?? null;
  }

  /** Null if it was pruned while we looked. */
  async #show(row: JobRow, names: WorkerName, withAttempts: boolean): Promise<ShownOpalJob | null> {
    const { store } = this.#engine;
    if (!withAttempts && !wasTouched(row)) {
      return opalJob(toInfo(row), saysMore(row) ? await this.#attempts(row) : [], names);
    }
    const history = await store.history(row.id, { events: row.revision <= MAX_EVENTS });
    if (history === null) return null;
    const name = history.job.worker === row.worker ? names : await this.#workerNames([history.job]);
    const attempts = await this.#attempts(history.job);
    if (history.job.revision > MAX_EVENTS) {
      const job = opalJob(toInfo(history.job), attempts, name);
      return withAttempts ? { ...job, attempts: opalAttempts(history.job, attempts, []) } : job;
    }
    const events = eventsAtSnapshot(history.job, history.events as JobEvent[]);
    const job = opalJob(toInfo(history.job), attempts, name, events);
    if (!withAttempts) return job;
    return { ...job, attempts: opalAttempts(history.job, attempts, events) };
  }

  /** Those that had ended when the row was read: the job may have gone on since. */
  async #attempts(row: JobRow): Promise<OpalEndedAttempt[]> {
    return lastAttempts(this.#engine.store, row);
  }
}

/** Whether its attempts show in a job's ten keys: the error and the exit code of one that waits, or failed. */
function saysMore({ state, attempt }: JobRow): boolean {
  return attempt > 0 && state !== "running" && state !== "succeeded";
}

/** Whether only its events tell when it was last changed: someone may have redriven it, or moved it. */
function wasTouched({ state, revision }: JobRow): boolean {
  return state === "queued" && revision > 1;
}

export function isOpalJob(row: JobRow): boolean {
  return row.tags.includes(OPAL_TAG) && opalIdOf(row) !== null;
}

function isLongGone({ renewedAt, endedAt }: SessionRow, now: number): boolean {
  return now - (endedAt ?? renewedAt) > GONE_FOR_MS;
}

async function sessionsOf(store: Store, namespace: string, endedSince: number): Promise<SessionRow[]> {
  const all: SessionRow[] = [];
  for (let page = 0; page < SESSION_PAGES; page++) {
    const found = await store.sessions.list({ namespace, endedSince, after: all.at(-1)?.id ?? null });
    all.push(...found);
    if (found.length < SESSIONS_PAGE) break;
  }
  return all;
}

/** In the words of OPAL's server. */
function notFound(): PerdureError {
  return new PerdureError("job_not_found", "Job not found");
}
