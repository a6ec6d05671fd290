/** A stage for tests that follow the sources' documents: the real engine on a real store, with virtual time, and a worker that
 *  the test controls. Nothing happens by itself: the test advances time, and the reaper runs at its normal interval.
 *
 *  Each job submitted here without a queue gets its own queue, so that a claim returns exactly that job. Commands are not run:
 *  the test sets how they end, in the form that a worker reports. */
import { randomBytes, randomFillSync } from "node:crypto";
import type { constants } from "node:os";
import { onTestFinished } from "vitest";
import { failure } from "../../src/core/decision/failure.ts";
import { showMs } from "../../src/core/duration.ts";
import type { JobEvent } from "../../src/core/job/event.ts";
import { isTerminal, type Usage } from "../../src/core/job/job.ts";
import type { JobInfo } from "../../src/core/job/views.ts";
import { NO_INPUT, type ReportedOutcome } from "../../src/core/worker-protocol.ts";
import type { Dialect, ReadContext, ReadEntry, ViewParts } from "../../src/dialects/dialect.ts";
import { DIALECT_DEFAULTS } from "../../src/dialects/settings.ts";
import { checkBuiltin } from "../../src/engine/check-builtin.ts";
import { Engine } from "../../src/engine/engine.ts";
import type { EngineOptions } from "../../src/engine/parts.ts";
import { lastAttempts, toInfo } from "../../src/engine/read-job.ts";
import { toSubmitItem } from "../../src/engine/submit-item.ts";
import { idMaker } from "../../src/lib/id.ts";
import { systemClock } from "../../src/lib/system-clock.ts";
import { openStore } from "../../src/store/open.ts";
import type { Store } from "../../src/store/store.ts";
import { VirtualClock } from "../../src/testing/virtual-clock.ts";
import { endOf } from "../../src/worker/exec/outcome.ts";
import { stderrSummary } from "../../src/worker/exec/stderr-summary.ts";
import { readYaml } from "../../src/yaml/read.ts";
import { borrowSchema } from "../postgres/borrowed.ts";
import { inFull } from "../tier.ts";

export type StoreName = "sqlite" | "postgres";
/** The conformance suite shows that both stores behave the same, so only the full tier tests both here. */
export const STORES = inFull<StoreName>(["sqlite", "postgres"]);

/** How an attempt ends. */
export type Play =
  | "ok"
  /** The worker goes silent and its lease expires: detected one millisecond after its end. */
  | "lost"
  /** The process of the worker is known to have ended: lost at once. */
  | "gone"
  /** It runs as long as the job's timeout allows, unless `tookMs` is set. */
  | "timeout"
  | "oom"
  /** Its worker returns it at shutdown. */
  | "interrupted"
  /** The result, exactly as the executor would report it. */
  | { readonly ok: unknown }
  | { readonly exit: number; readonly stderr?: string }
  | { readonly error: string; readonly name?: string; readonly code?: string; readonly status?: number }
  | { readonly signal: string; readonly stderr?: string }
  /** `result.json` has status failed, with this reason. */
  | { readonly logical: string }
  /** The ids of the jobs to wait for. */
  | { readonly waiting: readonly string[] };

export interface RunOptions {
  /** How long it runs. */
  readonly tookMs?: number;
  readonly worker?: string;
  readonly usage?: Usage;
}

export interface Started {
  readonly attempt: number;
  readonly session: string;
  /** Renews like a worker; returns what happened to the attempt. */
  renew(usage?: Usage): ReturnType<Engine["renew"]>;
  end(play: Play, options?: Pick<RunOptions, "tookMs" | "usage">): Promise<JobInfo>;
}

export interface Stage {
  readonly clock: VirtualClock;
  readonly engine: Engine;
  readonly store: Store;
  /** The address of the database; null for SQLite. */
  readonly postgres: { readonly url: string; readonly schema: string } | null;
  /** Reads a document (YAML text or a value) with the dialect and submits its jobs; returns their ids. */
  apply(dialect: Dialect, document: string | object, context?: Partial<ReadContext>): Promise<string[]>;
  submit(entry: ReadEntry): Promise<string>;
  /** Waits until the job is due, claims it as a worker, and reports the outcome. Returns the job after it. */
  run(id: string, play: Play, options?: RunOptions): Promise<JobInfo>;
  /** Claims it without reporting an outcome. Its lease is renewed while time passes. */
  start(id: string, options?: Pick<RunOptions, "worker">): Promise<Started>;
  /** Whether a worker gets something from its queue now. */
  isGiven(id: string): Promise<boolean>;
  job(id: string): Promise<JobInfo>;
  parts(id: string): Promise<ViewParts>;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it as they like.
  view(dialect: Dialect, id: string): Promise<any>;
  /** Another engine on the same store, also without background work. */
  rival(options?: Pick<EngineOptions, "observer">): Engine;
  /** Advances time; the reaper runs whenever something could expire. */
  advance(ms: number): Promise<void>;
}

export interface StageOptions {
  readonly startAt?: number;
  readonly leaseMs?: number;
  /** Draws for jitter. The default, always 0.5, draws none: delays are exact. */
  readonly random?: () => number;
}

/** The default context of a reader. */
export function readContext(context: Partial<ReadContext> = {}): ReadContext {
  return {
    settings: DIALECT_DEFAULTS,
    parameters: {},
    documents: [],
    yaml: () => null,
    bytes: () => null,
    file: "test.yaml",
    randomBytes: (count) => randomBytes(count),
    ...context,
  };
}

/** Closed when the test is over. */
export async function openStage(name: StoreName, options: StageOptions = {}): Promise<Stage> {
  const { startAt, leaseMs = 15_000, random = () => 0.5 } = options;
  const clock = new VirtualClock(startAt);
  const { store, postgres, close } = await storeOf(name, clock, random);
  const newId = idMaker({ now: clock.now, randomBytes: (bytes) => randomFillSync(bytes) });
  const log = (level: string, message: string) => {
    if (level === "error") throw new Error(message);
  };
  const engines: Engine[] = [];
  const open = (name: string, more: Partial<EngineOptions> = {}) => {
    const engine = new Engine({ store, clock, random, newId, log, name, leaseMs, ...more });
    engines.push(engine);
    return engine;
  };
  const engine = open("stage");
  onTestFinished(async () => {
    for (const each of engines) await each.stop();
    await close();
  });
  await engine.reap();
  return new RealStage(clock, engine, store, postgres, (more) => open(`rival-${engines.length}`, more));
}

interface Opened {
  readonly store: Store;
  readonly postgres: Stage["postgres"];
  close(): Promise<void>;
}

async function storeOf(name: StoreName, clock: VirtualClock, random: () => number): Promise<Opened> {
  const newSecret = () => randomBytes(24).toString("base64url");
  if (name === "sqlite") {
    const store = await openStore({ url: ":memory:", clock, random, newSecret });
    return { store, postgres: null, close: () => store.close() };
  }
  // The store's own waits use the system clock. A claim scans whole lanes only once a second of monotonic time, which
  // therefore advances at each reading.
  let ahead = 0;
  const patient = {
    ...systemClock,
    monotonic: () => {
      ahead += 10_000;
      return systemClock.monotonic() + ahead;
    },
  };
  const { url, schema, giveBack } = borrowSchema();
  const store = await openStore({ url, clock: patient, random, newSecret, connections: 2 });
  const close = async () => {
    await store.close();
    await giveBack();
  };
  return { store, postgres: { url, schema }, close };
}

interface Held {
  readonly jobId: string;
  readonly attempt: number;
  readonly session: string;
}

class RealStage implements Stage {
  readonly clock: VirtualClock;
  readonly engine: Engine;
  readonly store: Store;
  readonly postgres: Stage["postgres"];
  readonly rival: Stage["rival"];
  readonly #known = new Set<string>();
  readonly #held = new Set<Held>();
  #queues = 0;

  constructor(clock: VirtualClock, engine: Engine, store: Store, postgres: Stage["postgres"], rival: Stage["rival"]) {
    this.clock = clock;
    this.engine = engine;
    this.store = store;
    this.postgres = postgres;
    this.rival = rival;
  }

  async apply(dialect: Dialect, document: string | object, context?: Partial<ReadContext>): Promise<string[]> {
    const value = typeof document === "string" ? readYaml(document, "test.yaml").value : document;
    const { jobs } = dialect.read(value, readContext(context));
    const ids: string[] = [];
    for (const entry of jobs) ids.push(await this.submit(entry));
    return ids;
  }

  async submit({ task: kind, input, options = {} }: ReadEntry): Promise<string> {
    checkBuiltin(kind, input);
    this.#queues += 1;
    // A key finds its job again only in the same queue.
    const queue =
      options.queue ?? (options.key === undefined ? `stage-${this.#queues}` : `key-${options.key}`.slice(0, 200));
    const payload = input === undefined ? NO_INPUT : JSON.stringify(input);
    const item = toSubmitItem({ kind, payload, options: { ...options, queue }, namespace: "default" });
    const [answer] = await this.engine.submit([item]);
    if (answer?.status !== "ok") throw (answer as { error: Error }).error;
    this.#known.add(answer.id);
    return answer.id;
  }

  async run(id: string, play: Play, options: RunOptions = {}): Promise<JobInfo> {
    const started = await this.start(id, options);
    return started.end(play, options);
  }

  async start(id: string, { worker = "worker-1" }: Pick<RunOptions, "worker"> = {}): Promise<Started> {
    const session = await this.#sessionFor(await this.#due(id), worker);
    const claim = async () => (await this.engine.claim(session, { limit: 1 })).jobs[0];
    // A claim skips a row that is locked at that moment, by the change signal of a parent or by the sweep.
    let claimed = await claim();
    for (let tries = 1; claimed === undefined && tries < 20; tries++) {
      await this.engine.sweepChildren();
      claimed = await claim();
    }
    if (claimed?.id !== id) {
      throw new Error(`a claim for ${id} gave ${claimed?.id ?? "nothing"}: submit the job to a separate queue`);
    }
    const { attempt, token } = claimed;
    const held: Held = { jobId: id, attempt, session };
    this.#held.add(held);
    return {
      attempt,
      session,
      renew: (usage) => this.engine.renew(session, [{ jobId: id, attempt, ...(usage === undefined ? {} : { usage }) }]),
      end: (play, options = {}) => this.#end(held, token, play, options),
    };
  }

  async isGiven(id: string): Promise<boolean> {
    const session = await this.#sessionFor(await this.job(id), "early");
    const { jobs } = await this.engine.claim(session, { limit: 1 });
    await this.engine.closeSession(session);
    return jobs.length > 0;
  }

  #sessionFor({ kind, queue, labels }: JobInfo, name: string) {
    return this.engine.openSession({
      ...{ namespace: "default", name, host: "stage", pid: 1, slots: 1 },
      ...{ kinds: [kind], queues: [queue], labels },
    });
  }

  async #end(held: Held, token: string, play: Play, { tookMs, usage }: RunOptions): Promise<JobInfo> {
    const { jobId, attempt, session } = held;
    const job = await this.job(jobId);
    const took =
      tookMs ??
      (play === "timeout" ? Math.max(0, (job.timeoutMs ?? 0) - (this.clock.now() - (job.startedAt ?? 0))) : 0);
    await this.advance(took);
    this.#held.delete(held);
    if (play === "gone") {
      await this.store.sessions.close(session, this.clock.now(), "gone");
      await this.engine.reap();
      return this.#after(jobId);
    }
    if (play === "lost") {
      // Its usage was reported by its last renewal.
      await this.engine.renew(session, [{ jobId, attempt, ...(usage === undefined ? {} : { usage }) }]);
      const over = this.clock.now() + this.engine.leaseMs + 1;
      while ((await this.job(jobId)).attempt === attempt && (await this.job(jobId)).state === "running") {
        await this.#step(Math.max(over, this.clock.now() + 1));
      }
      return this.#after(jobId);
    }
    const outcome = outcomeOf(play, job);
    const from = { kind: "worker", token, reportId: `${jobId}-${attempt}` } as const;
    const [answer] = await this.engine.report([{ jobId, attempt, from, outcome, usage: usage ?? null, log: null }]);
    if (answer?.status !== "accepted") throw new Error(`the report was not accepted: ${JSON.stringify(answer)}`);
    await this.engine.closeSession(session);
    return this.#after(jobId);
  }

  /** The job after an attempt. A parent resumes shortly after the report of its last child, so the sweep runs first. */
  async #after(id: string): Promise<JobInfo> {
    const { parentId, state } = await this.job(id);
    if (parentId !== null || state === "blocked") await this.engine.sweepChildren();
    return this.job(id);
  }

  async job(id: string): Promise<JobInfo> {
    const [row] = await this.store.jobs([id]);
    if (row === undefined || row === null) throw new Error(`job ${id} does not exist`);
    return toInfo(row);
  }

  async parts(id: string): Promise<ViewParts> {
    const job = await this.job(id);
    const [attempts, history, sessions] = await Promise.all([
      lastAttempts(this.store, job),
      this.store.history(id),
      this.store.sessions.list(),
    ]);
    const names = new Map(sessions.map(({ id: session, name }) => [session, name]));
    return {
      job,
      attempts,
      events: (history?.events ?? []) as readonly JobEvent[],
      workerName: (session) => names.get(session) ?? null,
      now: this.clock.now(),
    };
  }

  // biome-ignore lint/suspicious/noExplicitAny: tests look into it as they like.
  async view(dialect: Dialect, id: string): Promise<any> {
    return JSON.parse(JSON.stringify(dialect.view(await this.parts(id))));
  }

  async advance(ms: number): Promise<void> {
    const target = this.clock.now() + ms;
    while (this.clock.now() < target) await this.#step(target);
    await this.engine.reap();
    if (ms > 0) await this.engine.sweepChildren();
  }

  /** Advances to the next instant at which something could happen. While an attempt runs or is lost, the steps are as short
   *  as the reaper's interval: after a longer pause the reaper would hold back. */
  async #step(target: number): Promise<void> {
    const { now } = this.clock;
    const rows = await this.store.jobs([...this.#known]);
    const open = rows.filter((row) => row !== null && !isTerminal(row.state)) as JobInfo[];
    const limits = open.flatMap(({ state, expiresAt, deadlineAt }) =>
      state === "queued" ? [expiresAt, deadlineAt] : [],
    );
    const quiet = this.#held.size === 0 && open.every(({ state }) => state !== "running");
    // A job is overdue one millisecond after its instant.
    const stops = limits.flatMap((at) => (at !== null && at + 1 > now() ? [at + 1] : []));
    if (!quiet) stops.push(now() + Math.min(1_000, this.engine.leaseMs / 6));
    this.clock.moveTo(Math.min(target, ...stops));
    for (const { session, jobId, attempt } of this.#held) await this.engine.renew(session, [{ jobId, attempt }]);
    await this.engine.reap();
  }

  /** Advances time until the job is due, and returns it. */
  async #due(id: string): Promise<JobInfo> {
    this.#known.add(id);
    const job = await this.job(id);
    if (job.state === "queued") {
      if (job.runAt > this.clock.now()) await this.advance(job.runAt - this.clock.now());
    } else if (job.state === "blocked") await this.engine.sweepChildren();
    const due = await this.job(id);
    if (due.state !== "queued")
      throw new Error(`${id} cannot be run: it is ${due.state} (${due.reason ?? "no reason"})`);
    return due;
  }
}

const EMPTY = { bytes: 0, dropped: 0 };

function outcomeOf(play: Exclude<Play, "lost" | "gone">, job: JobInfo): ReportedOutcome {
  if (play === "ok") {
    const result =
      job.kind === "exec" ? { exitCode: 0, output: null, outputs: [], stdout: EMPTY, stderr: EMPTY } : null;
    return { kind: "completed", result: JSON.stringify(result) };
  }
  if (play === "timeout") {
    const message = `timed out after ${showMs(job.timeoutMs ?? 0)}`;
    return { kind: "timeout", failure: failure({ kind: "timeout", name: "TimeoutError", message }) };
  }
  if (play === "interrupted") return { kind: "interrupted" };
  if (play === "oom") return commandEnd({ signal: "SIGKILL", isOutOfMemory: true }, "");
  if ("ok" in play) return { kind: "completed", result: JSON.stringify(play.ok) };
  if ("waiting" in play) return { kind: "waiting", children: play.waiting };
  if ("exit" in play) return commandEnd({ exitCode: play.exit }, play.stderr ?? "");
  if ("signal" in play) return commandEnd({ signal: play.signal as keyof typeof constants.signals }, play.stderr ?? "");
  if ("logical" in play) {
    return {
      kind: "failed",
      failure: failure({ kind: "result", class: "logical", message: play.logical, exitCode: 0 }),
    };
  }
  const { error: message, name = "Error", code = null, status = null } = play;
  return {
    kind: "failed",
    failure: failure({ kind: status === null ? "error" : "http", message, name, code, status }),
  };
}

/** As reported by a worker. */
function commandEnd(end: Partial<Parameters<typeof endOf>[0]>, stderr: string): ReportedOutcome {
  const ended = {
    ...({
      kind: "ended",
      exitCode: null,
      signal: null,
      exceeded: null,
      isOutOfMemory: false,
      wasStopped: false,
    } as const),
    left: 0,
    ...end,
  };
  const judged = endOf(ended, { kind: "none" }, stderrSummary(stderr), stderr);
  return judged.kind !== "completed"
    ? judged
    : { kind: "completed", result: JSON.stringify({ exitCode: judged.exitCode }) };
}
