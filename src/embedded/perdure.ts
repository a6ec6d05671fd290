/** Perdure in your own process: `Perdure.open()` wires store, engine and workers together. */
import { randomBytes, randomFillSync } from "node:crypto";
import { hostname } from "node:os";
import { asText } from "../core/check.ts";
import { toMs } from "../core/duration.ts";
import { ConfigError, PerdureError, show } from "../core/errors.ts";
import type { PerdureEvent } from "../core/event.ts";
import type { Explanation } from "../core/explain.ts";
import type { Mutable } from "../core/mutable.ts";
import type { Policy, PolicyInput } from "../core/policy.ts";
import { resolvePolicy } from "../core/resolve-policy.ts";
import type { AnyTask, Task, TaskOptions } from "../core/task.ts";
import { NO_INPUT } from "../core/work.ts";
import { systemClock } from "../engine/clock.ts";
import { Engine, type Log } from "../engine/engine.ts";
import type { FeedOptions } from "../engine/event-feed.ts";
import { DEFAULTS } from "../engine/limits.ts";
import type { SubmitItem } from "../engine/submit.ts";
import { type Clock, sleep } from "../lib/clock.ts";
import { idMaker, isId } from "../lib/id.ts";
import { directoryBlobs } from "../store/directory-blobs.ts";
import { openStore } from "../store/open.ts";
import type { QueueCounts, SessionRow, Store, TransactionClient } from "../store/store.ts";
import { checkBuiltin } from "./check-builtin.ts";
import { JobHandle } from "./job-handle.ts";
import { type JobInfo, toInfo } from "./job-info.ts";
import { artifactsDir, type JobOutputs, jobOutputs } from "./job-outputs.ts";
import type { JobsFilter, OpenOptions, SubmitEntry, SubmitOptions, WorkOptions } from "./options.ts";
import {
  asSpan,
  checkClient,
  checkEntry,
  checkFeed,
  checkFilter,
  checkGrace,
  checkOpen,
  checkRetention,
  checkSubmit,
  checkSubmitMany,
  checkTask,
  isTask,
  refuseClient,
  toInstant,
} from "./options.ts";
import { hasEnded } from "./process-proof.ts";
import { startWorker, type WorkerHandle, type WorkerParts } from "./start-worker.ts";
import { storeClock } from "./store-clock.ts";

/** Outside the options: what tests replace. */
export interface Ambient {
  readonly clock: Clock;
  readonly random: () => number;
  /** Sees every call of the store. */
  readonly wrapStore?: (store: Store) => Store;
}

export type SubmitManyAnswer =
  | { readonly ok: true; readonly job: JobHandle<unknown> }
  | { readonly ok: false; readonly error: PerdureError };

export class Perdure implements AsyncDisposable {
  readonly #engine: Engine;
  readonly #namespace: string;
  readonly #parts: Omit<WorkerParts, "running">;
  readonly #stopClock: () => void;
  readonly #removeOutputs: () => Promise<void>;
  readonly #workers: WorkerParts["running"] = new Set();
  #closed: Promise<void> | null = null;

  private constructor(parts: Omit<WorkerParts, "running">, stopClock: () => void, removeOutputs: () => Promise<void>) {
    this.#removeOutputs = removeOutputs;
    this.#parts = parts;
    this.#engine = parts.engine;
    this.#namespace = parts.namespace;
    this.#stopClock = stopClock;
  }

  /** Opens a store and starts an engine on it. `Perdure.open()` uses the file `.perdure/perdure.db`. */
  static async open(urlOrOptions: string | OpenOptions = {}, ambient?: Ambient): Promise<Perdure> {
    const options = typeof urlOrOptions === "string" ? { url: urlOrOptions } : urlOrOptions;
    const { leaseMs, namespace, retention, keyWindowMs, schema, connections } = checkOpen(options);
    const kept = checkRetention(retention, DEFAULTS.retention);
    const { clock: base, random, wrapStore } = ambient ?? ({ clock: systemClock, random: Math.random } as Ambient);
    const log = guarded(options.logger ?? errorsToStderr);
    const newSecret = () => randomBytes(24).toString("base64url");
    const tell = (message: string) => log("error", message);
    const artifacts = artifactsDir(options);
    const blobs = directoryBlobs(artifacts.dir);
    const opened = await openStore({ url: options.url, schema, connections, clock: base, random, newSecret, tell });
    const store = wrapStore === undefined ? opened : wrapStore(opened);
    const shared = await storeClock(base, store, (message) => log("warn", message)).catch(async (error: unknown) => {
      await store.close();
      throw error;
    });
    const { clock } = shared;
    const newId = idMaker({ now: clock.now, randomBytes: (bytes) => randomFillSync(bytes) });
    const engine = new Engine({
      ...{ store, clock, random, newId, log, retention: kept, name: `${hostname()}-${process.pid}` },
      ...{ isGone: hasEnded, outputs: blobs },
      ...(leaseMs === undefined ? {} : { leaseMs }),
      ...(keyWindowMs === undefined ? {} : { keyWindowMs }),
    });
    engine.start();
    return new Perdure({ engine, namespace, log, blobs }, shared.stop, artifacts.remove);
  }

  /** Stores a job; it is durable when the promise resolves. The input's type comes from the task alone: inferred from
   *  the argument as well, a misspelt optional field would make a new type and pass. */
  submit<Input, Output>(
    task: Task<Input, Output>,
    ...rest: undefined extends Input
      ? [input?: NoInfer<Input>, options?: SubmitOptions]
      : [input: NoInfer<Input>, options?: SubmitOptions]
  ): Promise<JobHandle<Output>>;
  submit(kind: string, input?: unknown, options?: SubmitOptions): Promise<JobHandle<unknown>>;
  async submit(task: AnyTask | string, input?: unknown, options?: SubmitOptions): Promise<JobHandle<unknown>> {
    const item = this.#toItem({ task, input, ...(options === undefined ? {} : { options }) });
    const [answer] = await this.#engine.submit([item], checkClient(options?.client, "submit.client"));
    if (answer?.status !== "ok") throw (answer as { error: PerdureError }).error;
    return new JobHandle(this.#engine, answer.id, answer.chapter, answer.created);
  }

  /** Stores many jobs, each answered for itself, in the order given. With `client`, all within its transaction. */
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
    Array.from(entries as readonly SubmitEntry[]).forEach((entry, i) => {
      try {
        refuseClient(entry);
        items.push(this.#toItem(entry));
        places.push(i);
      } catch (error) {
        if (!(error instanceof PerdureError)) throw error;
        answers[i] = { ok: false, error };
      }
    });
    (await this.#engine.submit(items, client)).forEach((answer, k) => {
      const i = places[k] as number;
      if (answer.status !== "ok") answers[i] = { ok: false, error: answer.error };
      else answers[i] = { ok: true, job: new JobHandle(this.#engine, answer.id, answer.chapter, answer.created) };
    });
    return answers;
  }

  /** A handle on a job by its id. Throws `job_not_found`. */
  async job<Output = unknown>(id: string): Promise<JobHandle<Output>> {
    const { chapter } = await this.#row(id);
    return new JobHandle<Output>(this.#engine, id, chapter, false);
  }

  /** Jobs of this namespace that fit, newest first, a page at a time: pass `next` as `cursor` for the page after. */
  async jobs(filter: JobsFilter = {}): Promise<{ jobs: JobInfo[]; next: string | null }> {
    const { jobs, next } = await this.#engine.store.find(checkFilter(filter, this.#namespace));
    return { jobs: jobs.map(toInfo), next };
  }

  /** Ends a job: at once if it waits, by its signal if it runs. */
  cancel(id: string): Promise<JobInfo> {
    return this.#command(id, { kind: "cancel" });
  }
  /** Runs a waiting job now; redrives a failed or cancelled one. */
  retry(id: string): Promise<JobInfo> {
    return this.#command(id, { kind: "retry" });
  }
  /** Moves a waiting job to another time. */
  async reschedule(id: string, runAt: Date | number): Promise<JobInfo> {
    return this.#command(id, { kind: "reschedule", runAt: toInstant(runAt, "reschedule.runAt") });
  }
  /** Opens the next chapter of a failed or cancelled job, with fresh budgets. */
  redrive(id: string): Promise<JobInfo> {
    return this.#command(id, { kind: "redrive" });
  }
  /** Takes a failed job out of the dead letters. */
  discard(id: string): Promise<JobInfo> {
    return this.#command(id, { kind: "discard" });
  }

  /** Events of all jobs and of the engine, from `after` (an event's `seq`) on; with `follow`, those to come too. */
  events(options: number | FeedOptions = {}): AsyncGenerator<PerdureEvent, void, void> {
    return this.#engine.events(checkFeed(typeof options === "number" ? { after: options } : options));
  }

  async explain(id: string): Promise<Explanation> {
    await this.#row(id);
    return this.#engine.explain(id);
  }

  /** The queues of this namespace with their counts. */
  queues(): Promise<QueueCounts[]> {
    return this.#engine.store.counts(this.#namespace, this.#engine.clock.now());
  }
  /** Jobs of a paused queue are not started; running ones go on. */
  async pause(queue: string): Promise<void> {
    return this.#engine.setPaused(this.#namespace, asText(queue, "pause.queue", 200), true);
  }
  async resume(queue: string): Promise<void> {
    return this.#engine.setPaused(this.#namespace, asText(queue, "resume.queue", 200), false);
  }

  /** Workers that are alive or ended lately. */
  async workers(): Promise<SessionRow[]> {
    const sessions = await this.#engine.store.sessions();
    return sessions.filter((session) => session.namespace === this.#namespace);
  }

  /** What the attempts of a job left: their logs and files. */
  async outputs(id: string): Promise<JobOutputs> {
    await this.#row(id);
    return jobOutputs(this.#parts.blobs, id);
  }

  /** Deletes now what the pruner would delete within a minute. */
  prune(): Promise<number> {
    return this.#engine.prune();
  }

  /** Starts a worker in this process for these tasks. */
  async work(tasks: readonly AnyTask[], options: WorkOptions = {}): Promise<WorkerHandle> {
    if (this.#closed !== null) throw new PerdureError("closed", "the engine is closed, or about to be");
    if (Array.isArray(tasks)) for (const task of tasks) if (isTask(task)) this.#policyOf(task);
    return startWorker({ ...this.#parts, running: this.#workers }, tasks, options);
  }

  /** Stops the workers as `stop` does, then the engine, then the store. */
  async close(options: { grace?: string | number } = {}): Promise<void> {
    this.#closed ??= this.#close(checkGrace(options, "close"));
    return this.#closed;
  }

  async #close(graceMs: number): Promise<void> {
    try {
      await Promise.all([...this.#workers].map((worker) => worker.stop(graceMs)));
    } finally {
      // A worker that cannot end its session, as on a broken disk, must not keep the rest open.
      const stopping = this.#engine.stop();
      // A round that waits for a silent server ends when the store does.
      await Promise.race([stopping, sleep(this.#engine.clock, STOP_WAIT_MS, { background: true })]);
      this.#stopClock();
      await this.#engine.store.close();
      this.#engine.wake(); // and finds it closed
      await stopping;
      await this.#removeOutputs();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #command(id: string, command: Parameters<Engine["command"]>[1]): Promise<JobInfo> {
    await this.#row(id);
    return toInfo((await this.#engine.command(id, command)).job);
  }

  /** A job of another namespace is not there. */
  async #row(id: string) {
    const [row] = await this.#engine.store.jobs([checkId(id)]);
    if (row?.namespace !== this.#namespace)
      throw new PerdureError("job_not_found", `no job has the id ${id}, or it was pruned`);
    return row;
  }

  #toItem(entry: SubmitEntry): SubmitItem {
    const { task, input, options = {} } = checkEntry(entry);
    checkSubmit(options);
    const defaults: TaskOptions = typeof task === "string" ? {} : task.options;
    const policy = typeof task === "string" ? DEFAULT_POLICY : this.#policyOf(task);
    // An option that was given as undefined counts as not given.
    checkBuiltin(task, input);
    const { queue = defaults.queue, priority = defaults.priority, timeout = defaults.timeout } = options;
    const { expireIn = defaults.expireIn, delay, runAt, deadline, key, tags, labels } = options;
    const item: Mutable<SubmitItem> = {
      kind: typeof task === "string" ? task : task.kind,
      payload: toJson(input),
      policy: options.retry === undefined ? policy : resolved(options.retry),
      namespace: this.#namespace,
    };
    if (queue !== undefined) item.queue = queue;
    if (priority !== undefined) item.priority = priority;
    if (timeout !== undefined) item.timeoutMs = asSpan(timeout, "submit.timeout");
    if (expireIn !== undefined) item.expireInMs = asSpan(expireIn, "submit.expireIn");
    if (delay !== undefined) item.delayMs = toMs(delay, "submit.delay");
    if (runAt !== undefined) item.runAt = toInstant(runAt, "submit.runAt");
    if (deadline !== undefined) item.deadlineAt = toInstant(deadline, "submit.deadline");
    if (key !== undefined) item.key = key;
    if (tags !== undefined) item.tags = tags;
    if (labels !== undefined) item.labels = labels;
    return item;
  }

  /** A task's policy, resolved and checked once. */
  #policyOf(task: AnyTask): Policy {
    let policy = taskPolicies.get(task);
    if (policy === undefined) {
      checkTask(task.kind, task.options);
      policy = resolvePolicy(task.options.retry, `task ${task.kind}: retry`);
      taskPolicies.set(task, policy);
    }
    return policy;
  }
}

const STOP_WAIT_MS = 5_000;
const taskPolicies = new WeakMap<AnyTask, Policy>();
const inputPolicies = new WeakMap<object, Policy>();
const DEFAULT_POLICY = resolvePolicy();

/** The same object given again, as in a loop of submits, is resolved once. */
function resolved(input: PolicyInput): Policy {
  if (typeof input !== "object" || input === null) return resolvePolicy(input, "submit.retry");
  let policy = inputPolicies.get(input);
  if (policy === undefined) {
    policy = resolvePolicy(input, "submit.retry");
    if (Object.isFrozen(input)) inputPolicies.set(input, policy);
  }
  return policy;
}

function toJson(input: unknown): string {
  if (input === undefined) return NO_INPUT;
  let text: string | undefined;
  try {
    text = JSON.stringify(input);
  } catch (cause) {
    const message = `payload: not JSON: ${(cause instanceof Error ? cause.message : show(cause)).split("\n")[0]}`;
    throw new PerdureError("invalid_payload", message, { path: "payload", cause });
  }
  if (text === undefined) {
    throw new PerdureError("invalid_payload", `payload: a ${typeof input} is not JSON`, { path: "payload" });
  }
  return text;
}

function checkId(id: string): string {
  if (typeof id === "string" && isId(id, "job")) return id;
  throw new PerdureError("job_not_found", `${show(id)} is not a job id; ids look like job_ and 26 characters`);
}

/** A logger that throws must not end what it was told of. */
function guarded(logger: Log): Log {
  return (level, message) => {
    try {
      logger(level, message);
    } catch {
      // There is nobody else to tell.
    }
  };
}

const errorsToStderr: Log = (level, message) => {
  if (level === "error") console.error(`perdure: ${message}`);
};
