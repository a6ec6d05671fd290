/** What the verbs of the link share: calls of a session, repeated until they are answered. */
import type { RouteName } from "../../contract/routes.ts";
import { HEADER } from "../../contract/wire.ts";
import { PerdureError } from "../../core/errors.ts";
import { type Clock, sleep } from "../../lib/clock.ts";
import { CallBackoff, mayPass } from "../../wire/repeat.ts";
import type { ServerCalls } from "./http-call.ts";
import type { OutageLog } from "./outage-log.ts";

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
  readonly outage: OutageLog;
  /** Aborted when the link is closed. */
  readonly closed: AbortSignal;
}

/** A call in the name of a session. */
export function inSession<T>(
  { calls, outage }: LinkParts,
  { id, key }: LinkSession,
  route: RouteName,
  body: string,
  options: { readonly totalMs?: number; readonly signal?: AbortSignal } = {},
): Promise<T> {
  const asked = calls.json<T>(route, {
    params: { session: id },
    headers: { [HEADER.sessionKey]: key },
    body,
    ...options,
  });
  return asked.then((reply) => {
    outage.answered();
    return reply;
  });
}

/** Calls until there is an answer, or an error that waiting does not fix. */
export async function untilAnswered<T>(
  parts: Pick<LinkParts, "clock" | "random" | "outage">,
  call: () => Promise<T>,
  options: { readonly signal: AbortSignal; readonly isWorthWaiting?: (error: unknown) => boolean },
): Promise<T> {
  const { clock, random, outage } = parts;
  const { signal, isWorthWaiting = mayPass } = options;
  const backoff = new CallBackoff(random);
  for (;;) {
    if (signal.aborted) throw new PerdureError("closed", "the link to the server was closed");
    try {
      return await call();
    } catch (error) {
      if (signal.aborted || !isWorthWaiting(error)) throw error;
      outage.failed(error);
      await sleep(clock, backoff.after(error), { signal });
    }
  }
}
