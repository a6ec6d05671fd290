/** Reads jobs and workers from the store, in OPAL's formats. A job belongs to OPAL if it has its tag and an OPAL id; a
 *  job of another namespace is answered like one that does not exist. */

import { PerdureError } from "../../../core/errors.ts";
import type { JobEvent } from "../../../core/job/event.ts";
import { attemptsAtSnapshot, eventsAtSnapshot } from "../../../core/job/snapshot.ts";
import type { Engine } from "../../../engine/engine.ts";
import { lastAttempts, toInfo } from "../../../engine/read-job.ts";
import { nextTurn } from "../../../lib/clock.ts";
import { type JobFilter, type JobRow, SESSIONS_PAGE, type SessionRow, type Store } from "../../../store/store.ts";
import { type OpalAttempts, type OpalResult, opalAttempts, opalResult } from "../attempts.ts";
import { isOpalId, OPAL_TAG, type OpalWorker, opalIdOf, opalKey, opalWorker } from "../format.ts";
import { type OpalEndedAttempt, type OpalJob, opalJob, type WorkerName } from "../job.ts";
import type { OpalSettings } from "../settings.ts";

export type ShownOpalJob = OpalJob & { readonly attempts?: OpalAttempts };

/** The limit of the listing: the newest. */
export const MAX_LISTED = 1_000;
/** A row may hold two megabytes, of which little is shown, so only this many are read at a time. */
const PAGE = 40;
/** How long a lost or stopped worker is listed. */
const GONE_FOR_MS = 3_600_000;

const MAX_PAGES = 100;
/** For a job with more events, the time of the last change is left out. */
export const MAX_EVENTS = 5_000;
/** Pages of workers: 2,000 active ones, and as many ended ones. */
const SESSION_PAGES = 10;
/** No session has ended since this time. */
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
      await nextTurn(this.#engine.clock); // let other work run
      // Other jobs may have the tag too: the search does not go through all of them.
    } while (next !== null && jobs.size < MAX_LISTED && pages < MAX_PAGES);
    return jobs;
  }

  async job(namespace: string, id: string, withAttempts: boolean): Promise<ShownOpalJob> {
    const row = await this.row(namespace, id);
    const job = await this.#show(row, await this.#workerNames([row]), withAttempts);
    if (job === null) throw notFound();
    return job;
  }

  /** The row of an OPAL id. */
  async row(namespace: string, id: string): Promise<JobRow> {
    // Any text of a URL arrives here, including a NUL, which a database would refuse.
    if (!isOpalId(id)) throw notFound();
    const { store } = this.#engine;
    const { jobs } = await store.find({ namespace, key: opalKey(id), limit: 1 });
    // Jobs from files may have only Perdure's id.
    const row = jobs[0] ?? (await store.jobs([id]))[0] ?? null;
    if (row === null || row.namespace !== namespace || !isOpalJob(row) || opalIdOf(row) !== id) throw notFound();
    return row;
  }

  /** The content of its result.json if its engine wrote none; null if there is no such attempt. */
  async result({ id }: JobRow, attempt: number): Promise<OpalResult | null> {
    const { store } = this.#engine;
    const [row = null] = await store.jobs([id]);
    if (row === null || attempt > row.attempt) return null;
    const history = row.revision > MAX_EVENTS ? null : await store.history(id);
    const events = eventsAtSnapshot(row, (history?.events ?? []) as JobEvent[]);
    const ended = await store.attempts(id, { after: attempt - 1, limit: 1 });
    return opalResult(row, attemptsAtSnapshot(row, ended), events, attempt);
  }

  /** Active workers, then those that ended within the last hour. */
  async workers(namespace: string): Promise<OpalWorker[]> {
    const { store, clock } = this.#engine;
    const now = clock.now();
    // Active ones first, in a separate query, so that they are shown however many have ended.
    const live = await sessionsOf(store, namespace, END_OF_TIME);
    const gone = (await sessionsOf(store, namespace, now - GONE_FOR_MS)).filter(({ endedAt }) => endedAt !== null);
    const known = new Map([...live, ...gone].map((session) => [session.id, session]));
    const sessions = [...known.values()].filter((each) => !isLongGone(each, now));
    const workers = sessions.map((session) => opalWorker(session, now, this.#settings.workerTtlSecs));
    return workers.sort((a, b) => Number(b.status === "online") - Number(a.status === "online"));
  }

  /** The workers of these jobs. */
  async #workerNames(rows: readonly Pick<JobRow, "worker">[]): Promise<WorkerName> {
    const ids = new Set(rows.flatMap(({ worker }) => (worker === null ? [] : [worker])));
    if (ids.size === 0) return () => null;
    const names = await this.#engine.store.sessions.names([...ids]);
    return (session) => names.get(session) ?? null;
  }

  /** Null if it was pruned meanwhile. */
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

  /** Attempts that had ended when the row was read: the job may have changed since. */
  async #attempts(row: JobRow): Promise<OpalEndedAttempt[]> {
    return lastAttempts(this.#engine.store, row);
  }
}

/** Whether the ten keys depend on its attempts: the error and exit code of a queued or failed job. */
function saysMore({ state, attempt }: JobRow): boolean {
  return attempt > 0 && state !== "running" && state !== "succeeded";
}

/** Whether the last change is known only from its events: it may have been redriven or rescheduled. */
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

/** The message of OPAL's server. */
function notFound(): PerdureError {
  return new PerdureError("job_not_found", "Job not found");
}
