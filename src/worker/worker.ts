/** A worker: claims jobs as it has free slots, runs them, reports what came of them.
 *
 *  claim → start → run → outcome → report, each a step on one `AttemptRun`. A slot is free again when the handler has
 *  ended; the attempt stays in hand, and is renewed, until its report has been answered.
 *  stop(): claims no more, waits for what runs up to the grace time, hands back the rest; nothing is charged. */
import { isOutage } from "../core/errors.ts";
import { failure } from "../core/failure.ts";
import { isTerminal } from "../core/job.ts";
import type { AnyTask } from "../core/task.ts";
import type { ClaimedJob, Report, ReportedOutcome, SettleAnswer } from "../core/work.ts";
import { type Clock, sleep } from "../lib/clock.ts";
import { AttemptRun, type Holder, runName, type StopCause } from "./attempt-run.ts";
import { type EngineLink, isClosed, type SessionRequest } from "./engine-link.ts";
import type { Executor } from "./executor.ts";
import { runFunction } from "./function-executor.ts";
import { SessionKeeper } from "./session-keeper.ts";

export interface WorkerOptions {
  readonly link: EngineLink;
  readonly clock: Clock;
  readonly tasks: readonly AnyTask[];
  /** For kinds that are not functions of this process. */
  readonly executors?: readonly Executor[];
  readonly request: SessionRequest;
  /** How long a handler may go on after it was asked to stop. */
  readonly stopGraceMs: number;
  readonly log: (level: "error" | "warn" | "info", message: string) => void;
}

const CLAIM_WAIT_MS = 30_000;
const RETRY_MS = 1_000;
/** With fewer slots one claim at a time fills them all. */
const MANY_SLOTS = 64;
/** A store gives no more than about this many at a time, however many slots are free. */
const MANY_JOBS = 500;

export class Worker {
  readonly #options: WorkerOptions;
  readonly #tasks: ReadonlyMap<string, AnyTask>;
  readonly #executors: ReadonlyMap<string, Executor>;
  /** In hand: running, or ended and not yet answered. */
  readonly #runs = new Map<string, AttemptRun>();
  #executing = 0;
  /** Claims under way, and the slots kept for them. */
  #claims = 0;
  #claiming = 0;
  /** The last claim got all it asked for, or very many. */
  #isPlenty = false;
  #reopening: Promise<void> | null = null;
  #reports = 0;
  #session = "";
  #keeper: SessionKeeper | null = null;
  #uncancel: () => void = () => {};
  readonly #stopping = new AbortController();
  #started: Promise<void> = Promise.resolve();
  #loop: Promise<void> = Promise.resolve();
  #slotFreed: () => void = () => {};
  #stopped: Promise<void> | null = null;

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#tasks = new Map(options.tasks.map((task) => [task.kind, task]));
    this.#executors = new Map((options.executors ?? []).map((executor) => [executor.kind, executor]));
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
    this.#loop = this.#claimLoop();
  }

  /** Repeated, it waits for the first stop. */
  stop(graceMs: number): Promise<void> {
    this.#stopped ??= this.#drain(graceMs);
    return this.#stopped;
  }

  async #open(): Promise<void> {
    const { link, clock, request } = this.#options;
    const { session, leaseMs } = await link.openSession(request);
    this.#session = session;
    this.#uncancel();
    this.#uncancel = link.onCancel(session, (jobId, attempt) => this.#stopRun(jobId, attempt, "cancel"));
    this.#keeper = new SessionKeeper(link, clock, session, leaseMs, {
      held: () => [...this.#runs.values()].map((run) => run.held()),
      onCancel: (jobId, attempt) => this.#stopRun(jobId, attempt, "cancel"),
      onLost: (attempts) => {
        for (const { jobId, attempt } of attempts) this.#stopRun(jobId, attempt, "lost");
      },
      onSilence: () => this.#stopAll("silence"),
      onGone: () => this.#stopAll("lost"),
      onError: (error, untold) => {
        this.#options.log("warn", `cannot renew session ${session}: ${String(error)}`);
        for (const { jobId, attempt, log } of untold)
          if (log) this.#runs.get(runName(jobId, attempt))?.giveBackLog(log);
      },
    });
  }

  async #claimLoop(): Promise<void> {
    const { link, request } = this.#options;
    const { signal } = this.#stopping;
    const atOnce = request.slots < MANY_SLOTS ? 1 : link.claimsAtOnce;
    const share = Math.ceil(request.slots / atOnce);
    const underWay = new Set<Promise<void>>();
    while (!signal.aborted) {
      const limit = Math.min(share, request.slots - this.#executing - this.#claiming);
      // A second claim beside the first only while there is more than one can have: else both would wait for nothing.
      const isRoom = this.#claims === 0 || (this.#claims < atOnce && this.#isPlenty);
      if (limit <= 0 || !isRoom) {
        await new Promise<void>((resolve) => {
          this.#slotFreed = resolve;
        });
        // Handlers that end in this turn of the event loop free their slots together: by the next tick all have, one
        // claim serves them all, and it shares the commit of their reports.
        await new Promise<void>((resolve) => process.nextTick(resolve));
        continue;
      }
      this.#claims += 1;
      this.#claiming += limit;
      const claim = this.#claim(limit, this.#claims === 1 ? CLAIM_WAIT_MS : 0);
      underWay.add(claim);
      void claim.then(() => underWay.delete(claim));
    }
    await Promise.all(underWay);
  }

  async #claim(limit: number, waitMs: number): Promise<void> {
    const { link, clock, log } = this.#options;
    const { signal } = this.#stopping;
    const session = this.#session;
    try {
      const answer = await link.claim(session, { limit, waitMs, signal });
      this.#isPlenty = answer.jobs.length >= Math.min(limit, MANY_JOBS);
      if (!answer.alive && !signal.aborted && this.#session === session) {
        this.#reopening ??= this.#reopen().finally(() => {
          this.#reopening = null;
        });
        await this.#reopening;
      }
      for (const job of answer.jobs) this.#start(job);
    } catch (error) {
      if (signal.aborted) return;
      if (isClosed(error)) this.#stopping.abort();
      else {
        log("warn", `cannot claim: ${String(error)}`);
        await sleep(clock, RETRY_MS, { signal });
      }
    } finally {
      this.#claims -= 1;
      this.#claiming -= limit;
      this.#slotFreed();
    }
  }

  /** The session is over: what it held is lost, what comes next belongs to a new one. */
  async #reopen(): Promise<void> {
    this.#stopAll("lost");
    await this.#keeper?.stop();
    await this.#open();
    this.#options.log("warn", `the session was ended by the engine; working on as ${this.#session}`);
  }

  #start(job: ClaimedJob): void {
    const run = new AttemptRun(job, this.#holder);
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

  readonly #holder: Holder = {
    now: () => this.#options.clock.now(),
    touch: () => this.#keeper?.touch(),
    ended: (run, outcome) => {
      this.#executing -= 1;
      this.#slotFreed();
      this.#report(run, outcome);
    },
  };

  /** A handler that ended because it was asked to did not fail by itself. */
  #judge(run: AttemptRun, outcome: ReportedOutcome): ReportedOutcome {
    if (outcome.kind === "completed") return outcome; // late or not, the work is done
    if (run.stopCause === "timeout") return timedOut(run);
    if (outcome.kind === "failed" && run.stopCause === "shutdown") return { kind: "interrupted" };
    // We cut it short to be on the safe side. If it was ours all the time, as after an outage of the store, that is no
    // fault of the job; if it was not, this report comes too late.
    if (outcome.kind === "failed" && run.stopCause === "silence") return { kind: "interrupted" };
    // Nobody may have noticed yet that we were gone; then this report is first, and says the same as the reaper would.
    if (outcome.kind === "failed" && run.stopCause === "lost") return { kind: "lost" };
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
    this.#options.link.report(report).then(
      (answer) => this.#answered(run, answer),
      (error) => this.#unanswered(run, report, error),
    );
  }

  #answered(run: AttemptRun, answer: SettleAnswer): void {
    const { id, attempt } = run.job;
    const { log } = this.#options;
    if (answer.status === "stale") log("warn", `${id}: attempt ${attempt} ended too late; its report changed nothing`);
    if (answer.status === "refused") log("error", `${id}: attempt ${attempt}: ${answer.message}`);
    if (answer.status === "accepted" && isTerminal(answer.state)) this.#executors.get(run.job.kind)?.jobEnded?.(id);
    this.#letGo(run);
  }

  async #unanswered(run: AttemptRun, report: Report, error: unknown): Promise<void> {
    if (isClosed(error)) return this.#letGo(run);
    const { log, clock } = this.#options;
    log("warn", `${report.jobId}: cannot report attempt ${report.attempt}, trying again: ${String(error)}`);
    await sleep(clock, RETRY_MS);
    this.#send(run, report);
  }

  #letGo(run: AttemptRun): void {
    this.#runs.delete(run.name);
    this.#drained();
  }
  #drained: () => void = () => {};

  async #drain(graceMs: number): Promise<void> {
    const { link, stopGraceMs } = this.#options;
    this.#stopping.abort();
    this.#slotFreed();
    await this.#started.catch(() => {}); // told to who started it
    await this.#loop;
    await this.#handsEmpty(graceMs);
    this.#stopAll("shutdown");
    const graces = [...this.#runs.values()].map((run) => run.stopGraceMs ?? stopGraceMs);
    await this.#handsEmpty(Math.max(stopGraceMs, ...graces) + RETRY_MS);
    this.#uncancel();
    await this.#keeper?.stop();
    if (this.#session === "") return;
    await link.closeSession(this.#session).catch((error: unknown) => {
      // The lease will end it: whoever closes down in an outage has nothing more to do.
      if (!isOutage(error)) throw error;
      this.#options.log("warn", `cannot end session ${this.#session}: ${String(error)}`);
    });
  }

  async #handsEmpty(ms: number): Promise<void> {
    const timeUp = new AbortController();
    const cancel = this.#options.clock.after(ms, () => {
      timeUp.abort();
      this.#drained();
    });
    while (this.#runs.size > 0 && !timeUp.signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#drained = resolve;
      });
    }
    cancel();
  }
}

function timedOut(run: AttemptRun): ReportedOutcome {
  const message = `timed out after ${run.job.timeoutMs} ms`;
  return { kind: "timeout", failure: failure({ kind: "timeout", name: "TimeoutError", message }) };
}

/** The handler did not stop when asked: the attempt ends without it. */
function givenUp(run: AttemptRun, cause: StopCause): ReportedOutcome {
  if (cause === "timeout") return timedOut(run);
  if (cause === "shutdown") return { kind: "interrupted" };
  if (cause === "lost") return { kind: "lost" };
  const message = `the handler did not stop in time after: ${cause}`;
  return { kind: "failed", failure: failure({ kind: "error", name: "AbortError", message }) };
}
