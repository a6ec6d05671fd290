/** Ctrl-C cancels the job. The other signals, and a reader that went away, only end us: what runs here is handed back,
 *  uncharged, and can be gone on with; what runs on a server runs on. */
import type { Context } from "../command.ts";
import { SAME_MS } from "../serve/until-stopped.ts";

export interface Asked {
  readonly kind: "cancel" | "leave";
  readonly exitCode: number;
}

const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/** The first signal. A second one means now, whichever it is: `again` is called with its exit code. One other than Ctrl-C that
 *  comes right behind the first is the same, sent to the process and to its group. */
export function untilAsked(again: (exitCode: number) => void = (exitCode) => process.exit(exitCode)): {
  readonly asked: Promise<Asked>;
  stop(): void;
} {
  let stop = () => {};
  const asked = new Promise<Asked>((resolve) => {
    let askedAt: number | null = null;
    const handlers = Object.entries(SIGNALS).map(([name, exitCode]) => {
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
const NO_READER: Asked = { kind: "leave", exitCode: 141 };

/** Resolves when nobody reads our output any more. */
export function untilUnread({ out, io }: Pick<Context, "out" | "io">): Promise<Asked> {
  return new Promise((resolve) => {
    if (out.gone.aborted) resolve(NO_READER);
    out.gone.addEventListener("abort", () => resolve(NO_READER));
    io.stderr.once("error", () => resolve(NO_READER));
  });
}
