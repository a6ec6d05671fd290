/** Ctrl-C cancels the job. The other signals only end us: the job is handed back, uncharged, and can be gone on with. */

export interface Asked {
  readonly kind: "cancel" | "leave";
  readonly exitCode: number;
}

const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/** The first signal. Who presses Ctrl-C again leaves at once: the supervisor ends the command. */
export function untilAsked(): { readonly asked: Promise<Asked>; stop(): void } {
  let stop = () => {};
  const asked = new Promise<Asked>((resolve) => {
    let isFirst = true;
    const handlers = Object.entries(SIGNALS).map(([name, exitCode]) => {
      const handler = () => {
        if (!isFirst && name === "SIGINT") process.exit(exitCode);
        isFirst = false;
        resolve({ kind: name === "SIGINT" ? "cancel" : "leave", exitCode });
      };
      process.on(name, handler);
      return { name, handler };
    });
    stop = () => {
      for (const { name, handler } of handlers) process.off(name, handler);
    };
  });
  return { asked, stop: () => stop() };
}
