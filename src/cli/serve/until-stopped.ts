/** Waits for a signal that asks the process to stop. A second one ends it at once. */
const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/** Resolves with the signal's name. */
export function untilStopped(say: (text: string) => void): Promise<keyof typeof SIGNALS> {
  return new Promise((resolve) => {
    let isAsked = false;
    for (const [name, code] of Object.entries(SIGNALS)) {
      process.on(name, () => {
        if (isAsked) process.exit(code);
        isAsked = true;
        say(`${name}: stopping; once more to stop at once`);
        resolve(name as keyof typeof SIGNALS);
      });
    }
  });
}
