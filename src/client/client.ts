/** Perdure on a server: the library's face over HTTP. What it needs is a fetch, so that it works in browsers and at the edge,
 *  too; a worker needs more, and is started from `perdure` or `perdure/worker`. Jobs, events and workers are those of the
 *  namespace that the token belongs to, or that the client was connected with. */

import { refuseClient, toRedriveRequest, toRequest } from "../contract/job-request.ts";
import { fromWireHealth, type WireHealth } from "../contract/wire.ts";
import {
  checkFeed,
  checkGrace,
  checkRedriveMany,
  type FeedOptions,
  type JobHandle,
  type JobOutputs,
  type Perdure,
  type RedriveManyAnswer,
  type RedriveManyOptions,
  type SubmitManyAnswer,
  type Uploaded,
} from "../core/api.ts";
import { asText, checkOptions } from "../core/check.ts";
import { type Duration, toInstant } from "../core/duration.ts";
import { ConfigError, PerdureError } from "../core/errors.ts";
import type { Explanation } from "../core/explain/explain.ts";
import { checkInput } from "../core/input/submit-check.ts";
import type { PerdureEvent } from "../core/job/event.ts";
import type { Usage } from "../core/job/job.ts";
import { type JobsFilter, toWireFilter } from "../core/job/jobs-filter.ts";
import type { RedriveChanges } from "../core/job/redrive.ts";
import type { JobInfo, QueueCounts, SessionRow } from "../core/job/views.ts";
import type {
  AnyTask,
  ResultOf,
  SubmitEntry,
  SubmitOptions,
  SubmitRest,
  TransactionClient,
} from "../core/task/task.ts";
import type { WorkerHandle, WorkOptions } from "../core/task/work-options.ts";
import { type Admin, adminOf } from "./admin.ts";
import { eventFeed } from "./event-feed.ts";
import { jobOutputs, upload } from "./files.ts";
import { type ClientCallOptions, ClientHttpLink, type LinkOptions } from "./http-call.ts";
import { ClientJobHandle } from "./job-handle.ts";
import { type SubmittedItem, submitMany } from "./submit-many.ts";
import { EndWaiter } from "./wait-end.ts";
import { checkJobId, toJobInfo, toQuery, type WireJob } from "./wire-jobs.ts";

/** A client of a server: the same calls as an engine in this process, and `admin`.
 *  @example
 *  const client: PerdureClient = await Perdure.connect("https://jobs.example.com", { token: "pdr_…" }); */
export class PerdureClient implements Perdure {
  /** What only a server has. */
  readonly admin: Admin;
  readonly #link: ClientHttpLink;
  readonly #waiter: EndWaiter;

  constructor(options: LinkOptions) {
    const link = new ClientHttpLink(options);
    this.#link = link;
    this.admin = adminOf(link);
    this.#waiter = new EndWaiter((jobs, waitMs, signal) =>
      link.json("waitJobs", {
        ...{ body: JSON.stringify({ jobs, waitMs }), heldMs: waitMs, signal },
        ...{ repeatable: true, patienceMs: 0 }, // the waiter has the patience
      }),
    );
  }

  async submit<T extends AnyTask | string>(
    task: T,
    ...[input, options]: SubmitRest<T, SubmitOptions>
  ): Promise<JobHandle<ResultOf<T>>> {
    const checking = checkInput(task, input);
    if (checking !== null) await checking;
    const body = toRequest({ task, input, ...(options === undefined ? {} : { options }) });
    return this.#handle(await this.#link.json("submitJob", { body, repeatable: options?.key !== undefined }));
  }

  async submitMany(
    entries: readonly SubmitEntry[],
    options: { readonly client?: TransactionClient } = {},
  ): Promise<SubmitManyAnswer[]> {
    checkOptions(options, ["client"], "submitMany");
    refuseClient(options.client, "submitMany.client");
    if (!Array.isArray(entries)) {
      throw new ConfigError({ path: "submitMany", given: entries, allowed: "a list of { task, input, options }" });
    }
    const answers = await submitMany(this.#link, entries);
    return answers.map((answer) =>
      answer instanceof PerdureError ? { ok: false, error: answer } : { ok: true, job: this.#handle(answer) },
    );
  }

  upload(source: AsyncIterable<Uint8Array>): Promise<Uploaded> {
    return upload(this.#link, source);
  }

  async job<Output = unknown>(id: string): Promise<JobHandle<Output>> {
    const { chapter } = await this.#ofJob<WireJob>("getJob", id);
    return this.#handle<Output>({ id, chapter, created: false });
  }

  async jobs(filter: JobsFilter = {}): Promise<{ jobs: JobInfo[]; next: string | null }> {
    const query = toQuery(filter);
    if (query === null) return { jobs: [], next: null };
    const { jobs, next } = await this.#link.json<{ jobs: WireJob[]; next: string | null }>("listJobs", { query });
    return { jobs: jobs.map(toJobInfo), next };
  }

  explain(id: string): Promise<Explanation> {
    return this.#ofJob("explainJob", id);
  }

  async outputs(id: string): Promise<JobOutputs> {
    return jobOutputs(this.#link, checkJobId(id));
  }

  events(options: number | FeedOptions = {}): AsyncGenerator<PerdureEvent, void, void> {
    return eventFeed(this.#link, checkFeed(typeof options === "number" ? { after: options } : options));
  }

  async cancel(id: string): Promise<JobInfo> {
    return toJobInfo(await this.#ofJob("cancelJob", id, { repeatable: true }));
  }
  // These are not repeated when a reply was lost: the second might meet what the first has brought about.
  async retry(id: string): Promise<JobInfo> {
    return toJobInfo(await this.#ofJob("retryJob", id));
  }
  async reschedule(id: string, runAt: Date | number): Promise<JobInfo> {
    const body = JSON.stringify({ runAt: toInstant(runAt, "reschedule.runAt") });
    return toJobInfo(await this.#ofJob("rescheduleJob", id, { body }));
  }
  async redrive(id: string, changes: RedriveChanges = {}): Promise<JobInfo> {
    const body = JSON.stringify(toRedriveRequest(changes, "redrive"));
    return toJobInfo(await this.#ofJob("redriveJob", id, { body }));
  }
  async redriveMany(filter: JobsFilter, options: RedriveManyOptions = {}): Promise<RedriveManyAnswer> {
    const asked = checkRedriveMany(filter, options);
    const { order: _, limit, ...which } = asked.filter;
    const changes = toRedriveRequest(options.changes ?? {}, "redriveMany.changes");
    const body = JSON.stringify({ filter: toWireFilter(which), dryRun: asked.dryRun, limit, changes });
    const reply = await this.#link.json<RedriveManyAnswer>("redriveJobs", { body, repeatable: asked.dryRun });
    return { ...reply, skipped: reply.skipped ?? [] }; // an older server names none
  }
  async discard(id: string): Promise<JobInfo> {
    return toJobInfo(await this.#ofJob("discardJob", id));
  }

  queues(page?: PageOptions): Promise<QueueCounts[]> {
    type Reply = { readonly queues: QueueCounts[]; readonly next?: string | null };
    return allPages(page, async (query) => {
      const { queues, next } = await this.#link.json<Reply>("listQueues", { query });
      return { items: queues, next };
    });
  }
  async pause(queue: string): Promise<void> {
    const params = { queue: asText(queue, "pause.queue", 200) };
    return this.#link.json("pauseQueue", { params, repeatable: true });
  }
  async resume(queue: string): Promise<void> {
    const params = { queue: asText(queue, "resume.queue", 200) };
    return this.#link.json("resumeQueue", { params, repeatable: true });
  }

  async workers(page?: PageOptions): Promise<SessionRow[]> {
    type WireSession = Omit<SessionRow, "health"> & { readonly health: WireHealth | null };
    type Reply = { readonly workers: WireSession[]; readonly next?: string | null };
    const found = await allPages(page, async (query) => {
      const { workers, next } = await this.#link.json<Reply>("listWorkers", { query });
      return { items: workers, next };
    });
    return found.map((worker) => ({
      ...worker,
      health: worker.health === null ? null : fromWireHealth(worker.health),
    }));
  }
  async drain(session: string): Promise<void> {
    const params = { session: asText(session, "drain.session", 100) };
    return this.#link.json("drainWorker", { params, repeatable: true });
  }

  async work(_tasks: readonly AnyTask[], _options?: WorkOptions): Promise<WorkerHandle> {
    const message = "a client alone cannot run jobs; in Node, use perdure/worker, or Perdure.open(url) of perdure";
    throw new PerdureError("invalid_config", message, { path: "work" });
  }

  dialectSettings(): Promise<object> {
    return this.#link.json("getDialects");
  }

  async setUsage(id: string, attempt: number, total: Usage): Promise<void> {
    const body = JSON.stringify({ attempt, usage: total });
    return this.#ofJob("setUsage", id, { body, repeatable: true });
  }

  async prune(): Promise<number> {
    return (await this.#link.json<{ jobs: number }>("prune")).jobs;
  }

  /** Ends all waits and calls of this client with the code `closed`. The server goes on. */
  async close(options: { grace?: Duration } = {}): Promise<void> {
    checkGrace(options, "close");
    this.#waiter.close();
    this.#link.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #handle<Output = unknown>({ id, chapter, created }: Omit<SubmittedItem, "state">): JobHandle<Output> {
    return new ClientJobHandle<Output>(this.#link, this.#waiter, id, chapter, created);
  }

  async #ofJob<T = WireJob>(
    name: Parameters<ClientHttpLink["json"]>[0],
    id: string,
    options: ClientCallOptions = {},
  ): Promise<T> {
    return this.#link.json<T>(name, { ...options, params: { id: checkJobId(id) } });
  }
}

interface PageOptions {
  readonly after?: string;
  readonly limit?: number;
}

/** One page, or all of them. A server of an earlier version knows no pages: it sends all of them without `next`, whatever it was
 *  asked, and so nothing comes after any of them. */
async function allPages<T>(
  page: PageOptions | undefined,
  read: (query: URLSearchParams) => Promise<{ readonly items: T[]; readonly next: string | null | undefined }>,
): Promise<T[]> {
  if (page !== undefined) {
    const { items, next } = await read(pageQuery(page));
    return next === undefined && page.after !== undefined ? [] : items;
  }
  const all: T[] = [];
  for (let query = new URLSearchParams(); ; ) {
    const { items, next } = await read(query);
    all.push(...items);
    if (next == null) return all;
    query = new URLSearchParams({ after: next });
  }
}

function pageQuery(page: PageOptions): URLSearchParams {
  const given = Object.entries(page).filter(([, value]) => value !== undefined);
  return new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)]));
}
