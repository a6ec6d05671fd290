/** What `submit` returns: a job's id and the chapter it was found in, with the calls on this job. */

import { checkFeed, type FeedOptions, JOB_FEED_KEYS } from "../core/api/events.ts";
import { checkResult, type JobHandle, type ResultOptions } from "../core/api/jobs.ts";
import type { Explanation } from "../core/explain/explain.ts";
import type { PerdureEvent } from "../core/job/event.ts";
import { isTerminal } from "../core/job/job.ts";
import { errorOfEnd, resultTimeout } from "../core/job/job-end.ts";
import type { AttemptRow, JobInfo } from "../core/job/views.ts";
import { isAway } from "../wire/repeat.ts";
import { eventFeed } from "./event-feed.ts";
import type { ClientCallOptions, ClientHttpLink } from "./http-call.ts";
import { allPages, pageQuery } from "./pages.ts";
import type { EndWaiter } from "./wait-end.ts";
import { toJobInfo, type WireJob } from "./wire-jobs.ts";

/** For the last read of a job when the time to wait has expired. */
const LAST_READ_MS = 2_000;

export class ClientJobHandle<Output> implements JobHandle<Output> {
  readonly id: string;
  readonly chapter: number;
  readonly created: boolean;
  readonly #link: ClientHttpLink;
  readonly #waiter: EndWaiter;

  constructor(link: ClientHttpLink, waiter: EndWaiter, id: string, chapter: number, created: boolean) {
    this.#link = link;
    this.#waiter = waiter;
    this.id = id;
    this.chapter = chapter;
    this.created = created;
  }

  async result(options: ResultOptions = {}): Promise<Output> {
    return (await waitForResult(this.#waiter, this, options, async (call) => {
      const job = await this.#get(call);
      if (job.chapter <= this.chapter && !isTerminal(job.state)) return null;
      return { error: await errorOfEnd(job, this.chapter, this), result: job.result };
    })) as Output;
  }

  get(): Promise<JobInfo> {
    return this.#get();
  }

  async #get(options: ClientCallOptions = {}): Promise<JobInfo> {
    return toJobInfo(await this.#link.json<WireJob>("getJob", { ...options, params: { id: this.id } }));
  }

  async cancel(): Promise<JobInfo> {
    return toJobInfo(await this.#link.json<WireJob>("cancelJob", { params: { id: this.id }, repeatable: true }));
  }

  events(options: Omit<FeedOptions, "jobId"> = {}): AsyncGenerator<PerdureEvent, void, void> {
    return eventFeed(this.#link, { ...checkFeed(options, JOB_FEED_KEYS), jobId: this.id });
  }

  async attempts(page?: { readonly after?: number; readonly limit?: number }): Promise<AttemptRow[]> {
    if (page !== undefined) return (await this.#attemptPage(pageQuery(page))).attempts;
    return allPages(async (query) => {
      const { attempts, next } = await this.#attemptPage(query);
      return { items: attempts, next };
    });
  }

  #attemptPage(query: URLSearchParams) {
    type AttemptsReply = { readonly attempts: AttemptRow[]; readonly next?: number | null };
    return this.#link.json<AttemptsReply>("listAttempts", { params: { id: this.id }, query });
  }

  explain(): Promise<Explanation> {
    return this.#link.json<Explanation>("explainJob", { params: { id: this.id } });
  }
}

/** How a job or a run ended. */
interface ReadEnd {
  readonly error: Error | null;
  readonly result: unknown;
}

/** Waits until it has ended, and returns its result or throws its error. `read` answers null while it has not ended. */
export async function waitForResult(
  waiter: EndWaiter,
  which: { readonly id: string; readonly chapter: number },
  options: ResultOptions,
  read: (call: ClientCallOptions) => Promise<ReadEnd | null>,
): Promise<unknown> {
  const timeoutMs = checkResult(options);
  const { signal } = options;
  const startedAt = performance.now();
  for (;;) {
    const left = timeoutMs === null ? null : timeoutMs - (performance.now() - startedAt);
    const answer = await waiter.wait(which, { timeoutMs: left, ...(signal ? { signal } : {}) });
    signal?.throwIfAborted();
    const isLast = answer === "timeout";
    const end = await read(isLast ? { timeoutMs: LAST_READ_MS, patienceMs: 0 } : {}).catch(nullIfAway);
    if (end === null && isLast) throw resultTimeout(which.id, timeoutMs);
    if (end?.error) throw end.error;
    if (end !== null) return end.result;
  }
}

/** The server cannot be reached: the caller waits on. */
function nullIfAway(error: unknown): null {
  if (isAway(error)) return null;
  throw error;
}
