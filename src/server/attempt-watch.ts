/** Watches the attempts whose job tokens have calls open, so that these calls end with the attempt. All attempts are read in one
 *  query, twice a second, and only while there are any. While the store cannot be read, no call is ended. */
import type { Clock } from "../lib/clock.ts";
import type { Store } from "../store/store.ts";
import type { JobToken } from "./attempt-credentials.ts";

/** Well within the two seconds after which a token is refused on all servers. */
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

  /** Calls back once when the attempt is no longer running. Returns a function that stops watching. */
  onEnd({ id, attempt }: JobToken, listener: () => void): () => void {
    const name = `${id}.${attempt}`;
    const watched = this.#watched.get(name) ?? { id, attempt, listeners: new Set() };
    this.#watched.set(name, watched);
    watched.listeners.add(listener);
    this.#schedule();
    return () => {
      watched.listeners.delete(listener);
      if (watched.listeners.size === 0 && this.#watched.get(name) === watched) this.#watched.delete(name);
    };
  }

  #schedule(): void {
    if (this.#isChecking || this.#watched.size === 0) return;
    this.#isChecking = true;
    const check = () =>
      void this.#check()
        .catch(() => {})
        .then(() => {
          this.#isChecking = false;
          this.#schedule();
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

/** Whether the job is running this attempt. */
export function isRunning(
  row: { readonly state: string; readonly attempt: number } | null | undefined,
  { attempt }: JobToken,
): boolean {
  return row?.state === "running" && row.attempt === attempt;
}
