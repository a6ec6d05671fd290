/** Sessions of workers: opened, renewed and drained; attempts that a session never received, or releases, return to
 *  the queue and do not count as attempts. */
import { asNumber, asObject, fieldPath } from "../core/check.ts";
import { ConfigError, PerdureError } from "../core/errors.ts";
import { MAX_USAGE, type Usage } from "../core/job/job.ts";
import type { HeldAttempt, NewSession, RenewAnswer, SettleAnswer, WorkerHealth } from "../core/worker-protocol.ts";
import { isOver, storable } from "../lib/text.ts";
import type { DrainAnswer, WithdrawRequest } from "../store/store.ts";
import { LIMITS } from "./limits.ts";
import { observed } from "./observer.ts";
import type { EngineParts } from "./parts.ts";
import { settle } from "./settle.ts";
import { checkDefaults } from "./task-defaults.ts";

// The usage that an attempt reports, checked: its numbers can be summed over all attempts without overflow.

export function checkUsage(usage: unknown, path = "usage"): Usage {
  const fields = asObject(usage, path, ["tokensIn", "tokensOut", "costUsd"]);
  const read = (name: keyof Usage) => asNumber(fields[name], fieldPath(path, name), { min: 0, max: MAX_USAGE });
  return { tokensIn: read("tokensIn"), tokensOut: read("tokensOut"), costUsd: read("costUsd") };
}

// Releases attempts that their session never received, or that did not fit into a reply: they do not count. Another session
// may claim them after a second; the same one after a lease, or as soon if only the reply was lost.

export interface UnheardAttempt {
  readonly jobId: string;
  readonly attempt: number;
}

export async function releaseUnheard(
  parts: EngineParts,
  session: string,
  attempts: readonly UnheardAttempt[],
  options: { readonly undelivered?: boolean } = {},
): Promise<SettleAnswer[]> {
  if (attempts.length === 0) return [];
  const from = { kind: "release", session, ...options } as const;
  const outcome = { kind: "released" } as const;
  return settle(
    parts,
    attempts.map(({ jobId, attempt }) => ({ jobId, attempt, from, outcome, usage: null, log: null })),
  );
}

/** The reply to a claim could not be delivered. Its jobs are released if no reply with them was delivered. */
export async function withdraw(parts: EngineParts, request: WithdrawRequest): Promise<void> {
  const attempts = await parts.store.withdrawClaim(request);
  await releaseUnheard(parts, request.session, attempts, { undelivered: true });
}

// Renews session leases, and releases jobs that a session never received.

export async function renew(
  parts: EngineParts,
  session: string,
  held: readonly HeldAttempt[],
  health?: WorkerHealth | null,
): Promise<RenewAnswer> {
  const request = { session, held: held.map(storableHeld), ...(health === undefined ? {} : { health }) };
  const renewal = () => parts.store.renew([request], parts.clock.now());
  const [answer] = (await observed(parts, "renew", held.length, renewal)) as [RenewAnswer];
  // A session gets no jobs while its lease is expired: now it may.
  if (answer.alive && answer.wasOver) parts.hub.ready.fire();
  await releaseUnheard(parts, session, answer.unheard);
  return answer;
}

function storableHeld(held: HeldAttempt): HeldAttempt {
  return {
    ...held,
    progress: held.progress ? storable(held.progress, LIMITS.progress) : null,
    log: held.log ? storable(held.log, LIMITS.logChunk) : null,
  };
}

// Sessions of workers: opening one, and draining it.

export interface SessionRequest extends Omit<NewSession, "id" | "leaseMs"> {
  /** How long it holds its jobs without a renewal; default: the engine's. A pause of all engines shorter than 3 s is not
   *  noticed: with renewals every third of the lease, a lease of less than 6 s may expire in one. */
  readonly leaseMs?: number;
}

/** Returns its id. */
export async function openSession(parts: EngineParts, request: SessionRequest): Promise<string> {
  const { store, clock, newId, hub } = parts;
  const leaseMs = request.leaseMs === undefined ? parts.leaseMs : checkedLease(request.leaseMs);
  const id = newId("ses");
  checkSize(request);
  if (request.defaults != null) checkDefaults(request.defaults, request.kinds);
  if (!(await store.sessions.open({ ...request, id, leaseMs }, clock.now()))) {
    const message =
      `this token has ${request.most} live sessions, which is its quota (server.sessionQuota): start workers with more slots, ` +
      "stop some, or use another token; lost ones count until their lease expires";
    throw new PerdureError("too_many_requests", message);
  }
  parts.defaults.forget();
  hub.written.fire();
  return id;
}

function checkSize({ kinds, queues, labels }: SessionRequest): void {
  if (!isOver(JSON.stringify([kinds, queues, labels]), LIMITS.sessionBytes)) return;
  const allowed = `at most ${LIMITS.sessionBytes} bytes of kinds, queues and labels, as JSON`;
  throw new ConfigError({ path: "kinds", given: null, problem: "the lists are too long", allowed });
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
  const answer = await store.sessions.drain(id, clock.now(), by);
  if (answer === "draining") {
    hub.ready.fire();
    hub.written.fire();
  }
  return answer;
}
