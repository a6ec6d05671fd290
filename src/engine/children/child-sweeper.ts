/** Unblocks parents whose children have ended and starts the cancel cascade. Both run after the commit that made them
 *  due; a periodic sweep finds what a crash left undone. Any number of engines may do it at once: each change is
 *  checked again under the row's lock, the parent's lock before the child's. */
import { type Command, decideCommand } from "../../core/job/command.ts";
import { BackgroundService } from "../background-service.ts";
import { DEFAULTS } from "../limits.ts";
import type { EngineParts } from "../parts.ts";
import { cascadeCancels } from "./cascade.ts";

/** Work that runs on request: again if it is requested meanwhile, and never concurrently. Errors are reported, not repeated. */
class CoalescedCall {
  readonly #work: () => Promise<void>;
  readonly #failed: (error: unknown) => void;
  #isRequested = false;
  #working: Promise<void> | null = null;

  constructor(work: () => Promise<void>, failed: (error: unknown) => void) {
    this.#work = work;
    this.#failed = failed;
  }

  request(): void {
    this.#isRequested = true;
    this.#working ??= this.#run();
  }

  /** Resolves when everything requested until now is done. */
  async done(): Promise<void> {
    await this.#working;
  }

  async #run(): Promise<void> {
    while (this.#isRequested) {
      this.#isRequested = false;
      await this.#work().catch(this.#failed);
    }
    this.#working = null;
  }
}

const BATCH = 200;
/** Checks of one sweep, each of a thousand blocked jobs: the next sweep continues. */
const PAGES_PER_SWEEP = 20;

export class ChildSweeper extends BackgroundService {
  readonly #parts: EngineParts;
  readonly #wakes: CoalescedCall;
  readonly #cancels: CoalescedCall;
  #parents = new Set<string>();

  constructor(parts: EngineParts) {
    super(parts, DEFAULTS.sweepEvery, "child sweep");
    this.#parts = parts;
    // The periodic sweep repeats it.
    const failed = (error: unknown) => {
      if (this.stopped || parts.storeState.failed(error, "rounds")) return;
      parts.log("warn", `child sweep failed: ${String(error)}`);
    };
    this.#wakes = new CoalescedCall(() => this.#wake(), failed);
    this.#cancels = new CoalescedCall(() => this.#passOn(), failed);
  }

  /** These parents may continue: a child of theirs has ended, or they have just begun to wait. */
  mayContinue(parents: Iterable<string>): void {
    for (const id of parents) this.#parents.add(id);
    if (this.#parents.size > 0) this.#wakes.request();
  }

  /** A job was cancelled that may have children. */
  cancelled(): void {
    this.#cancels.request();
  }

  override async runOnce(): Promise<void> {
    for (let page = 0; page < PAGES_PER_SWEEP && !this.stopped; page++) if (!(await this.#unblock(null))) break;
    await this.#passOn();
  }

  /** Sweeps now, after the work in progress. Not for the rounds: under constant requests that work never ends. */
  async sweep(): Promise<void> {
    await this.#idle();
    await this.runOnce();
  }

  /** Finishes the work in progress first: a process that cancels a job and exits has cancelled its children too. */
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

  /** Of these parents, or of some of all. Returns whether there are more to check. */
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
