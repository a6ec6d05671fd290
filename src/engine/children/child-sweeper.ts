/** Unblocks parents whose children have ended and starts the cancel cascade. Both run after the commit that made them
 *  due; a periodic sweep finds what a crash left undone. Any number of engines may do it at once: each change is
 *  checked again under the row's lock, the parent's lock before the child's. */
import { type Command, decideCommand } from "../../core/job/command.ts";
import { BackgroundService } from "../background-service.ts";
import { DEFAULTS } from "../limits.ts";
import type { EngineParts } from "../parts.ts";
import { cascadeCancels } from "./cascade.ts";

/** Work that is done when it is asked for: once more if it is asked for meanwhile, and never twice at once. What fails is
 *  told, and not repeated. */
class CoalescedCall {
  readonly #work: () => Promise<void>;
  readonly #failed: (error: unknown) => void;
  #isAsked = false;
  #working: Promise<void> | null = null;

  constructor(work: () => Promise<void>, failed: (error: unknown) => void) {
    this.#work = work;
    this.#failed = failed;
  }

  ask(): void {
    this.#isAsked = true;
    this.#working ??= this.#workOff();
  }

  /** Resolves when all that was asked for until now is done. */
  async done(): Promise<void> {
    await this.#working;
  }

  async #workOff(): Promise<void> {
    while (this.#isAsked) {
      this.#isAsked = false;
      await this.#work().catch(this.#failed);
    }
    this.#working = null;
  }
}

// What passes between parents and children: a parent whose children have ended is queued again, and a cancel is
// passed on to all children. Both follow after the commit that made them due, and are found again by a sweep, should
// this process end in between: what waits is written in the store. Any number of engines may do it at once; each
// change is checked again under the row's lock. Locks are taken in the order of generations: the parent's before the
// child's.

const BATCH = 200;
/** Looks of one sweep, each at a thousand blocked jobs: what more there are is for the next one. */
const PAGES_PER_SWEEP = 20;

export class ChildSweeper extends BackgroundService {
  readonly #parts: EngineParts;
  readonly #wakes: CoalescedCall;
  readonly #cancels: CoalescedCall;
  #parents = new Set<string>();

  constructor(parts: EngineParts) {
    super(parts, DEFAULTS.sweepEvery, "kin");
    this.#parts = parts;
    // The sweep finds what was lost.
    const failed = (error: unknown) => {
      if (this.stopped || parts.storeState.failed(error, "rounds")) return;
      parts.log("warn", `kin: ${String(error)}`);
    };
    this.#wakes = new CoalescedCall(() => this.#wake(), failed);
    this.#cancels = new CoalescedCall(() => this.#passOn(), failed);
  }

  /** These jobs may go on: a child of theirs has ended, or they have just begun to wait. */
  mayGoOn(parents: Iterable<string>): void {
    for (const id of parents) this.#parents.add(id);
    if (this.#parents.size > 0) this.#wakes.ask();
  }

  /** A job was cancelled that may have children. */
  cancelled(): void {
    this.#cancels.ask();
  }

  override async runOnce(): Promise<void> {
    for (let look = 0; look < PAGES_PER_SWEEP && !this.stopped; look++) if (!(await this.#unblock(null))) break;
    await this.#passOn();
  }

  /** At once, after what was begun. Not for the rounds: while wakes come without a pause there is no end to wait for. */
  async sweep(): Promise<void> {
    await this.#idle();
    await this.runOnce();
  }

  /** What was begun is ended first: whoever cancels a job and leaves has cancelled its children too. */
  override async stop(): Promise<void> {
    await this.#idle();
    await super.stop();
    await this.#idle();
  }

  async #idle(): Promise<void> {
    await Promise.all([this.#wakes.done(), this.#cancels.done()]);
  }

  #passOn(): Promise<void> {
    return cascadeCancels(this.#parts, () => this.stopped);
  }

  async #wake(): Promise<void> {
    while (this.#parents.size > 0) {
      const parents = [...this.#parents].slice(0, BATCH);
      for (const id of parents) this.#parents.delete(id);
      await this.#unblock(parents);
    }
  }

  /** Of these, or of some of all. Whether there are more to look at. */
  async #unblock(parents: readonly string[] | null): Promise<boolean> {
    const { store, clock, hub } = this.#parts;
    const { jobs, more } = await store.children.unblockable({ parents, limit: BATCH });
    if (jobs.length === 0) return more;
    const now = clock.now();
    const commands = jobs.map(({ jobId, attempt }) => {
      return { jobId, command: { kind: "unblock", attempt, runAt: now, by: null } satisfies Command };
    });
    await store.amend(commands, now, (job, asked) => decideCommand(job, asked, now));
    hub.ready.fire();
    hub.written.fire();
    return more;
  }
}
