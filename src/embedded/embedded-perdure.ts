/** Perdure in your own process: the library's face over an engine, its store and its workers here. */
import { LIMIT } from "../contract/wire.ts";
import {
  checkFeed,
  checkGrace,
  type FeedOptions,
  type JobHandle,
  type JobOutputs,
  type Perdure,
  type RedriveManyAnswer,
  type RedriveManyOptions,
  type SubmitManyAnswer,
  type Uploaded,
} from "../core/api.ts";
import { asText } from "../core/check.ts";
import { type Duration, toInstant } from "../core/duration.ts";
import { ConfigError, PerdureError, show } from "../core/errors.ts";
import type { Explanation } from "../core/explain/explain.ts";
import type { StdinFile } from "../core/input/exec-input.ts";
import { checkInput, checkInputs } from "../core/input/submit-check.ts";
import type { PerdureEvent } from "../core/job/event.ts";
import type { Usage } from "../core/job/job.ts";
import { checkJobsFilter, type JobsFilter } from "../core/job/jobs-filter.ts";
import { type RedriveChanges, toRedriveTerms } from "../core/job/redrive.ts";
import type { JobInfo, QueueCounts, SessionRow } from "../core/job/views.ts";
import {
  type AnyTask,
  isTask,
  type ResultOf,
  type SubmitEntry,
  type SubmitOptions,
  type SubmitRest,
  type TransactionClient,
} from "../core/task/task.ts";
import type { WorkerHandle, WorkOptions } from "../core/task/work-options.ts";
import type { Engine } from "../engine/engine.ts";
import { toInfo } from "../engine/read-job.ts";
import { redriveMany } from "../engine/redrive-many.ts";
import type { SubmitItem } from "../engine/submit-item.ts";
import { policyOf, toItem } from "../engine/submit-item.ts";
import { isId } from "../lib/id.ts";
import { SESSIONS_PAGE } from "../store/store.ts";
import { EmbeddedJobHandle } from "./job-handle.ts";
import { jobOutputs } from "./job-outputs.ts";
import type { LocalWorkerParts } from "./local-worker.ts";
import { checkClient, checkSubmitMany, refuseClient } from "./options.ts";

/** What it is made of, beside its workers. */
export interface EmbeddedParts extends Omit<LocalWorkerParts, "running"> {
  /** Settings of files of other systems, as whoever asks for them reads them. */
  readonly dialects?: object;
  /** Who gives orders through it, for their events; left out, nobody is named. */
  readonly by?: string;
}

export class EmbeddedPerdure implements Perdure {
  readonly #engine: Engine;
  readonly #namespace: string;
  readonly #parts: EmbeddedParts;
  readonly #closeEngine: () => Promise<void>;
  readonly #workers: LocalWorkerParts["running"] = new Set();
  readonly #by: string | null;
  #closed: Promise<void> | null = null;

  /** `closeEngine` stops the engine and closes all that is behind it. */
  constructor(parts: EmbeddedParts, closeEngine: () => Promise<void>) {
    this.#parts = parts;
    this.#engine = parts.engine;
    this.#namespace = parts.namespace;
    this.#by = parts.by ?? null;
    this.#closeEngine = closeEngine;
  }

  async submit<T extends AnyTask | string>(
    task: T,
    ...[input, options]: SubmitRest<T, SubmitOptions>
  ): Promise<JobHandle<ResultOf<T>>> {
    const checking = checkInput(task, input);
    if (checking !== null) await checking;
    const item = toItem({ task, input, ...(options === undefined ? {} : { options }) }, this.#namespace);
    const [answer] = await this.#engine.submit([item], checkClient(options?.client, "submit.client"));
    if (answer?.status !== "ok") throw (answer as { error: PerdureError }).error;
    return new EmbeddedJobHandle(this.#actor, answer.id, answer.chapter, answer.created);
  }

  async submitMany(
    entries: readonly SubmitEntry[],
    options: { readonly client?: TransactionClient } = {},
  ): Promise<SubmitManyAnswer[]> {
    const client = checkSubmitMany(options);
    if (!Array.isArray(entries)) {
      throw new ConfigError({ path: "submitMany", given: entries, allowed: "a list of { task, input, options }" });
    }
    const answers: SubmitManyAnswer[] = new Array(entries.length);
    const items: SubmitItem[] = [];
    const places: number[] = [];
    const refused = await checkInputs(Array.from(entries as readonly SubmitEntry[]));
    Array.from(entries as readonly SubmitEntry[]).forEach((entry, i) => {
      const problem = refused.get(i);
      if (problem !== undefined) {
        answers[i] = { ok: false, error: problem };
        return;
      }
      try {
        refuseClient(entry);
        items.push(toItem(entry, this.#namespace));
        places.push(i);
      } catch (error) {
        if (!(error instanceof PerdureError)) throw error;
        answers[i] = { ok: false, error };
      }
    });
    (await this.#engine.submit(items, client)).forEach((answer, k) => {
      const i = places[k] as number;
      if (answer.status !== "ok") answers[i] = { ok: false, error: answer.error };
      else
        answers[i] = { ok: true, job: new EmbeddedJobHandle(this.#actor, answer.id, answer.chapter, answer.created) };
    });
    return answers;
  }

  async upload(source: AsyncIterable<Uint8Array>): Promise<Uploaded> {
    const id = this.#engine.newUpload();
    await this.#engine.writeUpload(id, 0, source);
    return { id, ...((await this.#engine.readUpload(id)) as StdinFile) };
  }

  async job<Output = unknown>(id: string): Promise<JobHandle<Output>> {
    const { chapter } = await this.#row(id);
    return new EmbeddedJobHandle<Output>(this.#actor, id, chapter, false);
  }

  async jobs(filter: JobsFilter = {}): Promise<{ jobs: JobInfo[]; next: string | null }> {
    const { jobs, next } = await this.#engine.store.find({ namespace: this.#namespace, ...checkJobsFilter(filter) });
    return { jobs: jobs.map(toInfo), next };
  }

  cancel(id: string): Promise<JobInfo> {
    return this.#command(id, { kind: "cancel" });
  }
  retry(id: string): Promise<JobInfo> {
    return this.#command(id, { kind: "retry" });
  }
  async reschedule(id: string, runAt: Date | number): Promise<JobInfo> {
    return this.#command(id, { kind: "reschedule", runAt: toInstant(runAt, "reschedule.runAt") });
  }
  async redrive(id: string, changes: RedriveChanges = {}): Promise<JobInfo> {
    return this.#command(id, { kind: "redrive", changes: toRedriveTerms(changes) });
  }
  async redriveMany(filter: JobsFilter, options: RedriveManyOptions = {}): Promise<RedriveManyAnswer> {
    return redriveMany(this.#engine, this.#namespace, filter, options, this.#by);
  }
  discard(id: string): Promise<JobInfo> {
    return this.#command(id, { kind: "discard" });
  }

  events(options: number | FeedOptions = {}): AsyncGenerator<PerdureEvent, void, void> {
    return this.#engine.events(checkFeed(typeof options === "number" ? { after: options } : options));
  }

  async explain(id: string): Promise<Explanation> {
    await this.#row(id);
    return this.#engine.explain(id);
  }

  /** By the clock that the instants of this store are of. */
  storeNow(): number {
    return this.#engine.clock.now();
  }

  async queues(page?: { readonly after?: string; readonly limit?: number }): Promise<QueueCounts[]> {
    const all = await this.#engine.store.counts(this.#namespace, this.#engine.clock.now());
    if (page === undefined) return all;
    const { after = "", limit = LIMIT.queues } = page;
    return all.filter(({ queue }) => queue > after).slice(0, limit); // they are sorted by their names
  }
  async pause(queue: string): Promise<void> {
    return this.#engine.setPaused(this.#namespace, asText(queue, "pause.queue", 200), true, this.#by);
  }
  async resume(queue: string): Promise<void> {
    return this.#engine.setPaused(this.#namespace, asText(queue, "resume.queue", 200), false, this.#by);
  }

  async workers(page?: { readonly after?: string; readonly limit?: number }): Promise<SessionRow[]> {
    if (page !== undefined) return this.#engine.store.sessions({ namespace: this.#namespace, ...page });
    const all: SessionRow[] = [];
    for (;;) {
      const query = { namespace: this.#namespace, after: all.at(-1)?.id ?? null };
      const page = await this.#engine.store.sessions(query);
      all.push(...page);
      if (page.length < SESSIONS_PAGE) return all;
    }
  }

  async drain(session: string): Promise<void> {
    // A worker of another namespace is not there.
    const found = await this.#engine.store.session(session);
    if (found?.namespace !== this.#namespace || (await this.#engine.drainSession(session, this.#by)) === "unknown") {
      throw new PerdureError("not_found", `no worker has the session ${show(session)}, or it ended long ago`);
    }
  }

  async outputs(id: string): Promise<JobOutputs> {
    await this.#row(id);
    return jobOutputs(this.#parts.blobs, this.#engine.store, id);
  }

  async dialectSettings(): Promise<object> {
    return this.#parts.dialects ?? {};
  }

  async setUsage(id: string, attempt: number, total: Usage): Promise<void> {
    await this.#row(id);
    if (await this.#engine.setUsage(id, attempt, total)) return;
    throw new PerdureError("lease_lost", `run ${attempt} of ${id} is over, or was never begun`);
  }

  prune(): Promise<number> {
    return this.#engine.prune(this.#by ?? undefined);
  }

  async work(tasks: readonly AnyTask[], options: WorkOptions = {}): Promise<WorkerHandle> {
    if (this.#closed !== null) throw new PerdureError("closed", "the engine is closed, or about to be");
    if (Array.isArray(tasks)) for (const task of tasks) if (isTask(task)) policyOf(task);
    // Who only submits and looks needs nothing of it.
    const { startWorker } = await import("./local-worker.ts");
    return startWorker({ ...this.#parts, running: this.#workers }, tasks, options);
  }

  /** Stops the workers as `stop` does, then the engine, then the store. */
  async close(options: { grace?: Duration } = {}): Promise<void> {
    this.#closed ??= this.#close(checkGrace(options, "close"));
    return this.#closed;
  }

  async #close(graceMs: number): Promise<void> {
    try {
      await Promise.all([...this.#workers].map((worker) => worker.stop(graceMs)));
    } finally {
      // A worker that cannot end its session, as on a broken disk, must not keep the rest open.
      await this.#closeEngine();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  get #actor() {
    return { engine: this.#engine, by: this.#by };
  }

  async #command(id: string, command: Parameters<Engine["command"]>[1]): Promise<JobInfo> {
    await this.#row(id);
    return toInfo((await this.#engine.command(id, { ...command, by: command.by ?? this.#by })).job);
  }

  /** A job of another namespace is not there. */
  async #row(id: string) {
    const [row] = await this.#engine.store.jobs([checkId(id)]);
    if (row?.namespace !== this.#namespace)
      throw new PerdureError("job_not_found", `no job has the id ${id}, or it was pruned`);
    return row;
  }
}

function checkId(id: string): string {
  if (typeof id === "string" && isId(id, "job")) return id;
  throw new PerdureError("job_not_found", `${show(id)} is not a job id; ids look like job_ and 26 characters`);
}
