/** What the verbs of the link share: calls of a session, repeated until they are answered. */
import type { RouteName } from "../../contract/routes.ts";
import { HEADER } from "../../contract/wire.ts";
import { PerdureError } from "../../core/errors.ts";
import { type Clock, sleep } from "../../lib/clock.ts";
import { CallBackoff, type OutageLog } from "./backoff.ts";
import type { JsonReply, ServerCalls } from "./http-call.ts";
import { mayPass } from "./wire-error.ts";

/** A session as the server opened it. */
export interface LinkSession {
  readonly id: string;
  /** A renewal may bring another. */
  key: string;
  readonly leaseMs: number;
}

export interface LinkParts {
  readonly calls: ServerCalls;
  readonly clock: Clock;
  readonly random: () => number;
  readonly teller: OutageLog;
  /** Aborted when the link is closed. */
  readonly closed: AbortSignal;
}

/** A call in the name of a session. */
export function inSession<T>(
  { calls, teller }: LinkParts,
  { id, key }: LinkSession,
  route: RouteName,
  body: string,
  options: { readonly totalMs?: number; readonly signal?: AbortSignal } = {},
): Promise<JsonReply<T>> {
  const asked = calls.json<T>(route, {
    params: { session: id },
    headers: { [HEADER.sessionKey]: key },
    body,
    ...options,
  });
  return asked.then((reply) => {
    teller.well();
    return reply;
  });
}

/** Calls until there is an answer, or an error that waiting will not mend. */
export async function untilAnswered<T>(
  parts: Pick<LinkParts, "clock" | "random" | "teller">,
  call: () => Promise<T>,
  options: { readonly signal: AbortSignal; readonly isWorthWaiting?: (error: unknown) => boolean },
): Promise<T> {
  const { clock, random, teller } = parts;
  const { signal, isWorthWaiting = mayPass } = options;
  const patience = new CallBackoff(random);
  for (;;) {
    if (signal.aborted) throw new PerdureError("closed", "the link to the server was closed");
    try {
      return await call();
    } catch (error) {
      if (signal.aborted || !isWorthWaiting(error)) throw error;
      teller.trouble(error);
      await sleep(clock, patience.after(error), { signal });
    }
  }
}
