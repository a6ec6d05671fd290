/** Claims over HTTP. A claim has an id and is repeated with it until it is answered, so that jobs whose reply was lost are
 *  not left waiting for a lease.
 *
 *  A worker that stops gives up the claim that the server holds for it. Whether jobs were handed out in that moment nobody
 *  knows, so it asks once more, as the last word on that id: it gets what the id got, which the worker hands back, and the
 *  claim that was given up gets nothing after that, should a server still be at it. */

import { LIMIT } from "../../contract/wire.ts";
import type { ClaimAnswerWire, ClaimRequestWire } from "../../contract/worker-schemas.ts";
import { sleep } from "../../lib/clock.ts";
import { CallBackoff, isForbidden, isGone, isReplyTooLarge, mayPass } from "../../wire/repeat.ts";
import { WireError } from "../../wire/wire-error.ts";
import type { LinkClaimAnswer, LinkClaimOptions } from "../engine-link.ts";
import { inSession, type LinkParts, type LinkSession } from "./link-parts.ts";

const NOTHING: LinkClaimAnswer = Object.freeze({ alive: true, drain: false, jobs: [] });
const GONE: LinkClaimAnswer = Object.freeze({ alive: false, drain: false, jobs: [] });
/** On top of the time that the server may hold it. */
const ANSWER_MS = 15_000;
/** Whoever leaves does not wait long. */
const LAST_MS = 3_000;

export class HttpClaims {
  readonly #parts: LinkParts;
  readonly #prefix: string;
  #count = 0;
  /** After a reply that was too large to be read, fewer are asked for. */
  #most: number = LIMIT.claim;

  /** `prefix` makes the ids of this worker's claims its own. */
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
    const askedAt = clock.monotonic();
    while (!signal.aborted) {
      try {
        return await this.#ask(session, request, { signal, totalMs: request.waitMs + ANSWER_MS });
      } catch (error) {
        // Forbidden: the token, or another store that does not know our key. After a lease the session is over in any case.
        if (isGone(error) || (isForbidden(error) && clock.monotonic() - askedAt > session.leaseMs)) return GONE;
        if (isReplyTooLarge(error)) return this.#askForFewer(error, request.limit);
        mayBeDone ||= error instanceof WireError && error.mayBeDone;
        if (signal.aborted) break;
        if (!mayPass(error)) throw error;
        outage.failed(error);
        await sleep(clock, backoff.after(error), { signal });
      }
    }
    return mayBeDone ? this.#lastWord(session, request) : NOTHING;
  }

  async #ask(
    session: LinkSession,
    request: ClaimRequestWire,
    options: { readonly totalMs: number; readonly signal?: AbortSignal },
  ): Promise<LinkClaimAnswer> {
    const text = JSON.stringify(request);
    const answer = await inSession<ClaimAnswerWire>(this.#parts, session, "claimJobs", text, options);
    if (this.#most < LIMIT.claim) this.#most = Math.min(LIMIT.claim, 2 * this.#most);
    return answer;
  }

  async #lastWord(session: LinkSession, request: ClaimRequestWire): Promise<LinkClaimAnswer> {
    try {
      return await this.#ask(session, { ...request, waitMs: 0, last: true }, { totalMs: LAST_MS });
    } catch {
      return NOTHING; // what was handed out, the engine takes back by itself
    }
  }

  /** Those jobs come back when the engine finds that we never heard of them. */
  #askForFewer(error: WireError, asked: number): LinkClaimAnswer {
    this.#parts.outage.failed(error);
    this.#most = Math.max(1, asked >> 2);
    return NOTHING;
  }
}
