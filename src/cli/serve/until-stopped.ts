/** Waits for a signal that asks the process to stop. A second one ends it at once; one that comes right behind the first is
 *  the same, sent to us and to our group, as `timeout` does. */
const SAME_MS = 500;
const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/** Resolves with the signal's name. */
export function untilStopped(say: (text: string) => void): Promise<keyof typeof SIGNALS> {
  return new Promise((resolve) => {
    let askedAt: number | null = null;
    for (const [name, code] of Object.entries(SIGNALS)) {
      process.on(name, () => {
        const now = performance.now();
        if (askedAt !== null && now - askedAt < SAME_MS) return;
        if (askedAt !== null) process.exit(code);
        askedAt = now;
        say(`${name}: stopping; once more to stop at once`);
        resolve(name as keyof typeof SIGNALS);
      });
    }
  });
}
