/** Claims over HTTP. A claim has an id and is repeated with it until it is answered, so that jobs whose reply was lost do not
 *  wait for the lease to expire.
 *
 *  A worker that stops aborts the claim in progress, but the server may have assigned jobs at that moment. So the claim is sent a
 *  last time, with `last`: the reply has the jobs that the id got, which the worker returns, and afterwards the server assigns
 *  nothing to this id any more. */

import { LIMIT } from "../../contract/wire.ts";
import type { ClaimAnswerWire, ClaimRequestWire } from "../../contract/worker-schemas.ts";
import { sleep } from "../../lib/clock.ts";
import { CallBackoff, isForbidden, isGone, isReplyTooLarge, mayPass } from "../../wire/repeat.ts";
import { WireError } from "../../wire/wire-error.ts";
import type { LinkClaimAnswer, LinkClaimOptions } from "../engine-link.ts";
import { inSession, type LinkParts, type LinkSession } from "./link-parts.ts";

const NOTHING: LinkClaimAnswer = Object.freeze({ alive: true, drain: false, jobs: [] });
const GONE: LinkClaimAnswer = Object.freeze({ alive: false, drain: false, jobs: [] });
/** Added to the time for which the server may hold the claim. */
const ANSWER_MS = 15_000;
/** Time limit of the last claim, while the worker is stopping. */
const LAST_MS = 3_000;

export class HttpClaims {
  readonly #parts: LinkParts;
  readonly #prefix: string;
  #count = 0;
  /** The maximum of jobs per claim, reduced after a reply that was too large. */
  #most: number = LIMIT.claim;

  /** `prefix` makes the claim ids of this worker unique. */
  constructor(parts: LinkParts, prefix: string) {
    this.#parts = parts;
    this.#prefix = prefix;
  }

  async claim(session: LinkSession, { limit, waitMs, signal }: LinkClaimOptions): Promise<LinkClaimAnswer> {
    const { clock, random, outage } = this.#parts;
    this.#count += 1;
    const claimId = `${this.#prefix}${this.#count}`;
    const request: ClaimRequestWire & { waitMs: number } = {
      limit: Math.min(limit, this.#most),
      waitMs: Math.min(waitMs, LIMIT.waitMs),
      claimId,
    };
    const backoff = new CallBackoff(random);
    let mayBeDone = false;
    const startedAt = clock.monotonic();
    while (!signal.aborted) {
      try {
        return await this.#send(session, request, { signal, totalMs: request.waitMs + ANSWER_MS });
      } catch (error) {
        // Forbidden: a bad token, or another store, where our key is invalid. After a lease the session has ended in any case.
        if (isGone(error) || (isForbidden(error) && clock.monotonic() - startedAt > session.leaseMs)) return GONE;
        if (isReplyTooLarge(error)) return this.#claimFewer(error, request.limit);
        mayBeDone ||= error instanceof WireError && error.mayBeDone;
        if (signal.aborted) break;
        if (!mayPass(error)) throw error;
        outage.failed(error);
        await sleep(clock, backoff.after(error), { signal });
      }
    }
    return mayBeDone ? this.#lastClaim(session, request) : NOTHING;
  }

  async #send(
    session: LinkSession,
    request: ClaimRequestWire,
    options: { readonly totalMs: number; readonly signal?: AbortSignal },
  ): Promise<LinkClaimAnswer> {
    const text = JSON.stringify(request);
    const answer = await inSession<ClaimAnswerWire>(this.#parts, session, "claimJobs", text, options);
    if (this.#most < LIMIT.claim) this.#most = Math.min(LIMIT.claim, 2 * this.#most);
    return answer;
  }

  async #lastClaim(session: LinkSession, request: ClaimRequestWire): Promise<LinkClaimAnswer> {
    try {
      return await this.#send(session, { ...request, waitMs: 0, last: true }, { totalMs: LAST_MS });
    } catch {
      return NOTHING; // the engine releases jobs that this session never renews
    }
  }

  /** The engine releases the jobs of the lost reply, since this session never renews them. */
  #claimFewer(error: WireError, limit: number): LinkClaimAnswer {
    this.#parts.outage.failed(error);
    this.#most = Math.max(1, limit >> 2);
    return NOTHING;
  }
}
