/** Signals that ask this process to stop: a first one for an orderly stop, a second one for an exit now. Also waits
 *  that end when a signal comes or when the reader of the output is gone. */

import { setMaxListeners } from "node:events";
import type { CommandContext } from "./command.ts";
import { EXIT } from "./exit.ts";

/** Waits for signals that ask the process to stop. The first asks for a stop in good order, a second one for an end now; one that
 *  comes right behind the first is the same, sent to the process and to its group, as `timeout` does. */
export const SAME_MS = 500;
const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

interface StopSignals {
  /** The name of the first signal. */
  readonly asked: Promise<keyof typeof SIGNALS>;
  /** The exit code of the second. Whoever waits for it ends the process with `exitWithin`. */
  readonly forced: Promise<number>;
}

export function untilStopped(log: (text: string) => void): StopSignals {
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

// Ctrl-C cancels the job. The other signals, and a reader that went away, only end us: what runs here is handed back,
// uncharged, and can be gone on with; what runs on a server runs on.

export interface StopRequest {
  readonly kind: "cancel" | "leave";
  readonly exitCode: number;
}

const SIGNAL_EXIT_CODES = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/** The first signal. A second one means now, whichever it is: `again` is called with its exit code. One other than Ctrl-C that
 *  comes right behind the first is the same, sent to the process and to its group. */
export function onStopSignals(again: (exitCode: number) => void = (exitCode) => process.exit(exitCode)): {
  readonly asked: Promise<StopRequest>;
  stop(): void;
} {
  let stop = () => {};
  const asked = new Promise<StopRequest>((resolve) => {
    let askedAt: number | null = null;
    const handlers = Object.entries(SIGNAL_EXIT_CODES).map(([name, exitCode]) => {
      const handler = () => {
        const now = performance.now();
        if (askedAt !== null) {
          if (name === "SIGINT" || now - askedAt >= SAME_MS) again(exitCode);
          return;
        }
        askedAt = now;
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

/** As a shell has it for a program whose reader went away: 128 + SIGPIPE. */
const NO_READER: StopRequest = { kind: "leave", exitCode: 141 };

/** Resolves when nobody reads our output any more. */
export function untilUnread({ out, io }: Pick<CommandContext, "out" | "io">): Promise<StopRequest> {
  return new Promise((resolve) => {
    if (out.gone.aborted) resolve(NO_READER);
    out.gone.addEventListener("abort", () => resolve(NO_READER));
    io.stderr.once("error", () => resolve(NO_READER));
  });
}

// What goes on until somebody has seen enough: Ctrl-C, another signal, or a reader that went away.

/** The exit code of `use`, or of whoever asked us to stop. `use` is not waited for then: a call to a server that is away
 *  would hold up the end. */
export async function untilInterrupted(
  { out }: Pick<CommandContext, "out">,
  use: (signal: AbortSignal) => Promise<number>,
): Promise<number> {
  const over = new AbortController();
  setMaxListeners(0, over.signal); // hundreds of jobs may be waited for at a time
  const signals = onStopSignals();
  let leave = () => {};
  const unread = new Promise<number>((resolve) => {
    leave = () => resolve(EXIT.done);
    if (out.gone.aborted) leave();
    out.gone.addEventListener("abort", leave);
  });
  const used = use(over.signal);
  try {
    return await Promise.race([used, signals.asked.then(({ exitCode }) => exitCode), unread]);
  } finally {
    over.abort();
    used.catch(() => {}); // who stopped in the middle need not hear of it
    signals.stop();
    out.gone.removeEventListener("abort", leave);
  }
}
