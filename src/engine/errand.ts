/** Work that is done when it is asked for: once more if it is asked for meanwhile, and never twice at once. What fails is
 *  told, and not repeated. */
export class Errand {
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
