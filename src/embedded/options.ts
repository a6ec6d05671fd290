/** The options of the library, checked: a misspelt one is an error with the nearest known name, never ignored. */
import { asBoolean, asInteger, asList, asObject, asOneOf, asText, checkKeys, isPlain } from "../core/check.ts";
import { type Duration, toMs } from "../core/duration.ts";
import { ConfigError } from "../core/errors.ts";
import { JOB_STATES, type JobState } from "../core/job.ts";
import type { PolicyInput } from "../core/policy.ts";
import type { AnyTask, TaskOptions } from "../core/task.ts";
import type { FeedOptions } from "../engine/event-feed.ts";
import type { Retention } from "../engine/pruner.ts";
import type { JobFilter, TransactionClient } from "../store/store.ts";
import type { OutputChunk } from "../worker/exec/exec-executor.ts";

export interface OpenOptions {
  /** A file, `sqlite:FILE`, `:memory:`, or `postgres://user:password@host:port/database`.
   *  Default: the file `.perdure/perdure.db` in the working directory. */
  url?: string;
  /** PostgreSQL: the schema that holds the tables; it is made if it is not there. Default: `perdure`. */
  schema?: string;
  /** PostgreSQL: connections of the pool; two more are used for renewals and for listening. Default: 8. */
  connections?: number;
  namespace?: string;
  /** Where commands leave their logs and files. Default: `artifacts` beside the database file; with PostgreSQL,
   *  `.perdure/artifacts` in the working directory. */
  artifacts?: string;
  /** How long a worker may be silent before its jobs are given to others. */
  lease?: Duration;
  /** How long ended jobs are kept; false keeps them for ever. */
  retention?: { succeeded?: Duration | false; failed?: Duration | false; cancelled?: Duration | false };
  /** How long a submit key keeps its meaning after its job has ended. */
  keyWindow?: Duration;
  /** Warnings and errors of the engine; the default writes errors to stderr. */
  logger?: (level: "error" | "warn" | "info", message: string) => void;
}

export interface SubmitOptions {
  /** At most one job per key: a second submit with the same body finds the first. */
  key?: string;
  queue?: string;
  /** 0 (first) to 9; default 5. */
  priority?: number;
  delay?: Duration;
  runAt?: Date | number;
  tags?: readonly string[];
  timeout?: Duration;
  /** How long it may be due without being started. */
  expireIn?: Duration;
  /** No run may start after this instant. */
  deadline?: Date | number;
  retry?: PolicyInput;
  /** Labels a worker must have. */
  labels?: Readonly<Record<string, string>>;
  /** PostgreSQL: a client of the `pg` package inside a transaction of yours on the same database. The job is stored with
   *  that transaction: there when it commits, never there if it is rolled back. */
  client?: TransactionClient;
}

/** One of the jobs that `submitMany` stores. */
export interface SubmitEntry {
  readonly task: AnyTask | string;
  readonly input?: unknown;
  readonly options?: Omit<SubmitOptions, "client">;
}

export interface WorkOptions {
  /** Handlers at a time; default 10. */
  concurrency?: number;
  /** Default: all queues of the namespace. */
  queues?: readonly string[];
  /** Shown to people; default host and process id. */
  name?: string;
  labels?: Readonly<Record<string, string>>;
  /** How long a handler may go on after it was asked to stop; default 5 s. */
  stopGrace?: Duration;
  /** For commands: names such as PATH or LD_PRELOAD that jobs may set, or "*" for all. */
  allowEnv?: readonly string[];
  /** For commands: each in a pid namespace of its own, where it can be had (Linux, as root): then nothing that it started
   *  can outlive it. Without privileges they are found by a mark in their environment. */
  isolate?: boolean;
  /** For requests: loopback and private addresses that they may reach, as in ["127.0.0.1", "10.0.0.0/8"]. */
  allowAddresses?: readonly string[];
  /** Sees what commands write, as it comes. A promise holds the command up until it resolves. */
  onOutput?: (chunk: OutputChunk) => Promise<void> | undefined;
}

const OPEN_KEYS = [
  "url",
  "schema",
  "connections",
  "namespace",
  "artifacts",
  "lease",
  "retention",
  "keyWindow",
  "logger",
] as const;
const RETENTION_KEYS = ["succeeded", "failed", "cancelled"] as const;
const SUBMIT_KEYS = [
  ...["key", "queue", "priority", "delay", "runAt", "tags", "timeout", "expireIn", "deadline", "retry", "labels"],
  "client",
];
const WORK_KEYS = [
  ...["concurrency", "queues", "name", "labels", "stopGrace", "allowEnv", "isolate", "allowAddresses", "onOutput"],
];
const TASK_KEYS = ["retry", "timeout", "queue", "priority", "expireIn"];
const FILTER_KEYS = [
  ...["state", "kind", "queue", "tag", "key", "deadLetter", "submittedAfter", "submittedBefore", "order", "limit"],
  "cursor",
];

/** Of one job's events; of all events, also `jobId`. */
export const JOB_FEED_KEYS = ["after", "follow", "signal"];
const FEED_KEYS = [...JOB_FEED_KEYS, "jobId"];

const MIN_LEASE_MS = 300;

export function checkOpen(options: OpenOptions) {
  checkOptions(options, OPEN_KEYS, "open");
  const leaseMs = options.lease === undefined ? undefined : toMs(options.lease, "open.lease");
  if (leaseMs !== undefined && leaseMs < MIN_LEASE_MS) {
    throw new ConfigError({ path: "open.lease", given: options.lease, allowed: `at least ${MIN_LEASE_MS} ms` });
  }
  if (options.logger !== undefined && typeof options.logger !== "function") {
    throw new ConfigError({ path: "open.logger", given: options.logger, allowed: "a function of level and message" });
  }
  const { connections } = options;
  return {
    leaseMs,
    schema: options.schema === undefined ? undefined : asText(options.schema, "open.schema", 63),
    connections:
      connections === undefined ? undefined : asInteger(connections, "open.connections", { min: 1, max: 1_000 }),
    namespace: options.namespace === undefined ? "default" : asText(options.namespace, "open.namespace", 200),
    retention: options.retention === undefined ? undefined : options.retention,
    keyWindowMs: options.keyWindow === undefined ? undefined : toMs(options.keyWindow, "open.keyWindow"),
  };
}

export function checkRetention(given: OpenOptions["retention"], defaults: Retention): Retention {
  if (given === undefined) return defaults;
  checkKeys(asObject(given, "open.retention"), RETENTION_KEYS, "open.retention");
  const kept = (state: (typeof RETENTION_KEYS)[number]) => {
    const value = given[state];
    if (value === undefined) return defaults[state];
    return value === false ? null : toMs(value, `open.retention.${state}`);
  };
  return { succeeded: kept("succeeded"), failed: kept("failed"), cancelled: kept("cancelled") };
}

/** Options of any call: callers without types may give a list, a URL or nothing at all. */
function checkOptions(options: object, known: readonly string[], path: string): void {
  if (!isPlain(options)) throw new ConfigError({ path, given: options, allowed: "an object of options" });
  checkKeys(options, known, path);
}

const ENTRY_KEYS = ["task", "input", "options"];

export function checkEntry(entry: SubmitEntry): SubmitEntry {
  const task = entry?.task;
  if (typeof task === "string" || isTask(task)) {
    checkKeys(entry, ENTRY_KEYS, "submitMany");
    return entry;
  }
  throw new ConfigError({
    path: "submit.task",
    given: task,
    allowed: "a task made with task(), or the name of a kind",
  });
}

export function isTask(value: unknown): value is AnyTask {
  const { kind, options, handler } = (value ?? {}) as Partial<AnyTask>;
  return typeof kind === "string" && typeof options === "object" && typeof handler === "function";
}

export function checkSubmit(options: SubmitOptions): void {
  checkOptions(options, SUBMIT_KEYS, "submit");
  if (options.delay !== undefined && options.runAt !== undefined) {
    const allowed = "either delay or runAt, not both";
    throw new ConfigError({ path: "submit.delay", given: options.delay, allowed });
  }
  if (options.key !== undefined) asText(options.key, "submit.key", 500);
  if (options.queue !== undefined) asText(options.queue, "submit.queue", 200);
  if (options.priority !== undefined) asInteger(options.priority, "submit.priority", { min: 0, max: 9 });
  if (options.tags !== undefined) asList(options.tags, "submit.tags", (tag, path) => asText(tag, path, 200), 20);
  if (options.labels !== undefined) asObject(options.labels, "submit.labels");
}

const CLIENT = "a client of the pg package, with a transaction begun";

export function checkClient(client: unknown, path: string): TransactionClient | undefined {
  if (client === undefined) return undefined;
  const { query, totalCount } = (client ?? {}) as { query?: unknown; totalCount?: unknown };
  if (typeof totalCount === "number") {
    const allowed = "one client of the pool (await pool.connect()), with a transaction begun";
    throw new ConfigError({ path, given: "a pool", problem: "a pool has no transaction", allowed });
  }
  if (typeof query === "function") return client as TransactionClient;
  throw new ConfigError({ path, given: client, allowed: CLIENT });
}

/** One transaction serves the whole list. */
export function checkSubmitMany(options: { readonly client?: TransactionClient }): TransactionClient | undefined {
  checkOptions(options, ["client"], "submitMany");
  return checkClient(options.client, "submitMany.client");
}

/** Of an entry of a list. */
export function refuseClient(entry: SubmitEntry): void {
  const { client } = (entry?.options ?? {}) as SubmitOptions;
  if (client === undefined) return;
  const allowed = "submitMany(entries, { client }): one transaction for the whole list";
  throw new ConfigError({ path: "submitMany.options.client", given: "a client", allowed });
}

export function checkTask(kind: string, options: TaskOptions): void {
  const path = `task ${kind}`;
  checkKeys(options, TASK_KEYS, path);
  if (options.timeout !== undefined) asSpan(options.timeout, `${path}: timeout`);
  if (options.expireIn !== undefined) asSpan(options.expireIn, `${path}: expireIn`);
  if (options.queue !== undefined) asText(options.queue, `${path}: queue`, 200);
  if (options.priority !== undefined) asInteger(options.priority, `${path}: priority`, { min: 0, max: 9 });
}

/** A duration that is some time at all: nothing can be done, or waited for, within 0 ms. */
export function asSpan(value: unknown, path: string): number {
  const ms = toMs(value, path);
  if (ms > 0) return ms;
  throw new ConfigError({ path, given: value, allowed: "a duration of at least 1 ms" });
}

export function checkWork(options: WorkOptions) {
  checkOptions(options, WORK_KEYS, "work");
  const { concurrency = 10, queues, name, labels = {}, stopGrace = "5s", onOutput } = options;
  const { allowEnv = [], allowAddresses = [], isolate = false } = options;
  if (onOutput !== undefined && typeof onOutput !== "function") {
    throw new ConfigError({ path: "work.onOutput", given: onOutput, allowed: "a function of a chunk of output" });
  }
  return {
    onOutput,
    isolate: asBoolean(isolate, "work.isolate"),
    allowEnv: asList(allowEnv, "work.allowEnv", (each, path) => asText(each, path, 200), 1_000),
    allowAddresses: asList(allowAddresses, "work.allowAddresses", (each, path) => asText(each, path, 200), 1_000),
    slots: asInteger(concurrency, "work.concurrency", { min: 1, max: 100_000 }),
    queues: queues === undefined ? null : asList(queues, "work.queues", (q, path) => asText(q, path, 200), 1_000, 1),
    name: name === undefined ? null : asText(name, "work.name", 200),
    labels: checkedLabels(labels),
    stopGraceMs: toMs(stopGrace, "work.stopGrace"),
  };
}

function checkedLabels(labels: Readonly<Record<string, string>>): Record<string, string> {
  const entries = Object.entries(asObject(labels, "work.labels"));
  return Object.fromEntries(entries.map(([name, value]) => [name, asText(value, `work.labels.${name}`, 200)]));
}

export interface JobsFilter {
  state?: JobState | readonly JobState[];
  kind?: string | readonly string[];
  queue?: string | readonly string[];
  tag?: string;
  key?: string;
  /** Only jobs that failed and wait for a person. */
  deadLetter?: boolean;
  submittedAfter?: Date | number;
  submittedBefore?: Date | number;
  order?: "newest" | "oldest";
  /** Up to 1000; default 100. */
  limit?: number;
  cursor?: string;
}

export function checkFilter(filter: JobsFilter, namespace: string): JobFilter {
  checkOptions(filter, FILTER_KEYS, "jobs");
  const many = <T extends string>(value: T | readonly T[]): readonly T[] =>
    typeof value === "string" ? [value] : value;
  const text = (value: unknown, path: string) => asText(value, path, 500);
  return {
    namespace,
    ...(filter.state === undefined
      ? {}
      : { state: asList(many(filter.state), "jobs.state", (s, path) => asOneOf(s, JOB_STATES, path), 6) }),
    ...(filter.kind === undefined ? {} : { kind: asList(many(filter.kind), "jobs.kind", text, 1_000) }),
    ...(filter.queue === undefined ? {} : { queue: asList(many(filter.queue), "jobs.queue", text, 1_000) }),
    ...(filter.tag === undefined ? {} : { tag: text(filter.tag, "jobs.tag") }),
    ...(filter.key === undefined ? {} : { key: text(filter.key, "jobs.key") }),
    ...(filter.deadLetter === undefined ? {} : { deadLetter: asBoolean(filter.deadLetter, "jobs.deadLetter") }),
    ...(filter.submittedAfter === undefined
      ? {}
      : { submittedAfter: toInstant(filter.submittedAfter, "jobs.submittedAfter") }),
    ...(filter.submittedBefore === undefined
      ? {}
      : { submittedBefore: toInstant(filter.submittedBefore, "jobs.submittedBefore") }),
    ...(filter.order === undefined
      ? {}
      : { order: asOneOf(filter.order, ["newest", "oldest"] as const, "jobs.order") }),
    ...(filter.limit === undefined ? {} : { limit: asInteger(filter.limit, "jobs.limit", { min: 1, max: 1_000 }) }),
    ...(filter.cursor === undefined ? {} : { cursor: asText(filter.cursor, "jobs.cursor", 1_000) }),
  };
}

/** How long to wait for a result; null for as long as it takes. */
export function checkResult(options: { timeout?: Duration; signal?: AbortSignal }): number | null {
  checkOptions(options, ["timeout", "signal"], "result");
  checkSignal(options.signal, "result.signal");
  return options.timeout === undefined ? null : toMs(options.timeout, "result.timeout");
}

export function checkFeed(options: FeedOptions, known: readonly string[] = FEED_KEYS): FeedOptions {
  checkOptions(options, known, "events");
  if (options.after !== undefined) asInteger(options.after, "events.after", { min: 0 });
  if (options.follow !== undefined) asBoolean(options.follow, "events.follow");
  if (options.jobId !== undefined) asText(options.jobId, "events.jobId", 200);
  checkSignal(options.signal, "events.signal");
  return options;
}

function checkSignal(signal: unknown, path: string): void {
  if (signal === undefined || signal instanceof AbortSignal) return;
  throw new ConfigError({ path, given: signal, allowed: "an AbortSignal" });
}

const DEFAULT_GRACE = "30s";

export function checkGrace(options: { grace?: Duration }, path: string): number {
  checkOptions(options, ["grace"], path);
  return toMs(options.grace ?? DEFAULT_GRACE, `${path}.grace`);
}

export function toInstant(value: unknown, path: string): number {
  const ms = value instanceof Date ? value.getTime() : value;
  if (typeof ms === "number" && Number.isFinite(ms) && ms >= 0 && ms <= 8.64e15) return Math.round(ms);
  throw new ConfigError({ path, given: value, allowed: "a Date, or milliseconds since 1970 (UTC)" });
}
