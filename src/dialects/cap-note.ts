/** A first delay above the cap is no mistake, but rarely what was meant: the delays then never grow. */

export interface CappedDelay {
  /** Where it stands, from the document's root. */
  readonly path: string;
  /** The field with its value as it was given, as in `initial_delay is 90`. */
  readonly said: string;
  readonly initialMs: number;
  readonly capMs: number;
  /** Runs in all: of one that has no retry nothing is said. */
  readonly runs: number;
}

/** Adds to `notes` where there is something to tell. */
export function noteCap({ path, said, initialMs, capMs, runs }: CappedDelay, notes: string[]): void {
  if (runs < 2 || initialMs <= capMs) return;
  notes.push(`${path}: ${said}, and every retry waits for the cap of ${capMs / 1_000} s.`);
}
