/** Notices that a test waits for something that cannot happen while the virtual clock stands still, as `await job.result()`
 *  of a job whose retry is due in an hour, and rejects with what to do. It is sure of it only when nothing is under way: no
 *  call to the kit, no call of the store, nothing real that Node knows of, for a while. Where something real goes on that may
 *  have nothing to do with the job, it only warns. */
import { PerdureError } from "../core/errors.ts";
import { areTimersFaked, realSleep } from "./real-work.ts";

export interface HangGuardParts {
  /** Whether calls to the kit or of the store are under way, or how many there were so far has changed. */
  readonly activity: () => number | "busy";
  readonly realWork: () => readonly string[];
  /** Whether a handler runs that waits for nothing that can be seen. */
  readonly isHandlerAtWork: () => boolean;
  readonly warn: (message: string) => void;
}

const CHECK_MS = 20;
/** Real time without any activity after which a wait is in vain; longer where a handler may be at work unseen. */
const IDLE_MS = 200;
const IDLE_AT_WORK_MS = 2_000;
const WARN_MS = 1_500;

interface Wait {
  readonly what: string;
  readonly explain: () => Promise<string>;
  readonly reject: (error: Error) => void;
}

export class HangGuard {
  readonly #parts: HangGuardParts;
  readonly #waits = new Set<Wait>();
  #isWatching = false;

  constructor(parts: HangGuardParts) {
    this.#parts = parts;
  }

  /** The same promise, or a rejection if it hangs. `what` is the call; `explain` says more of it. */
  guard<T>(promise: Promise<T>, what: string, explain: () => Promise<string> = async () => ""): Promise<T> {
    return new Promise((resolve, reject) => {
      const wait: Wait = { what, explain, reject };
      this.#waits.add(wait);
      promise.then(resolve, reject).finally(() => this.#waits.delete(wait));
      if (!this.#isWatching) void this.#watch();
    });
  }

  async #watch(): Promise<void> {
    this.#isWatching = true;
    let before: number | "busy" = "busy";
    let [idleMs, quietMs] = [0, 0];
    while (this.#waits.size > 0) {
      await realSleep(CHECK_MS);
      const { activity, realWork, isHandlerAtWork, warn } = this.#parts;
      const now = activity();
      const isIdle = now !== "busy" && now === before;
      before = now;
      quietMs = isIdle ? quietMs + CHECK_MS : 0;
      idleMs = isIdle && realWork().length === 0 ? idleMs + CHECK_MS : 0;
      if (idleMs >= (isHandlerAtWork() ? IDLE_AT_WORK_MS : IDLE_MS)) await this.#refuseAll();
      else if (quietMs === WARN_MS) for (const wait of this.#waits) warn(await textOf(wait));
    }
    this.#isWatching = false;
  }

  async #refuseAll(): Promise<void> {
    for (const wait of [...this.#waits]) {
      this.#waits.delete(wait);
      wait.reject(new PerdureError("result_timeout", await textOf(wait)));
    }
  }
}

async function textOf({ what, explain }: Wait): Promise<string> {
  const more = await explain().catch(() => "");
  return (
    `${what} waits, and the virtual clock stands still: move it first, with await kit.runToEnd(job) or ` +
    `await kit.advance("30s").${more === "" ? "" : `\n${more}`}${fakedTimers()}`
  );
}

/** Empty where they are not. */
export function fakedTimers(): string {
  if (!areTimersFaked()) return "";
  return (
    "\nThe global timers are faked (vi.useFakeTimers, jest.useFakeTimers, sinon): a handler that waits by setTimeout waits " +
    "for that clock, which the kit does not move. Wait by kit.clock.sleep(…), or leave setTimeout real."
  );
}
