/** Sessions of workers: opening one, and draining it. */
import { ConfigError, PerdureError } from "../core/errors.ts";
import type { NewSession } from "../core/work.ts";
import { isOver } from "../lib/text.ts";
import type { DrainAnswer } from "../store/store.ts";
import type { EngineParts } from "./engine.ts";
import { LIMITS } from "./limits.ts";
import { checkDefaults } from "./task-defaults.ts";

export interface SessionRequest extends Omit<NewSession, "id" | "leaseMs"> {
  /** How long its jobs are its own without a word from it; the engine's, where it is not said. A pause of all engines
   *  shorter than 3 s is not noticed: with renewals every third of it, a lease of less than 6 s may be lost to one. */
  readonly leaseMs?: number;
}

/** The answer is its id. */
export async function openSession(parts: EngineParts, request: SessionRequest): Promise<string> {
  const { store, clock, newId, hub } = parts;
  const leaseMs = request.leaseMs === undefined ? parts.leaseMs : checkedLease(request.leaseMs);
  const id = newId("ses");
  checkSize(request);
  if (request.defaults != null) checkDefaults(request.defaults, request.kinds);
  if (!(await store.openSession({ ...request, id, leaseMs }, clock.now()))) {
    const message =
      `this token has ${request.most} live sessions, which is its quota (server.sessionQuota): start workers with more slots, ` +
      "stop some, or use another token; those that are gone count until their lease ends";
    throw new PerdureError("too_many_requests", message);
  }
  parts.defaults.forget();
  hub.written.fire();
  return id;
}

function checkSize({ kinds, queues, labels }: SessionRequest): void {
  if (!isOver(JSON.stringify([kinds, queues, labels]), LIMITS.sessionBytes)) return;
  const allowed = `at most ${LIMITS.sessionBytes} bytes of kinds, queues and labels, as JSON`;
  throw new ConfigError({ path: "kinds", given: null, problem: "what the session serves is too long", allowed });
}

function checkedLease(given: number): number {
  const { from, to } = LIMITS.lease;
  if (Number.isInteger(given) && given >= from && given <= to) return given;
  throw new ConfigError({ path: "leaseMs", given, allowed: `a whole number of milliseconds from ${from} to ${to}` });
}

export async function drainSession(
  { store, clock, hub }: EngineParts,
  id: string,
  by: string | null,
): Promise<DrainAnswer> {
  const answer = await store.drainSession(id, clock.now(), by);
  if (answer === "draining") {
    hub.ready.fire();
    hub.written.fire();
  }
  return answer;
}
