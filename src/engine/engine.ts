/** The engine: the verbs of the other files in this folder, over one store, with clock, randomness and ids from
 *  outside. Any number of engines may work on one store; none is special. */

import { type Explanation, explainHistory } from "../core/explain/explain.ts";
import { JobHistoryReader } from "../core/explain/history.ts";
import type { StdinFile } from "../core/input/exec-input.ts";
import type { Command } from "../core/job/command.ts";
import type { PerdureEvent } from "../core/job/event.ts";
import type { Usage } from "../core/job/job.ts";
import { RUN_KIND } from "../core/playbook/playbook.ts";
import type { Child, ChildState, HeldParent } from "../core/task/task.ts";
import type { HeldAttempt, RenewAnswer, Report, SettleAnswer, WorkerHealth } from "../core/worker-protocol.ts";
import type { Clock } from "../lib/clock.ts";
import type { ClaimAnswer, DrainAnswer, JobRow, Store, TransactionClient, WithdrawRequest } from "../store/store.ts";
import { ChangePoller } from "./change-poller.ts";
import {
  awaitedPage,
  awaitedStates,
  type ChildPage,
  childPage,
  childStates,
  submitChild,
} from "./children/attempt-children.ts";
import { ChildSweeper } from "./children/child-sweeper.ts";
import { type ClaimOptions, claim } from "./claim.ts";
import { type CommandAnswer, command, jobNotFound } from "./command.ts";
import { type EngineFeedOptions, eventFeed } from "./event-feed.ts";
import { Hub } from "./hub.ts";
import { DEFAULTS } from "./limits.ts";
import type { EngineOptions, EngineParts } from "./parts.ts";
import { Playbooks } from "./playbooks/playbooks.ts";
import { Pruner } from "./pruner.ts";
import { eachEvent } from "./read-job.ts";
import { Reaper } from "./reaper.ts";
import { RunService } from "./runs/run-service.ts";
import { Runs } from "./runs/runs.ts";
import {
  checkUsage,
  drainSession,
  openSession,
  releaseUnheard,
  renew,
  type SessionRequest,
  type UnheardAttempt,
  withdraw,
} from "./session.ts";
import { settle } from "./settle.ts";
import { StoreState } from "./store-state.ts";
import { submit } from "./submit.ts";
import type { SubmitAnswer, SubmitItem } from "./submit-item.ts";
import { TaskDefaults } from "./task-defaults.ts";
import { newUpload, readUpload, writeUpload } from "./upload.ts";
import { type WaitForAnyOptions, waitForAny, waitForEnd } from "./wait-for-end.ts";

export class Engine {
  /** Runs of playbooks. */
  readonly runs: Runs;
  /** The catalog, and the definitions of runs. */
  readonly playbooks: Playbooks;
  readonly #parts: EngineParts;
  readonly #reaper: Reaper;
  readonly #pruner: Pruner;
  readonly #changePoller: ChangePoller;
  readonly #childSweeper: ChildSweeper;
  readonly #runService: RunService;
  readonly #unwatch: () => void;

  constructor(options: EngineOptions) {
    const childSignals = {
      mayContinue: (parents: Iterable<string>) => this.#childSweeper.mayContinue(parents),
      cancelled: () => this.#childSweeper.cancelled(),
    };
    const runSignals = { mayGoOn: (runs: Iterable<string>) => this.#runService.mayGoOn(runs) };
    const defaults = new TaskDefaults(options.store, options.clock);
    const { storeState = new StoreState(options) } = options;
    this.#parts = {
      leaseMs: DEFAULTS.lease,
      ...options,
      hub: new Hub(),
      childSignals,
      runSignals,
      defaults,
      storeState,
    };
    this.#childSweeper = new ChildSweeper(this.#parts);
    this.playbooks = new Playbooks(this.#parts);
    this.#runService = new RunService(this.#parts, this.playbooks);
    this.runs = new Runs(this.#parts, this.playbooks, this.#runService);
    this.#reaper = new Reaper(this.#parts);
    this.#changePoller = new ChangePoller(this.#parts);
    this.#pruner = new Pruner(
      this.#parts,
      options.retention ?? DEFAULTS.retention,
      options.keyWindowMs ?? DEFAULTS.keyWindow,
    );
    this.#unwatch = options.store.watch(() => this.#othersWrote());
  }

  get store(): Store {
    return this.#parts.store;
  }
  get clock(): Clock {
    return this.#parts.clock;
  }
  /** Whether the store works. */
  get storeState(): StoreState {
    return this.#parts.storeState;
  }
  get leaseMs(): number {
    return this.#parts.leaseMs;
  }

  /** Starts reaping and pruning. */
  start(): void {
    this.#reaper.start();
    this.#pruner.start();
    this.#changePoller.start();
    this.#childSweeper.start();
    this.#runService.start();
  }

  async stop(): Promise<void> {
    this.#unwatch();
    await Promise.all([
      this.#reaper.stop(),
      this.#pruner.stop(),
      this.#changePoller.stop(),
      this.#childSweeper.stop(),
      this.#runService.stop(),
    ]);
  }

  submit(items: readonly SubmitItem[], client?: TransactionClient): Promise<SubmitAnswer[]> {
    return submit(this.#parts, items, client);
  }
  claim(session: string, options: ClaimOptions): Promise<ClaimAnswer> {
    return claim(this.#parts, session, options);
  }
  releaseUnheard(session: string, attempts: readonly UnheardAttempt[], options?: { readonly undelivered: boolean }) {
    return releaseUnheard(this.#parts, session, attempts, options);
  }
  withdrawClaim(request: WithdrawRequest): Promise<void> {
    return withdraw(this.#parts, request);
  }
  renew(session: string, held: readonly HeldAttempt[], health?: WorkerHealth | null): Promise<RenewAnswer> {
    return renew(this.#parts, session, held, health);
  }
  report(reports: readonly Report[]): Promise<SettleAnswer[]> {
    return settle(this.#parts, reports);
  }
  command(jobId: string, wanted: Command): Promise<CommandAnswer> {
    return command(this.#parts, jobId, wanted);
  }
  events(options: EngineFeedOptions): AsyncGenerator<PerdureEvent, void, void> {
    return eventFeed(this.#parts, options);
  }
  waitForEnd(jobId: string, chapter: number, options: Parameters<typeof waitForEnd>[3]): Promise<JobRow | null> {
    return waitForEnd(this.#parts, jobId, chapter, options);
  }
  waitForAny(
    jobs: readonly { readonly id: string; readonly chapter: number }[],
    options: WaitForAnyOptions,
  ): ReturnType<typeof waitForAny> {
    return waitForAny(this.#parts, jobs, options);
  }
  /** An id to upload an input under. */
  newUpload(): string {
    return newUpload(this.#parts);
  }
  writeUpload(
    id: string,
    offset: number,
    source: AsyncIterable<Uint8Array>,
    length?: number,
  ): Promise<{ readonly size: number }> {
    return writeUpload(this.#parts, id, offset, source, length);
  }
  readUpload(id: string, namespace?: string): Promise<StdinFile | null> {
    return readUpload(this.#parts, id, namespace);
  }
  /** Deletes now what is due. `by`: who requested it, for the events. */
  async prune(by?: string): Promise<number> {
    const pruned = await this.#pruner.prune(by === undefined ? {} : { by });
    if (pruned > 0) this.#parts.hub.written.fire();
    return pruned;
  }
  /** What the sweep does every few seconds: unblocks parents that may continue, passes cancels on. Work of this kind that is
   *  in progress in this engine has ended too when it resolves. */
  sweepChildren(): Promise<void> {
    return this.#childSweeper.sweep();
  }
  /** Fills in what workers publish for the kinds of the items, as a submit does: for callers that need their queues before. */
  fillDefaults(items: readonly SubmitItem[]): Promise<void> {
    return this.#parts.defaults.fill(items);
  }
  submitChild(parent: Pick<HeldParent, "jobId" | "attempt" | "namespace">, item: SubmitItem): Promise<Child<unknown>> {
    return submitChild(this.#parts, parent, item);
  }
  children(parentId: string): Promise<ChildState[]> {
    return childStates(this.#parts, parentId);
  }
  /** About as many as fit into one reply; `from` is `next` of the page before, null for the first. */
  childPage(parentId: string, from: string | null): Promise<ChildPage> {
    return childPage(this.#parts.store, parentId, from);
  }
  /** For an attempt that waits for them. */
  awaitedChildren(attempt: Pick<HeldParent, "jobId" | "attempt">, ids: readonly string[]): Promise<ChildState[]> {
    return awaitedStates(this.#parts, attempt, ids);
  }
  /** As many of them, from the first on, as fit into one reply: at least one. */
  awaitedPage(attempt: Pick<HeldParent, "jobId" | "attempt">, ids: readonly string[]): Promise<ChildState[]> {
    return awaitedPage(this.#parts, attempt, ids);
  }
  /** The total usage of a running attempt so far. False if it is no longer running. */
  async setUsage(jobId: string, attempt: number, usage: Usage): Promise<boolean> {
    return this.#parts.store.setUsage(jobId, attempt, checkUsage(usage));
  }
  async reap(): Promise<void> {
    await this.#reaper.runOnce();
    await this.#reaper.verdictsSettled();
  }

  async explain(jobId: string): Promise<Explanation> {
    const { store, clock } = this.#parts;
    const history = await store.history(jobId, { events: false });
    if (history === null) throw jobNotFound(jobId);
    if (history.job.kind === RUN_KIND) {
      const ofRun = await this.runs.explain(history.job, async (id) => (await this.explain(id)).summary);
      if (ofRun !== null) return ofRun;
    }
    const { job, lateReports, capableSessions, liveSessions, queuePausedAt, isOrphan } = history;
    const reader = new JobHistoryReader(job.policy);
    for await (const event of eachEvent(store, job)) reader.add(event);
    const around = { lateReports, capableSessions, liveSessions, queuePausedAt, isOrphan };
    return explainHistory(reader.history, { now: clock.now(), ...around });
  }

  /** Opens a session; returns its id. */
  openSession(request: SessionRequest): Promise<string> {
    return openSession(this.#parts, request);
  }
  /** Gives a session no more jobs. It learns that with its next claim or renewal; a waiting claim returns at once. */
  drainSession(id: string, by: string | null = null): Promise<DrainAnswer> {
    return drainSession(this.#parts, id, by);
  }
  async closeSession(id: string): Promise<void> {
    await this.#parts.store.sessions.close(id, this.#parts.clock.now(), "stopped");
    this.#parts.hub.written.fire();
  }
  onCancel(session: string, call: (jobId: string, attempt: number) => void): () => void {
    return this.#parts.hub.onCancel(session, call);
  }

  async setPaused(namespace: string, queue: string, paused: boolean, by: string | null = null): Promise<void> {
    const { store, clock, hub } = this.#parts;
    await store.queues.setPaused(namespace, queue, paused, clock.now(), by);
    hub.ready.fire();
    hub.written.fire();
  }

  /** Wakes all waiting callers of this process: for when the store was closed. */
  wake(): void {
    const { hub } = this.#parts;
    hub.ready.fire();
    hub.written.fire();
    for (const jobId of hub.nextAwaited(Number.POSITIVE_INFINITY)) hub.ended(jobId);
  }

  /** Another process wrote something: waiting callers check again. */
  #othersWrote(): void {
    const { hub, log, storeState } = this.#parts;
    hub.ready.fire();
    hub.written.fire();
    this.#changePoller.poll().catch((error: unknown) => {
      if (!storeState.failed(error, "rounds")) log("warn", `change poll failed: ${String(error)}`);
    });
  }
}
