/** Signals that stop this process: the first one starts a graceful shutdown, a second one forces an immediate exit. Also
 *  waits that end on a signal, or when the reader of the output has closed it. */

import { setMaxListeners } from "node:events";
import type { CommandContext } from "./command.ts";
import { EXIT } from "./exit.ts";

/** A signal within this time after the first is the same one, sent to the process and to its group, as `timeout` does. */
export const SAME_MS = 500;
const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

interface StopSignals {
  /** The name of the first signal. */
  readonly requested: Promise<keyof typeof SIGNALS>;
  /** The exit code of the second. The caller then ends the process with `exitWithin`. */
  readonly forced: Promise<number>;
}

export function untilStopped(log: (text: string) => void): StopSignals {
  let requestedAt: number | null = null;
  let request: (name: keyof typeof SIGNALS) => void = () => {};
  let force: (code: number) => void = () => {};
  const requested = new Promise<keyof typeof SIGNALS>((resolve) => {
    request = resolve;
  });
  const forced = new Promise<number>((resolve) => {
    force = resolve;
  });
  for (const [name, code] of Object.entries(SIGNALS)) {
    process.on(name, () => {
      const now = performance.now();
      if (requestedAt !== null && now - requestedAt < SAME_MS) return;
      if (requestedAt !== null) return force(code);
      requestedAt = now;
      log(`received ${name}, shutting down; send it again to exit now`);
      request(name as keyof typeof SIGNALS);
    });
  }
  return { requested, forced };
}

/** Time for a forced exit: long enough to kill its commands and to record them as interrupted. Then the process exits, and
 *  the supervisor kills what is left: all of it within a second. */
export const LAST_MS = 500;
/** The same for a worker process of `perdure up`, which waits for it. */
export const CHILD_LAST_MS = 300;

/** Ends this process after `ms` at the latest, whatever it still waits for. The timer keeps it alive until then, unless the
 *  returned function is called: for a process that is about to end by itself. */
export function exitWithin(code: number, ms: number): () => void {
  const timer = setTimeout(() => process.exit(code), ms);
  return () => timer.unref();
}

// Ctrl-C cancels the job. The other signals, and a closed output, end this process only: a job that runs here is
// interrupted, which does not count as an attempt, and can be resumed; a job on a server keeps running.

export interface StopRequest {
  readonly kind: "cancel" | "leave";
  readonly exitCode: number;
}

const SIGNAL_EXIT_CODES = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/** The first signal. At a second one, whichever it is, `again` is called with its exit code. One other than Ctrl-C within
 *  `SAME_MS` of the first is the same, sent to the process and to its group. */
export function onStopSignals(again: (exitCode: number) => void = (exitCode) => process.exit(exitCode)): {
  readonly requested: Promise<StopRequest>;
  stop(): void;
} {
  let stop = () => {};
  const requested = new Promise<StopRequest>((resolve) => {
    let requestedAt: number | null = null;
    const handlers = Object.entries(SIGNAL_EXIT_CODES).map(([name, exitCode]) => {
      const handler = () => {
        const now = performance.now();
        if (requestedAt !== null) {
          if (name === "SIGINT" || now - requestedAt >= SAME_MS) again(exitCode);
          return;
        }
        requestedAt = now;
        resolve({ kind: name === "SIGINT" ? "cancel" : "leave", exitCode });
      };
      process.on(name, handler);
      return { name, handler };
    });
    stop = () => {
      for (const { name, handler } of handlers) process.off(name, handler);
    };
  });
  return { requested, stop: () => stop() };
}

/** The exit code that shells report when the reader of a pipe has closed it: 128 + SIGPIPE. */
const NO_READER: StopRequest = { kind: "leave", exitCode: 141 };

/** Resolves when the reader of our output has closed it. */
export function untilUnread({ out, io }: Pick<CommandContext, "out" | "io">): Promise<StopRequest> {
  return new Promise((resolve) => {
    if (out.gone.aborted) resolve(NO_READER);
    out.gone.addEventListener("abort", () => resolve(NO_READER));
    io.stderr.once("error", () => resolve(NO_READER));
  });
}

/** Runs `use` until it ends, a signal comes or the output is closed, and returns the exit code of that. `use` is not waited
 *  for after a signal: a call to an unreachable server would delay the exit. */
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
    return await Promise.race([used, signals.requested.then(({ exitCode }) => exitCode), unread]);
  } finally {
    over.abort();
    used.catch(() => {}); // after a stop its error is of no interest
    signals.stop();
    out.gone.removeEventListener("abort", leave);
  }
}
