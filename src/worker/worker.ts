/** A worker: claims jobs as it has free slots, runs them, reports what came of them.
 *
 *  claim → start → run → outcome → report, each a step on one `AttemptRun`. A slot is free again when the handler has
 *  ended; the attempt stays in hand, and is renewed, until its report has been answered.
 *  stop(): claims no more, waits for what runs up to the grace time, hands back the rest; nothing is charged.
 *  Told to drain, it claims no more and says when its hands are empty. */
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
import { givenUp, inShort, isShort, overspent, timedOut } from "./outcomes.ts";
import { SessionKeeper } from "./session-keeper.ts";

export interface WorkerOptions {
  readonly link: EngineLink;
  readonly clock: Clock;
  readonly tasks: readonly AnyTask[];
  /** For kinds that are not functions of this process. */
  readonly executors?: readonly Executor[];
  readonly request: LinkSessionRequest;
  /** How long a handler may go on after it was asked to stop. */
  readonly stopGraceMs: number;
  readonly log: FieldLog;
}

const RETRY_MS = 1_000;
/** For a killed command to be seen as ended; a handler that does not stop is not waited for longer either. */
const FORCED_MS = 200;
/** Logs of so many attempts, of at most 60,000 characters each, go with one renewal: far below the limit of any server. */
const LOGS_PER_RENEWAL = 20;

export class Worker {
  readonly #options: WorkerOptions;
  readonly #tasks: ReadonlyMap<string, AnyTask>;
  readonly #executors: ReadonlyMap<string, Executor>;
  /** In hand: running, or ended and not yet answered. */
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
  #figures = new HealthCounts();
  #isDraining = false;
  #tellDrained: () => void = () => {};
  /** Resolves when the engine has told it to drain and its hands are empty: it is to be stopped then. */
  readonly drained = new Promise<void>((resolve) => {
    this.#tellDrained = resolve;
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
      leave: () => void this.#leave(),
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

  /** Repeated, it waits for the first stop, which `force` cuts short: what runs is killed, or given up where it cannot be. */
  stop(graceMs: number, force = false): Promise<void> {
    this.#stopped ??= this.#drain(graceMs);
    if (force) this.#force();
    return this.#stopped;
  }

  #force(): void {
    if (this.#isForced) return;
    this.#isForced = true;
    for (const executor of this.#executors.values()) executor.force?.();
    for (const proceed of this.#waiting.splice(0)) proceed();
    // Those that were asked before are given up with the others; a run that ends by itself first has ended.
    this.#stopAll("shutdown");
    // A handler may go on for ever. A command is killed, and handed back only when it is dead: the next attempt may begin then.
    this.#options.clock.after(FORCED_MS, () => {
      for (const run of this.#runs.values()) {
        if (this.#tasks.has(run.job.kind)) run.finish(givenUp(run, run.stopCause ?? "shutdown"));
      }
    });
  }
  #isForced = false;
  /** Continue a stop in good order that waits for what runs. */
  readonly #waiting: (() => void)[] = [];

  async #open(): Promise<void> {
    const { link, clock, request } = this.#options;
    const { session, leaseMs } = await link.openSession(request, { signal: this.#stopping.signal });
    this.#session = session;
    this.#figures = new HealthCounts();
    this.#listen(session);
    this.#keeper = new SessionKeeper(link, clock, session, leaseMs, {
      held: () => this.#held(),
      health: () => this.#health(),
      onDrain: () => void this.#leave(),
      onCancel: (jobId, attempt) => this.#stopRun(jobId, attempt, "cancel"),
      onLost: (attempts) => {
        for (const { jobId, attempt } of attempts) this.#stopRun(jobId, attempt, "lost");
      },
      onOverspent: (attempts) => {
        for (const { jobId, attempt } of attempts) this.#stopRun(jobId, attempt, "budget");
      },
      onRenewed: () => this.#trouble.works(),
      onSilence: () => this.#stopAll("silence"),
      onGone: () => this.#stopAll("lost"),
      onError: (error, untold) => {
        this.#trouble.failed("renewals", `cannot renew session ${session}`, error);
        for (const held of untold) this.#runs.get(runName(held.jobId, held.attempt))?.notTold(held);
      },
    });
  }

  /** All attempts in hand, and log text up to what a renewal may carry: the lease must not depend on how much there is to
   *  tell. Who had no room is told of by the next, and comes first. */
  #held(): HeldAttempt[] {
    const runs = [...this.#runs.values()];
    const waiting = runs.filter((run) => run.hasLog);
    const first = waiting
      .filter((run) => this.#unheard.has(run))
      .concat(waiting.filter((run) => !this.#unheard.has(run)));
    const having = new Set(first.slice(0, LOGS_PER_RENEWAL));
    this.#unheard = new Set(first.slice(LOGS_PER_RENEWAL));
    if (this.#unheard.size > 0) this.#keeper?.touch();
    return runs.map((run) => run.held(having.has(run)));
  }
  #unheard: ReadonlySet<AttemptRun> = new Set();

  #listen(session: string): void {
    const { link } = this.#options;
    this.#uncancel();
    const undrain = link.onDrain?.(session, () => void this.#leave());
    const uncancel = link.onCancel(session, (jobId, attempt) => this.#stopRun(jobId, attempt, "cancel"));
    this.#uncancel = () => {
      uncancel();
      undrain?.();
    };
  }

  #health(): WorkerHealth {
    return this.#figures.told(this.#runs.size, this.#options.request.slots);
  }

  /** The session is over: what it held is lost, what comes next belongs to a new one. */
  async #reopen(): Promise<void> {
    this.#stopAll("lost");
    await this.#keeper?.stop();
    await this.#open();
    this.#options.log("warn", `the session was ended by the engine; working on as ${this.#session}`);
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
      this.#figures.ended(outcome.kind, this.#options.clock.monotonic() - run.startedAt, wasCancelled);
      this.#report(run, outcome);
    },
  };

  /** A handler that ended because it was asked to did not fail by itself. */
  #judge(run: AttemptRun, outcome: ReportedOutcome): ReportedOutcome {
    if (outcome.kind === "completed") return outcome; // late or not, the work is done
    if (run.stopCause === "timeout") return timedOut(run);
    if (outcome.kind === "failed" && run.stopCause === "budget") return overspent();
    if (outcome.kind === "failed" && run.stopCause === "shutdown") return { kind: "interrupted" };
    // We cut it short to be on the safe side. If it was ours all the time, as after an outage of the store, that is no
    // fault of the job; if it was not, this report comes too late.
    if (outcome.kind === "failed" && run.stopCause === "silence") return { kind: "interrupted" };
    // Nobody may have noticed yet that we were gone; then this report is first, and says the same as the reaper would.
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
    // A handler that goes on all the same may still have its job: its own end counts, if it comes in time.
    if (cause === "silence") return;
    const { clock, stopGraceMs } = this.#options;
    run.cancelAtEnd(clock.after(run.stopGraceMs ?? stopGraceMs, () => run.finish(givenUp(run, cause))));
  }

  #report(run: AttemptRun, outcome: ReportedOutcome): void {
    const { id: jobId, attempt, token } = run.job;
    this.#reports += 1;
    const from = { kind: "worker", token, reportId: `r${this.#reports}` } as const;
    this.#send(run, { jobId, attempt, from, outcome, usage: run.spent, progress: run.told, log: run.takeLog() });
  }

  /** Until it is answered the report is repeated: the same id gets the same answer. */
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
    if (answer.status === "stale") log("warn", `${id}: attempt ${attempt} ended too late; its report changed nothing`);
    if (answer.status === "refused") {
      log("error", `${id}: attempt ${attempt}: ${answer.message}`);
      // Let go without a word it would be handed back and run for ever. So it is told in as few words as can be.
      if (!isShort(report)) {
        this.#send(run, inShort(report, answer.message));
        return;
      }
    }
    if (this.#executors.size > 0) {
      const executor = this.#executors.get(run.job.kind);
      executor?.answered?.(run);
      if (answer.status === "accepted" && isTerminal(answer.state)) executor?.jobEnded?.(id);
    }
    this.#letGo(run);
  }

  async #unanswered(run: AttemptRun, report: Report, error: unknown): Promise<void> {
    if (isClosed(error)) return this.#letGo(run);
    const { clock } = this.#options;
    this.#trouble.failed("reports", `cannot report attempt ${report.attempt} of ${report.jobId}`, error);
    await sleep(clock, RETRY_MS);
    this.#send(run, report);
  }

  #letGo(run: AttemptRun): void {
    this.#runs.delete(run.name);
    if (this.#runs.size === 0) for (const tell of this.#emptied.splice(0)) tell();
  }
  /** Wait until nothing is in hand. */
  readonly #emptied: (() => void)[] = [];

  /** Told to drain. However long that takes: a stop meanwhile has a grace time of its own. */
  async #leave(): Promise<void> {
    if (this.#isDraining || this.#stopping.signal.aborted) return;
    this.#isDraining = true;
    this.#options.log("info", `session ${this.#session} is to take no more jobs; ${this.#runs.size} in hand`);
    this.#stopping.abort();
    this.#claims.slotFreed();
    await this.#loop;
    await this.#handsEmpty(null);
    this.#tellDrained();
  }

  async #drain(graceMs: number): Promise<void> {
    const { link, stopGraceMs } = this.#options;
    this.#stopping.abort();
    this.#claims.slotFreed();
    await this.#started.catch(() => {}); // told to who started it
    await this.#loop;
    if (!this.#isForced) await this.#handsEmpty(graceMs);
    this.#stopAll("shutdown");
    const graces = [...this.#runs.values()].map((run) => run.stopGraceMs ?? stopGraceMs);
    if (!this.#isForced) await this.#handsEmpty(Math.max(stopGraceMs, ...graces) + RETRY_MS);
    if (this.#isForced) await this.#handsEmpty(FORCED_MS + RETRY_MS); // what was killed is reported
    this.#uncancel();
    await this.#keeper?.stop();
    if (this.#session === "") return;
    const left = [...this.#runs.values()].filter((run) => !run.hasEnded);
    if (left.length > 0) {
      // Its end would give them to others at once, beside what still runs.
      this.#options.log("warn", `${left.length} attempts have not ended; session ${this.#session} ends with its lease`);
      return;
    }
    await link.closeSession(this.#session).catch((error: unknown) => {
      // The lease will end it: whoever closes down in an outage has nothing more to do.
      if (!isOutage(error)) throw error;
      this.#options.log("warn", `cannot end session ${this.#session}: ${String(error)}`);
    });
  }

  /** Null: however long it takes. */
  async #handsEmpty(ms: number | null): Promise<void> {
    if (this.#runs.size === 0) return;
    await new Promise<void>((resolve) => {
      const cancel = ms === null ? () => {} : this.#options.clock.after(ms, resolve);
      const proceed = () => {
        cancel();
        resolve();
      };
      this.#emptied.push(proceed);
      if (!this.#isForced) this.#waiting.push(proceed);
    });
  }
}
