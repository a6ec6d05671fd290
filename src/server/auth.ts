/** Who calls, and whether the route that was matched is open to it. Whom anything is open to is never decided on the path's text:
 *  whatever the router did not match is answered 404 to callers with a valid token, and to those that need none for the
 *  routes beside it, and 401 to all others. */
import type { FastifyRequest } from "fastify";
import { HEADER } from "../contract/wire.ts";
import type { AccessToken, Scope } from "../core/access.ts";
import { PerdureError } from "../core/errors.ts";
import type { Clock } from "../lib/clock.ts";
import type { Store } from "../store/store.ts";
import { isJobToken, readJobToken } from "./attempt-credentials.ts";
import { AttemptWatch, isRunning } from "./attempt-watch.ts";
import type { Principal } from "./context.ts";
import type { KeyRing } from "./key-ring.ts";
import { type TokenBook, WrongTokens } from "./tokens.ts";

/** What a route asks of its caller. */
export interface Access {
  /** Null: any valid token. */
  readonly scope: Scope | null;
  /** Nobody needs a token. */
  readonly open?: boolean;
  /** A job may call it with its own token; the handler shows it nothing but its kin. */
  readonly kin?: boolean;
  /** A browser may ask its user for the token, as the password. */
  readonly basic?: boolean;
  /** Who a caller without any token is; null if it may not be anybody. */
  readonly anonymous?: AnonymousAccess;
}

export type AnonymousAccess = (request: FastifyRequest) => Principal | null;

/** Said to everybody who comes without a token or with a wrong one: it tells nothing about which tokens there are. */
const UNAUTHORIZED = "send a valid token as `Authorization: Bearer TOKEN`";

export class Auth {
  readonly #tokens: TokenBook;
  readonly #wrong: WrongTokens;

  readonly #store: Pick<Store, "facts">;
  readonly #keys: KeyRing;
  readonly #attempts: AttemptWatch;

  constructor(tokens: TokenBook, keys: KeyRing, clock: Clock, store: Pick<Store, "facts">) {
    this.#tokens = tokens;
    this.#keys = keys;
    this.#wrong = new WrongTokens(clock);
    this.#store = store;
    this.#attempts = new AttemptWatch(store, clock);
  }

  /** Calls back once when a caller that was let in would not be any more: its token was revoked or is over, or the attempt
   *  whose own token it showed has ended. Returns the way to stop that. */
  onEnd(who: Principal, listener: () => void): () => void {
    if (who.job !== undefined) return this.#attempts.onEnd(who.job, listener);
    return who.isAnonymous === true ? () => {} : this.#tokens.onEnd(who.id, listener);
  }

  /** The caller of a request, or an error with the reason. Without a route this always throws; `beside` is who needs no token for the
   *  routes beside such an address. */
  async check(
    request: FastifyRequest,
    access: Access | null,
    beside: AnonymousAccess = () => null,
  ): Promise<Principal> {
    const given = tokenOf(request.headers.authorization, access?.basic === true);
    if (given === null) {
      const anonymous = access === null ? beside : access.anonymous;
      const nobody = request.headers.authorization === undefined ? anonymous?.(request) : null;
      if (nobody && access === null) throw nothingHere();
      if (nobody) return nobody;
      throw new PerdureError("unauthorized", UNAUTHORIZED);
    }
    if (isJobToken(given)) return this.#checkJob(request, access, given);
    const token = await this.#tokens.verify(given);
    if (token === null) throw this.#wrongToken(request);
    if (access === null) throw nothingHere();
    if (!mayCall(token.scopes, access.scope)) {
      throw new PerdureError("forbidden", `this needs a token with the scope "${access.scope}"`);
    }
    return principalOf(token);
  }

  /** Good while its attempt runs, and no longer. */
  async #checkJob(request: FastifyRequest, access: Access | null, given: string): Promise<Principal> {
    const job = readJobToken(this.#keys, given);
    if (job === null) throw this.#wrongToken(request);
    const [row] = await this.#store.facts([job.id]);
    if (row == null || !isRunning(row, job)) {
      throw new PerdureError("unauthorized", "this token was for an attempt that is over");
    }
    if (access === null) throw nothingHere();
    if (access.kin !== true) {
      throw new PerdureError("forbidden", "the token of a job is for its children: to submit, read and wait for them");
    }
    return { id: job.id, name: job.id, scopes: [], namespace: row.namespace, job };
  }

  #wrongToken(request: FastifyRequest): PerdureError {
    const address = request.socket.remoteAddress ?? "";
    if (this.#wrong.isOver(address))
      return new PerdureError("too_many_requests", "too many wrong tokens; wait a minute");
    return new PerdureError("unauthorized", UNAUTHORIZED);
  }
}

/** To a call that was held while its token ended. */
export function tokenEnded(): PerdureError {
  return new PerdureError("unauthorized", "the token of this call was revoked or is over; nothing was done");
}

function nothingHere(): PerdureError {
  return new PerdureError("not_found", "there is nothing at this address");
}

/** The namespace of a call: a bound token's own, else the one that the header names. */
export function namespaceOf(who: Principal, header: string | string[] | undefined): string {
  const wanted = header === undefined ? null : String(header);
  // What is beyond ASCII comes in whatever encoding the client chose, and would quietly name another one.
  if (wanted !== null && !/^[!-~][ -~]{0,199}$/.test(wanted)) {
    throw new PerdureError("invalid_request", "a namespace has 1 to 200 characters, in a header those of ASCII alone", {
      path: HEADER.namespace,
    });
  }
  if (who.namespace !== null && wanted !== null && wanted !== who.namespace) {
    throw new PerdureError("forbidden", "this token is for another namespace");
  }
  return who.namespace ?? wanted ?? "default";
}

export function mayCall(scopes: readonly Scope[], needed: Scope | null): boolean {
  return needed === null || scopes.includes(needed) || scopes.includes("admin");
}

function principalOf({ id, name, scopes, namespace }: AccessToken): Principal {
  return { id, name, scopes, namespace };
}

function tokenOf(header: string | undefined, basic: boolean): string | null {
  const [, scheme = "", value = ""] = /^(\S+) +(\S+)$/.exec(header ?? "") ?? [];
  if (scheme.toLowerCase() === "bearer") return value;
  if (!basic || scheme.toLowerCase() !== "basic") return null;
  const pair = Buffer.from(value, "base64").toString("utf8");
  return pair.slice(pair.indexOf(":") + 1);
}
