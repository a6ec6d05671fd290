/** A worker: claims jobs as slots become free, runs them, and reports their outcomes.
 *
 *  claim → start → run → outcome → report, each a step on one `AttemptRun`. A slot is free as soon as its handler has ended; the
 *  attempt is held, and its lease renewed, until its report has been answered.
 *  stop(): stops claiming, waits up to the grace time for running attempts, and returns the others to the queue; these do not
 *  count as attempts. When the engine drains it, it stops claiming and resolves `drained` once it holds no attempt. */
import { isOutage } from "../core/errors.ts";
import { isTerminal } from "../core/job/job.ts";
import type { AnyTask } from "../core/task/task.ts";
import type {
  ClaimedJob,
  HeldAttempt,
  Report,
  ReportedOutcome,
  SettleAnswer,
  WorkerHealth,
} from "../core/worker-protocol.ts";
import { type Clock, sleep } from "../lib/clock.ts";
import type { FieldLog } from "../lib/log.ts";
import { type AttemptHolder, AttemptRun, runName, type StopCause } from "./attempt-run.ts";
import { ClaimLoop } from "./claim-loop.ts";
import { type EngineLink, isClosed, type LinkSessionRequest } from "./engine-link.ts";
import { type Executor, runFunction } from "./executor.ts";
import { HealthCounts, WorkerTrouble } from "./health.ts";
import { abandoned, isMinimal, overspent, refusedReport, timedOut } from "./outcomes.ts";
import { SessionKeeper } from "./session-keeper.ts";

export interface WorkerOptions {
  readonly link: EngineLink;
  readonly clock: Clock;
  readonly tasks: readonly AnyTask[];
  /** For kinds that are not functions of this process. */
  readonly executors?: readonly Executor[];
  readonly request: LinkSessionRequest;
  /** The grace time of a handler after a stop request. */
  readonly stopGraceMs: number;
  readonly log: FieldLog;
}

const RETRY_MS = 1_000;
/** After a forced stop: until a killed command is seen to have ended, or a handler that does not stop is abandoned. */
const FORCED_MS = 200;
/** Attempts whose logs (of at most 60,000 characters each) are sent with one renewal: far below the limit of any server. */
const LOGS_PER_RENEWAL = 20;

export class Worker {
  readonly #options: WorkerOptions;
  readonly #tasks: ReadonlyMap<string, AnyTask>;
  readonly #executors: ReadonlyMap<string, Executor>;
  /** Attempts that are running, or ended with a report not yet answered. */
  readonly #runs = new Map<string, AttemptRun>();
  #executing = 0;
  readonly #claims: ClaimLoop;
  readonly #trouble: WorkerTrouble;
  #reports = 0;
  #session = "";
  #keeper: SessionKeeper | null = null;
  #uncancel: () => void = () => {};
  readonly #stopping = new AbortController();
  #started: Promise<void> = Promise.resolve();
  #loop: Promise<void> = Promise.resolve();
  #stopped: Promise<void> | null = null;
  #counts = new HealthCounts();
  #isDraining = false;
  #resolveDrained: () => void = () => {};
  /** Resolves when the engine has drained it and it holds no more attempts: the owner must stop it then. */
  readonly drained = new Promise<void>((resolve) => {
    this.#resolveDrained = resolve;
  });

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#tasks = new Map(options.tasks.map((task) => [task.kind, task]));
    this.#executors = new Map((options.executors ?? []).map((executor) => [executor.kind, executor]));
    const { link, clock, log, request } = options;
    this.#trouble = new WorkerTrouble(clock, log);
    this.#claims = new ClaimLoop({
      ...{ link, clock, trouble: this.#trouble, slots: request.slots, stopping: this.#stopping },
      session: () => this.#session,
      running: () => this.#executing,
      start: (job, session, startedAt) => this.#start(job, session, startedAt),
      reopen: () => this.#reopen(),
      drain: () => void this.#drain(),
    });
  }

  get session(): string {
    return this.#session;
  }
  /** Handlers running now. */
  get running(): number {
    return this.#executing;
  }

  async start(): Promise<void> {
    this.#started = this.#open();
    await this.#started;
    this.#loop = this.#claims.run();
  }

  /** A second call waits for the first one. `force` cuts it short: commands are killed, handlers are abandoned. */
  stop(graceMs: number, force = false): Promise<void> {
    this.#stopped ??= this.#shutDown(graceMs);
    if (force) this.#force();
    return this.#stopped;
  }

  #force(): void {
    if (this.#isForced) return;
    this.#isForced = true;
    for (const executor of this.#executors.values()) executor.force?.();
    for (const proceed of this.#graceWaiters.splice(0)) proceed();
    this.#stopAll("shutdown");
    // A handler may never stop, so it is abandoned. A command is reported only when it has ended: the next attempt may start
    // right after the report.
    this.#options.clock.after(FORCED_MS, () => {
      for (const run of this.#runs.values()) {
        if (this.#tasks.has(run.job.kind)) run.finish(abandoned(run, run.stopCause ?? "shutdown"));
      }
    });
  }
  #isForced = false;
  /** Waits of a graceful stop, which `force` ends. */
  readonly #graceWaiters: (() => void)[] = [];

  async #open(): Promise<void> {
    const { link, clock, request } = this.#options;
    const { session, leaseMs } = await link.openSession(request, { signal: this.#stopping.signal });
    this.#session = session;
    this.#counts = new HealthCounts();
    this.#listen(session);
    this.#keeper = new SessionKeeper(link, clock, session, leaseMs, {
      held: () => this.#held(),
      health: () => this.#health(),
      onDrain: () => void this.#drain(),
      onCancel: (jobId, attempt) => this.#stopRun(jobId, attempt, "cancel"),
      onLost: (attempts) => {
        for (const { jobId, attempt } of attempts) this.#stopRun(jobId, attempt, "lost");
      },
      onOverspent: (attempts) => {
        for (const { jobId, attempt } of attempts) this.#stopRun(jobId, attempt, "budget");
      },
      onRenewed: () => this.#trouble.works(),
      onUnreachable: () => this.#stopAll("unreachable"),
      onSessionEnded: () => this.#stopAll("lost"),
      onError: (error, failed) => {
        this.#trouble.failed("renewals", `cannot renew session ${session}`, error);
        for (const held of failed) this.#runs.get(runName(held.jobId, held.attempt))?.renewalFailed(held);
      },
    });
  }

  /** All held attempts, with the logs of some: the lease must not depend on the amount of log text. Logs that are deferred are
   *  the first of the next renewal. */
  #held(): HeldAttempt[] {
    const runs = [...this.#runs.values()];
    const withLog = runs.filter((run) => run.hasLog);
    const inOrder = withLog
      .filter((run) => this.#deferredLogs.has(run))
      .concat(withLog.filter((run) => !this.#deferredLogs.has(run)));
    const sent = new Set(inOrder.slice(0, LOGS_PER_RENEWAL));
    this.#deferredLogs = new Set(inOrder.slice(LOGS_PER_RENEWAL));
    if (this.#deferredLogs.size > 0) this.#keeper?.touch();
    return runs.map((run) => run.held(sent.has(run)));
  }
  #deferredLogs: ReadonlySet<AttemptRun> = new Set();

  #listen(session: string): void {
    const { link } = this.#options;
    this.#uncancel();
    const undrain = link.onDrain?.(session, () => void this.#drain());
    const uncancel = link.onCancel(session, (jobId, attempt) => this.#stopRun(jobId, attempt, "cancel"));
    this.#uncancel = () => {
      uncancel();
      undrain?.();
    };
  }

  #health(): WorkerHealth {
    return this.#counts.snapshot(this.#runs.size, this.#options.request.slots);
  }

  /** The session has ended: its attempts are lost, and further claims need a new session. */
  async #reopen(): Promise<void> {
    const ended = this.#session;
    this.#stopAll("lost");
    await this.#keeper?.stop();
    await this.#open();
    this.#options.log("warn", "session expired, opened a new one", { session: this.#session, expired: ended });
  }

  #start(job: ClaimedJob, session: string, startedAt: number): void {
    const run = new AttemptRun(job, session, startedAt, this.#holder);
    this.#runs.set(run.name, run);
    if (this.#stopping.signal.aborted) {
      this.#report(run, { kind: "released" });
      return;
    }
    this.#executing += 1;
    const { timeoutMs } = job;
    if (timeoutMs !== null) run.cancelAtEnd(this.#options.clock.after(timeoutMs, () => this.#stop(run, "timeout")));
    const task = this.#tasks.get(job.kind);
    if (task !== undefined) void runFunction(task, run).then((outcome) => run.finish(this.#judge(run, outcome)));
    else void this.#execute(run);
  }

  async #execute(run: AttemptRun): Promise<void> {
    const executor = this.#executors.get(run.job.kind);
    if (executor === undefined) return run.finish({ kind: "released" });
    const { outcome, isVerdict = false } = await executor.run(run);
    run.finish(isVerdict ? outcome : this.#judge(run, outcome));
  }

  readonly #holder: AttemptHolder = {
    family: () => this.#options.link.family,
    now: () => this.#options.clock.now(),
    touch: () => this.#keeper?.touch(),
    ended: (run, outcome) => {
      this.#executing -= 1;
      this.#claims.slotFreed();
      const wasCancelled = run.stopCause === "cancel";
      this.#counts.ended(outcome.kind, this.#options.clock.monotonic() - run.startedAt, wasCancelled);
      this.#report(run, outcome);
    },
  };

  /** A handler that failed because it was stopped is reported with the cause of the stop. */
  #judge(run: AttemptRun, outcome: ReportedOutcome): ReportedOutcome {
    if (outcome.kind === "completed") return outcome; // late or not, the work is done
    if (run.stopCause === "timeout") return timedOut(run);
    if (outcome.kind === "failed" && run.stopCause === "budget") return overspent();
    if (outcome.kind === "failed" && run.stopCause === "shutdown") return { kind: "interrupted" };
    // Stopped as a precaution. If this session held the job all the time, as in an outage of the store, the failure must not
    // count; if it did not, this report is stale.
    if (outcome.kind === "failed" && run.stopCause === "unreachable") return { kind: "interrupted" };
    // The engine may not have noticed the loss yet; then this report is the first, and equals what the reaper would report.
    const isOpen = outcome.kind === "failed" || outcome.kind === "waiting";
    if (isOpen && run.stopCause === "lost") return { kind: "lost" };
    return outcome;
  }

  #stopRun(jobId: string, attempt: number, cause: StopCause): void {
    const run = this.#runs.get(runName(jobId, attempt));
    if (run !== undefined) this.#stop(run, cause);
  }

  #stopAll(cause: StopCause): void {
    for (const run of this.#runs.values()) this.#stop(run, cause);
  }

  #stop(run: AttemptRun, cause: StopCause): void {
    if (!run.mayStop(cause)) return;
    run.stop(cause);
    // The session may still hold the job. A handler that ignores the signal is not abandoned: its own outcome counts if the
    // engine still accepts it.
    if (cause === "unreachable") return;
    const { clock, stopGraceMs } = this.#options;
    run.cancelAtEnd(clock.after(run.stopGraceMs ?? stopGraceMs, () => run.finish(abandoned(run, cause))));
  }

  #report(run: AttemptRun, outcome: ReportedOutcome): void {
    const { id: jobId, attempt, token } = run.job;
    this.#reports += 1;
    const from = { kind: "worker", token, reportId: `r${this.#reports}` } as const;
    this.#send(run, {
      jobId,
      attempt,
      from,
      outcome,
      usage: run.spent,
      progress: run.latestProgress,
      log: run.takeLog(),
    });
  }

  /** Repeated until it is answered: a repeated report id gets the same answer. */
  #send(run: AttemptRun, report: Report): void {
    this.#options.link.report(report, run.session).then(
      (answer) => this.#answered(run, report, answer),
      (error) => this.#unanswered(run, report, error),
    );
  }

  #answered(run: AttemptRun, report: Report, answer: SettleAnswer): void {
    const { id, attempt } = run.job;
    const { log } = this.#options;
    this.#trouble.works();
    if (answer.status === "stale") log("warn", "report ignored, lease already expired", { jobId: id, attempt });
    if (answer.status === "refused") {
      log("error", "report refused", { jobId: id, attempt, error: answer.message });
      // Without any report the job would be run again and again: it is reported as failed.
      if (!isMinimal(report)) {
        this.#send(run, refusedReport(report, answer.message));
        return;
      }
    }
    if (this.#executors.size > 0) {
      const executor = this.#executors.get(run.job.kind);
      executor?.answered?.(run);
      if (answer.status === "accepted" && isTerminal(answer.state)) executor?.jobEnded?.(id);
    }
    this.#release(run);
  }

  async #unanswered(run: AttemptRun, report: Report, error: unknown): Promise<void> {
    if (isClosed(error)) return this.#release(run);
    const { clock } = this.#options;
    this.#trouble.failed("reports", `cannot report attempt ${report.attempt} of ${report.jobId}`, error);
    await sleep(clock, RETRY_MS);
    this.#send(run, report);
  }

  #release(run: AttemptRun): void {
    this.#runs.delete(run.name);
    if (this.#runs.size === 0) for (const proceed of this.#idleWaiters.splice(0)) proceed();
  }
  /** Called when no attempt is held any more. */
  readonly #idleWaiters: (() => void)[] = [];

  /** The engine drains this worker. There is no time limit; a stop meanwhile has its own grace time. */
  async #drain(): Promise<void> {
    if (this.#isDraining || this.#stopping.signal.aborted) return;
    this.#isDraining = true;
    this.#options.log("info", "draining", { session: this.#session, attempts: this.#runs.size });
    this.#stopping.abort();
    this.#claims.slotFreed();
    await this.#loop;
    await this.#untilIdle(null);
    this.#resolveDrained();
  }

  async #shutDown(graceMs: number): Promise<void> {
    const { link, stopGraceMs } = this.#options;
    this.#stopping.abort();
    this.#claims.slotFreed();
    await this.#started.catch(() => {}); // start() has thrown it
    await this.#loop;
    if (!this.#isForced) await this.#untilIdle(graceMs);
    this.#stopAll("shutdown");
    const graces = [...this.#runs.values()].map((run) => run.stopGraceMs ?? stopGraceMs);
    if (!this.#isForced) await this.#untilIdle(Math.max(stopGraceMs, ...graces) + RETRY_MS);
    if (this.#isForced) await this.#untilIdle(FORCED_MS + RETRY_MS); // until killed commands are reported
    this.#uncancel();
    await this.#keeper?.stop();
    const session = this.#session;
    if (session === "") return;
    const left = [...this.#runs.values()].filter((run) => !run.hasEnded);
    if (left.length > 0) {
      // Closing the session would give the jobs to other workers while these handlers are still running.
      this.#options.log("warn", "attempts still running, session not closed", { session, attempts: left.length });
      return;
    }
    await link.closeSession(session).catch((error: unknown) => {
      // In an outage the session ends with its lease.
      if (!isOutage(error)) throw error;
      this.#options.log("warn", "cannot close the session", { session, error: String(error) });
    });
  }

  /** Resolves when no attempt is held, or after `ms`; null: no time limit. */
  async #untilIdle(ms: number | null): Promise<void> {
    if (this.#runs.size === 0) return;
    await new Promise<void>((resolve) => {
      const cancel = ms === null ? () => {} : this.#options.clock.after(ms, resolve);
      const proceed = () => {
        cancel();
        resolve();
      };
      this.#idleWaiters.push(proceed);
      if (!this.#isForced) this.#graceWaiters.push(proceed);
    });
  }
}
