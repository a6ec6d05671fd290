/** Shared by the calls of the link: calls of a session, and repeating a call until it is answered. */
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
  /** Can be replaced by a renewal. */
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
  const call = calls.json<T>(route, {
    params: { session: id },
    headers: { [HEADER.sessionKey]: key },
    body,
    ...options,
  });
  return call.then((reply) => {
    outage.answered();
    return reply;
  });
}

/** Repeats a call until it is answered, or fails with an error that a retry cannot fix. */
export async function untilAnswered<T>(
  parts: Pick<LinkParts, "clock" | "random" | "outage">,
  call: () => Promise<T>,
  options: { readonly signal: AbortSignal; readonly shouldRetry?: (error: unknown) => boolean },
): Promise<T> {
  const { clock, random, outage } = parts;
  const { signal, shouldRetry = mayPass } = options;
  const backoff = new CallBackoff(random);
  for (;;) {
    if (signal.aborted) throw new PerdureError("closed", "the link to the server was closed");
    try {
      return await call();
    } catch (error) {
      if (signal.aborted || !shouldRetry(error)) throw error;
      outage.failed(error);
      await sleep(clock, backoff.after(error), { signal });
    }
  }
}
