/** Authenticates callers, and checks that they may call the matched route. Access never depends on the text of the path: if no
 *  route matches, callers with a valid token, and those that need none for neighbouring routes, get 404, all others 401. */
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

/** The requirements of a route. */
export interface Access {
  /** Null: any valid token. */
  readonly scope: Scope | null;
  /** No token is required. */
  readonly open?: boolean;
  /** Job tokens are accepted; the handler must limit them to the job and its descendants. */
  readonly jobToken?: boolean;
  /** The token is also accepted as the password of Basic authentication, for browsers. */
  readonly basic?: boolean;
  /** The principal of a caller without a token; null if a token is required. */
  readonly anonymous?: AnonymousAccess;
}

export type AnonymousAccess = (request: FastifyRequest) => Principal | null;

/** The same for a missing and a wrong token: it reveals nothing about existing tokens. */
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

  /** Calls back once when the caller loses its access: its token was revoked or has expired, or the attempt of its job token has
   *  ended. Returns a function that removes the listener. */
  onEnd(who: Principal, listener: () => void): () => void {
    if (who.job !== undefined) return this.#attempts.onEnd(who.job, listener);
    return who.isAnonymous === true ? () => {} : this.#tokens.onEnd(who.id, listener);
  }

  /** Returns the caller of a request, or throws. Without a matched route it always throws; `beside` is the anonymous access of
   *  the neighbouring routes. */
  async check(
    request: FastifyRequest,
    access: Access | null,
    beside: AnonymousAccess = () => null,
  ): Promise<Principal> {
    const given = tokenOf(request.headers.authorization, access?.basic === true);
    if (given === null) {
      const anonymous = access === null ? beside : access.anonymous;
      const principal = request.headers.authorization === undefined ? anonymous?.(request) : null;
      if (principal && access === null) throw noRoute();
      if (principal) return principal;
      throw new PerdureError("unauthorized", UNAUTHORIZED);
    }
    if (isJobToken(given)) return this.#checkJob(request, access, given);
    const token = await this.#tokens.verify(given);
    if (token === null) throw this.#wrongToken(request);
    if (access === null) throw noRoute();
    if (!mayCall(token.scopes, access.scope)) {
      throw new PerdureError("forbidden", `requires a token with the scope "${access.scope}"`);
    }
    return principalOf(token);
  }

  /** A job token is valid only while its attempt is running. */
  async #checkJob(request: FastifyRequest, access: Access | null, given: string): Promise<Principal> {
    const job = readJobToken(this.#keys, given);
    if (job === null) throw this.#wrongToken(request);
    const [row] = await this.#store.facts([job.id]);
    if (row == null || !isRunning(row, job)) {
      throw new PerdureError("unauthorized", "the attempt of this job token has ended");
    }
    if (access === null) throw noRoute();
    if (access.jobToken !== true) {
      throw new PerdureError("forbidden", "a job token only permits submitting, reading and waiting for child jobs");
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

/** For a call whose token ended while it was held. */
export function tokenEnded(): PerdureError {
  return new PerdureError("unauthorized", "the token was revoked or has expired; nothing was done");
}

function noRoute(): PerdureError {
  return new PerdureError("not_found", "no such route");
}

/** The namespace of a call: that of the token if it is bound to one, else that of the header. */
export function namespaceOf(who: Principal, header: string | string[] | undefined): string {
  const requested = header === undefined ? null : String(header);
  // Non-ASCII characters arrive in an unknown encoding, and could name another namespace.
  if (requested !== null && !/^[!-~][ -~]{0,199}$/.test(requested)) {
    throw new PerdureError("invalid_request", "a namespace in a header has 1 to 200 ASCII characters", {
      path: HEADER.namespace,
    });
  }
  if (who.namespace !== null && requested !== null && requested !== who.namespace) {
    throw new PerdureError("forbidden", "this token is for another namespace");
  }
  return who.namespace ?? requested ?? "default";
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
