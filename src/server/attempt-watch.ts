/** Attempts whose own tokens hold calls open: says when one of them is over, so that its calls end with it. All of them are
 *  read together, twice a second, and only while there are any. A store that cannot be read ends nothing. */
import type { Clock } from "../lib/clock.ts";
import type { Store } from "../store/store.ts";
import type { JobToken } from "./attempt-credentials.ts";

/** Well within the two seconds after which a token is refused everywhere; one short read each time. */
const CHECK_MS = 500;

interface WatchedAttempt extends JobToken {
  readonly listeners: Set<() => void>;
}

export class AttemptWatch {
  readonly #store: Pick<Store, "facts">;
  readonly #clock: Clock;
  readonly #watched = new Map<string, WatchedAttempt>();
  #isChecking = false;

  constructor(store: Pick<Store, "facts">, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Calls back once when the attempt no longer runs. Returns the way to stop watching. */
  onEnd({ id, attempt }: JobToken, listener: () => void): () => void {
    const name = `${id}.${attempt}`;
    const watched = this.#watched.get(name) ?? { id, attempt, listeners: new Set() };
    this.#watched.set(name, watched);
    watched.listeners.add(listener);
    this.#later();
    return () => {
      watched.listeners.delete(listener);
      if (watched.listeners.size === 0 && this.#watched.get(name) === watched) this.#watched.delete(name);
    };
  }

  #later(): void {
    if (this.#isChecking || this.#watched.size === 0) return;
    this.#isChecking = true;
    const check = () =>
      void this.#check()
        .catch(() => {})
        .then(() => {
          this.#isChecking = false;
          this.#later();
        });
    this.#clock.after(CHECK_MS, check, { background: true });
  }

  async #check(): Promise<void> {
    const all = [...this.#watched];
    if (all.length === 0) return;
    const rows = await this.#store.facts(all.map(([, { id }]) => id));
    all.forEach(([name, watched], i) => {
      if (isRunning(rows[i], watched)) return;
      this.#watched.delete(name);
      for (const listener of watched.listeners) listener();
    });
  }
}

/** Whether a row is of a job that runs this very attempt. */
export function isRunning(
  row: { readonly state: string; readonly attempt: number } | null | undefined,
  { attempt }: JobToken,
): boolean {
  return row?.state === "running" && row.attempt === attempt;
}
