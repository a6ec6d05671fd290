/** A task that runs periodically in the background: started once, stopped once, never overlapping itself. A failed round is
 *  logged, or counted if the store is at fault, and the next one runs as usual. */
import type { EngineParts } from "./parts.ts";

export abstract class BackgroundService {
  readonly #parts: EngineParts;
  readonly #everyMs: number;
  readonly #name: string;
  #running: Promise<void> | null = null;
  #cancel: (() => void) | null = null;
  #stopped = false;

  constructor(parts: EngineParts, everyMs: number, name: string) {
    this.#parts = parts;
    this.#everyMs = everyMs;
    this.#name = name;
  }

  protected abstract runOnce(): Promise<void>;

  get stopped(): boolean {
    return this.#stopped;
  }

  start(): void {
    this.#schedule(0);
  }

  /** Resolves when the current round has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancel?.();
    await this.#running;
  }

  #schedule(ms: number): void {
    if (this.#stopped) return;
    this.#cancel = this.#parts.clock.after(ms, () => this.#round(), { background: true, recheck: true });
  }

  #round(): void {
    this.#running = this.runOnce()
      .catch((error: unknown) => {
        if (this.#stopped || this.#parts.storeState.failed(error, "rounds")) return;
        this.#parts.log("error", `${this.#name} failed: ${String(error)}`);
      })
      .finally(() => {
        this.#running = null;
        this.#schedule(this.#everyMs);
      });
  }
}
