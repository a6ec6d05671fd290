/** Advances runs: loads those that something happened to, decides with the pure `advance`, and writes what follows. It is asked
 *  after each commit that concerns a run, by an alarm for the next timer, and finds by a sweep each second what a crash or another
 *  process left. Any number of engines may do it at once: what another engine wrote meanwhile is loaded again. */
import { advance } from "../../core/run/advance.ts";
import type { AdvancePlan } from "../../core/run/plan.ts";
import type { LoadedRun } from "../../core/run/run.ts";
import { nextTurn } from "../../lib/clock.ts";
import type { AdvanceAnswer, AdvanceWrite, NewJob, RunStore } from "../../store/store.ts";
import { BackgroundService } from "../background-service.ts";
import { DEFAULTS } from "../limits.ts";
import { notifyObserver } from "../observer.ts";
import type { EngineParts } from "../parts.ts";
import type { Playbooks } from "../playbooks/playbooks.ts";
import { definitionOf, RunFacts } from "./run-facts.ts";
import { RunMemory } from "./run-memory.ts";
import { redriveBelow, stopSteps } from "./run-steps.ts";
import { stepJob } from "./step-jobs.ts";

/** Runs that are loaded and written together. */
const BATCH = 200;
/** Runs that a sweep takes at once; it continues while there are more. */
const SWEPT = 1_000;
/** Inputs of steps that are held in memory before they are written, in characters. */
const WRITTEN_CHARS = 8_388_608;
/** Decisions hold the event loop for at most this long. */
const YIELD_MS = 20;
/** A message this young is being handled by the engine that wrote it. */
const YOUNG_MS = 750;
/** What is loaded in one decision; one that needs more is a mistake in it. */
const MAX_ROUNDS = 2_000;
const RETRY_MS = { first: 1_000, most: 60_000 };
const MAX_TROUBLES = 1_000;

/** A run that cannot be advanced, because of a mistake in this version. */
export interface RunTrouble {
  readonly message: string;
  readonly since: number;
  readonly retryAt: number;
}

interface Prepared {
  readonly loaded: LoadedRun;
  readonly plan: AdvancePlan;
  readonly jobs: readonly NewJob[];
  readonly write: AdvanceWrite;
}

export class RunService extends BackgroundService {
  readonly #parts: EngineParts;
  readonly #playbooks: Playbooks;
  readonly #facts: RunFacts;
  readonly #memory = new RunMemory();
  readonly #troubles = new Map<string, RunTrouble & { readonly times: number }>();
  /** Those that something happened to. */
  readonly #due = new Set<string>();
  /** Being advanced now. */
  readonly #busy = new Set<string>();
  readonly #atOnce: number;
  #working = 0;
  #isClosing = false;
  #idle: (() => void)[] = [];
  #alarm: { readonly at: number; readonly cancel: () => void } | null = null;

  constructor(parts: EngineParts, playbooks: Playbooks) {
    super(parts, DEFAULTS.poll, "sweep of runs");
    this.#parts = parts;
    this.#playbooks = playbooks;
    this.#facts = new RunFacts(parts.store.runs, playbooks);
    this.#atOnce = parts.store.lists.beside ? BESIDE : 1;
  }

  get #runs(): RunStore {
    return this.#parts.store.runs;
  }

  /** Something happened to these runs. */
  mayGoOn(runs: Iterable<string>): void {
    if (this.#isClosing) return;
    for (const id of runs) this.#due.add(id);
    this.#begin();
  }

  /** Why a run cannot advance; null if nothing is wrong with it. */
  troubleOf(run: string): RunTrouble | null {
    return this.#troubles.get(run) ?? null;
  }

  override async runOnce(): Promise<void> {
    await this.#sweep(false);
  }

  /** Everything that is due now, whoever wrote it; resolves when it is done. */
  async sweep(): Promise<void> {
    await this.#sweep(true);
    await this.#quiet();
  }

  /** What is due already is done first: a process that cancels a run and exits has cancelled its steps. */
  override async stop(): Promise<void> {
    this.#isClosing = true;
    this.#alarm?.cancel();
    await this.#quiet();
    await super.stop();
    await this.#quiet();
  }

  #quiet(): Promise<void> {
    if (this.#working === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  async #sweep(isAll: boolean): Promise<void> {
    const now = this.#parts.clock.now();
    const { runs, nextAt } = await this.#runs.due({
      now,
      limit: SWEPT,
      writtenBefore: isAll ? now + 1 : now - YOUNG_MS,
    });
    this.#wakeAt(nextAt);
    if (runs.length > 0) this.mayGoOn(runs);
  }

  #wakeAt(at: number | null): void {
    if (at === null || this.#isClosing || (this.#alarm !== null && this.#alarm.at <= at)) return;
    this.#alarm?.cancel();
    const { clock, log, storeState } = this.#parts;
    const call = () => {
      this.#alarm = null;
      this.#sweep(false).catch((error: unknown) => {
        if (!this.stopped && !storeState.failed(error, "rounds")) log("warn", `alarm of runs failed: ${String(error)}`);
      });
    };
    this.#alarm = { at, cancel: clock.after(Math.max(0, at - clock.now()), call, { background: true }) };
  }

  #begin(): void {
    while (this.#working < this.#atOnce && !this.stopped && this.#hasWork()) {
      this.#working += 1;
      void this.#work();
    }
  }

  #hasWork(): boolean {
    for (const id of this.#due) if (!this.#busy.has(id)) return true;
    return false;
  }

  async #work(): Promise<void> {
    const { clock, log, storeState } = this.#parts;
    try {
      // All that is reported in this turn of the event loop belongs into one write, which shares the commit of its claims.
      await new Promise<void>((resolve) => clock.tick(resolve));
      for (let ids = this.#take(); ids.length > 0 && !this.stopped; ids = this.#take()) {
        try {
          await this.#advance(ids);
        } catch (error) {
          // The next sweep repeats it.
          if (!this.stopped && !storeState.failed(error, "rounds"))
            log("error", `runs cannot advance: ${String(error)}`);
        } finally {
          for (const id of ids) this.#busy.delete(id);
        }
      }
    } finally {
      this.#working -= 1;
      if (this.#working === 0) for (const call of this.#idle.splice(0)) call();
      this.#begin();
    }
  }

  #take(): string[] {
    const ids: string[] = [];
    for (const id of this.#due) {
      if (this.#busy.has(id)) continue;
      this.#due.delete(id);
      const trouble = this.#troubles.get(id);
      if (trouble !== undefined && this.#parts.clock.now() < trouble.retryAt) continue;
      this.#busy.add(id);
      if (ids.push(id) === BATCH) break;
    }
    return ids;
  }

  async #advance(ids: readonly string[]): Promise<void> {
    const { clock } = this.#parts;
    const now = clock.now();
    let prepared: Prepared[] = [];
    let chars = 0;
    let since = clock.monotonic();
    for (const loaded of await this.#runs.load(ids, now, this.#memory.known)) {
      if (loaded === null) continue;
      if (clock.monotonic() - since >= YIELD_MS) {
        await nextTurn(clock);
        since = clock.monotonic();
      }
      try {
        const one = await this.#prepare(loaded, now);
        this.#troubles.delete(loaded.run.id);
        prepared.push(one);
        for (const { payload } of one.jobs) chars += payload.length;
      } catch (error) {
        this.#note(loaded.run.id, error);
      }
      if (chars < WRITTEN_CHARS) continue;
      await this.#write(prepared, now);
      prepared = [];
      chars = 0;
    }
    if (prepared.length > 0) await this.#write(prepared, now);
  }

  async #write(prepared: readonly Prepared[], now: number): Promise<void> {
    await this.#before(prepared);
    let answers: AdvanceAnswer[];
    try {
      answers = await this.#runs.advance(
        prepared.map(({ write }) => write),
        now,
      );
    } catch (error) {
      await this.#writeEach(prepared, now, error);
      return;
    }
    const written = prepared.filter((_, i) => answers[i]?.status === "written");
    prepared.forEach(({ loaded }, i) => {
      if (answers[i]?.status === "moved" && !this.#isClosing) this.#due.add(loaded.run.id);
    });
    if (written.length > 0) this.#after(written);
  }

  /** What the store refuses of one run must not stop the others. */
  async #writeEach(prepared: readonly Prepared[], now: number, error: unknown): Promise<void> {
    const [first] = prepared as [Prepared];
    if (prepared.length === 1) this.#note(first.loaded.run.id, error);
    else if (!this.stopped && !this.#parts.storeState.failed(error, "rounds")) {
      for (const one of prepared) await this.#write([one], now);
    }
  }

  /** An outage of the store is not the run's fault. */
  #note(run: string, error: unknown): void {
    const { clock, log, storeState } = this.#parts;
    if (this.stopped || storeState.failed(error, "rounds")) return;
    const before = this.#troubles.get(run);
    const times = (before?.times ?? 0) + 1;
    const now = clock.now();
    const message = error instanceof Error ? error.message : String(error);
    if (before?.message !== message) log("error", `cannot advance ${run}: ${(error as Error)?.stack ?? message}`);
    if (this.#troubles.size >= MAX_TROUBLES) this.#troubles.clear();
    const retryAt = now + Math.min(RETRY_MS.most, RETRY_MS.first * 2 ** Math.min(times - 1, 6));
    this.#troubles.set(run, { message, since: before?.since ?? now, retryAt, times });
  }

  async #prepare(loaded: LoadedRun, now: number): Promise<Prepared> {
    const { newId } = this.#parts;
    const definition = definitionOf(loaded);
    const playbook = await this.#playbooks.load(definition);
    const { run } = loaded;
    const before = definition === run.playbook ? null : await this.#playbooks.load(run.playbook);
    const known = this.#facts.empty();
    const input = { loaded, playbook, before, now, newJobId: () => newId("job"), known };
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const result = advance(input);
      if (result.kind === "plan") return prepared(loaded, result.plan, now);
      await this.#facts.add(known, result.needs, loaded, playbook);
    }
    throw new Error(`a decision needs more than ${MAX_ROUNDS} rounds`);
  }

  /** What must have happened before the decision is written: if the process ends in between, the decision is made again. */
  async #before(prepared: readonly Prepared[]): Promise<void> {
    for (const { plan, loaded } of prepared) {
      if (plan.stop) this.mayGoOn(await stopSteps(this.#parts, loaded.run));
      if (plan.redrive.length > 0) this.mayGoOn(await redriveBelow(this.#parts, loaded.run.id, plan.redrive));
    }
  }

  #after(written: readonly Prepared[]): void {
    const { hub, childSignals } = this.#parts;
    const fresh: NewJob[] = [];
    const next: string[] = [];
    const parents: string[] = [];
    for (const { loaded, plan, jobs, write } of written) {
      const { job } = loaded;
      this.#memory.written(loaded, write);
      this.#facts.written(job.id, write.changed);
      for (const made of jobs) {
        fresh.push(made);
        if (made.run !== undefined) next.push(made.id);
      }
      if (plan.send.length > 0 || loaded.hasMoreMessages) next.push(job.id);
      for (const { dueAt } of plan.timers.set) this.#wakeAt(dueAt);
      if (!plan.transitions.some(({ event }) => event.name === "run.ended")) continue;
      hub.ended(job.id);
      if (job.runId !== null) next.push(job.runId);
      else if (job.parentId !== null) parents.push(job.parentId);
    }
    if (fresh.length > 0) {
      hub.ready.fire();
      notifyObserver(this.#parts, (observer) => observer.submitted?.(fresh));
    }
    hub.written.fire();
    if (parents.length > 0) childSignals.mayContinue(parents);
    if (next.length > 0) this.mayGoOn(next);
  }
}

/** Batches that are decided while others are being written, if the store writes beside this process. */
const BESIDE = 3;

function prepared(loaded: LoadedRun, plan: AdvancePlan, now: number): Prepared {
  const jobs = plan.jobs.map((planned) => stepJob(loaded, planned, now));
  const { transitions, progress, made, changed, variables, read, send, timers } = plan;
  const { playbook, pins, data, deadlineAt, result, failure } = plan;
  const write: AdvanceWrite = {
    run: loaded.run.id,
    revision: loaded.job.revision,
    transitions,
    progress,
    made,
    changed,
    jobs,
    variables,
    read,
    send,
    timers,
    ...(playbook === undefined ? {} : { playbook }),
    ...(pins === undefined ? {} : { pins }),
    ...(data === undefined ? {} : { data }),
    ...(deadlineAt === undefined ? {} : { deadlineAt }),
    ...(result === undefined ? {} : { result }),
    ...(failure === undefined ? {} : { failure }),
  };
  return { loaded, plan, jobs, write };
}
