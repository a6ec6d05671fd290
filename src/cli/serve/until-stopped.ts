/** Waits for signals that ask the process to stop. The first asks for a stop in good order, a second one for an end now; one that
 *  comes right behind the first is the same, sent to the process and to its group, as `timeout` does. */
export const SAME_MS = 500;
const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

export interface Stopping {
  /** The name of the first signal. */
  readonly asked: Promise<keyof typeof SIGNALS>;
  /** The exit code of the second. Whoever waits for it ends the process with `exitWithin`. */
  readonly forced: Promise<number>;
}

export function untilStopped(log: (text: string) => void): Stopping {
  let askedAt: number | null = null;
  let ask: (name: keyof typeof SIGNALS) => void = () => {};
  let force: (code: number) => void = () => {};
  const asked = new Promise<keyof typeof SIGNALS>((resolve) => {
    ask = resolve;
  });
  const forced = new Promise<number>((resolve) => {
    force = resolve;
  });
  for (const [name, code] of Object.entries(SIGNALS)) {
    process.on(name, () => {
      const now = performance.now();
      if (askedAt !== null && now - askedAt < SAME_MS) return;
      if (askedAt !== null) return force(code);
      askedAt = now;
      log(`${name}: stopping; once more to stop at once`);
      ask(name as keyof typeof SIGNALS);
    });
  }
  return { asked, forced };
}

/** Of a process that must end now: long enough to kill its commands and to record them as interrupted. When it is over the
 *  process exits, and the supervisor kills what is left: all of it within a second. */
export const LAST_MS = 500;
/** Of a worker with a parent, which waits for it. */
export const CHILD_LAST_MS = 300;

/** Ends this process after so long at the latest, whatever it still waits for. It is kept alive until then, unless what is
 *  returned is called: for one that is about to end by itself. */
export function exitWithin(code: number, ms: number): () => void {
  const timer = setTimeout(() => process.exit(code), ms);
  return () => timer.unref();
}
