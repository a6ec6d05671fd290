/** A store that reopens itself after its disk failed, or after its file was moved away and back. After a failed flush
 *  the system may drop what it held, so the handle is not used again for writes: the file is opened again, checked and
 *  written to, and only then replaces the broken handle. Until then reads use the old handle, and writes are refused as
 *  not stored. Does not reopen a damaged database: that needs an operator and a backup. */
import type { Clock } from "../../lib/clock.ts";
import type { Store } from "../store.ts";
import type { BrokenStore } from "./writer.ts";

export interface Reopening {
  /** The store, opened; `onBroken` is called at most once. */
  readonly first: (onBroken: (broken: BrokenStore) => void) => Store;
  /** Opens the same database again, and has written to it. */
  readonly reopen: (onBroken: (broken: BrokenStore) => void) => Promise<Store>;
  readonly clock: Pick<Clock, "after">;
  readonly random: () => number;
  /** Receives messages for the operator. */
  readonly report: (message: string) => void;
}

/** The first retry follows at once: most errors are transient. The longest pause balances a quick recovery against
 *  needless retries. */
const [FIRST_PAUSE_MS, LONGEST_PAUSE_MS] = [100, 5_000];
/** If the store breaks again within this time, the pauses continue to grow. */
const STEADY_MS = 30_000;

export function reopeningStore({ first, reopen, clock, random, report }: Reopening): Store {
  let fault: ReturnType<NonNullable<Store["fault"]>> = null;
  let isClosed = false;
  let pauseMs = 0;
  let tries = 0;
  let cancelTimer = () => {};
  let trying: Promise<void> = Promise.resolve();
  const listeners = new Map<() => void, () => void>();

  function onBroken({ cause, opensWhen }: BrokenStore): void {
    fault = { kind: opensWhen === null ? "damaged" : "disk", cause };
    cancelTimer();
    if (opensWhen === null) {
      report(
        `store_down: the database is not accepting writes (${cause}); stop all processes that use it and restore a backup`,
      );
      return;
    }
    report(`store_down: the database is not accepting writes (${cause}); it will be reopened when ${opensWhen}`);
    tries = 0;
    schedule();
  }

  function schedule(): void {
    if (isClosed) return;
    const tryAgain = () => {
      trying = tryToOpen();
    };
    cancelTimer = clock.after(pauseMs * (0.5 + random() / 2), tryAgain);
    pauseMs = Math.min(LONGEST_PAUSE_MS, Math.max(FIRST_PAUSE_MS, pauseMs * 2));
  }

  async function tryToOpen(): Promise<void> {
    tries += 1;
    let next: Store;
    try {
      next = await reopen(onBroken);
    } catch (error) {
      const cause = (error as Error).message;
      if (cause !== fault?.cause) report(`store_down: reopening the database failed: ${cause}`);
      fault = { kind: "disk", cause };
      schedule();
      return;
    }
    if (isClosed) return next.close();
    await takeOver(next);
  }

  async function takeOver(next: Store): Promise<void> {
    const last = current;
    current = next;
    fault = null;
    const rest = () => {
      pauseMs = 0;
    };
    cancelTimer = clock.after(STEADY_MS, rest, { background: true });
    report(`store_up: the database was reopened (attempt ${tries})`);
    for (const listener of listeners.keys()) listeners.set(listener, next.watch(listener));
    await last.close().catch(() => {}); // nothing left to write
    for (const listener of [...listeners.keys()]) listener(); // anything may have changed meanwhile
  }

  let current = first(onBroken);
  return {
    ...forwarding(current, () => current),
    fault: () => fault,
    watch(listener) {
      listeners.set(listener, current.watch(listener));
      return () => {
        listeners.get(listener)?.();
        listeners.delete(listener);
      };
    },
    async close() {
      isClosed = true;
      cancelTimer();
      await trying;
      await current.close();
    },
  };
}

/** The same methods, parts and values. Each call goes to the target of its moment, which has the same shape. */
function forwarding<Target extends object>(shape: Target, target: () => Target): Target {
  const members = Object.entries(shape).map(([name, value]: [string, unknown]) => {
    const member = () => target()[name as keyof Target];
    if (typeof value === "object" && value !== null) return [name, forwarding(value, member as () => object)] as const;
    if (typeof value !== "function") return [name, value] as const;
    return [name, (...args: unknown[]) => (member() as (...all: unknown[]) => unknown)(...args)] as const;
  });
  return Object.fromEntries(members) as unknown as Target;
}
