/** What goes on until somebody has seen enough: Ctrl-C, another signal, or a reader that went away. */
import { setMaxListeners } from "node:events";
import type { Context } from "../command.ts";
import { EXIT } from "../exit.ts";
import { untilAsked } from "../run/signals.ts";

/** The exit code of `use`, or of whoever asked us to stop. `use` is not waited for then: a call to a server that is away
 *  would hold up the end. */
export async function untilLeft(
  { out }: Pick<Context, "out">,
  use: (signal: AbortSignal) => Promise<number>,
): Promise<number> {
  const over = new AbortController();
  setMaxListeners(0, over.signal); // hundreds of jobs may be waited for at a time
  const signals = untilAsked();
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
