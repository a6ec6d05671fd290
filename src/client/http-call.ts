/** A call to the server: its address, its headers, its reply, and when it is made again.
 *
 *  A call that may be repeated (a look, a wait, a submit with a key) is made again while the server is away or its reply
 *  was lost, after growing pauses, until it has been tried for `patienceMs`. Any other is made again only when the server
 *  itself has said that it did nothing (429, 503, 507): a submit without a key whose reply was lost may have been stored,
 *  and ends with `server_unreachable`. A fetch does not tell whether a connection failed before or after it was used, so
 *  that a refused connection counts as lost, too. */

import { pathOf, ROUTES, type RouteName } from "../contract/routes.ts";
import { HEADER } from "../contract/wire.ts";
import { ConfigError, PerdureError } from "../core/errors.ts";
import { type CalledOperation, Fault, faultOf, notOurs, unreachable, wordsOf } from "./fault.ts";
import { after, CallLimiter, growingPause, pause } from "./timers.ts";

export interface LinkOptions {
  /** Without a slash at its end. */
  readonly base: string;
  readonly token: string;
  /** Null: that of the token. */
  readonly namespace: string | null;
  readonly fetch: typeof fetch;
  /** For the reply to an ordinary call. */
  readonly timeoutMs: number;
  readonly patienceMs: number;
}

export interface ClientCallOptions {
  readonly params?: Readonly<Record<string, string | number>>;
  /** Fills the `*` of a path. */
  readonly rest?: string;
  readonly query?: URLSearchParams;
  /** JSON text, or bytes. */
  readonly body?: string | Uint8Array<ArrayBuffer>;
  readonly headers?: Readonly<Record<string, string>>;
  /** The server may hold the call for so long before it answers. */
  readonly heldMs?: number;
  /** Made twice, it does what it does once. Default: true for a GET. */
  readonly repeatable?: boolean;
  readonly patienceMs?: number;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** A reply whose body is still to come. */
export interface OpenedReply {
  readonly response: Response;
  /** To be called in the end, whatever happened. */
  stop(): void;
}

const JSON_TYPE = "application/json";
const BYTES = "application/octet-stream";

/** Ordinary calls at a time. A fetch opens a connection for each, and thousands of them are slower than these. */
const AT_ONCE = 32;

/** What a busy server refuses is repeated once after a pause up to this, whatever the patience: it asks for up to 3 s. */
const FIRST_REPEAT_MS = 5_000;

export class ClientHttpLink {
  readonly #options: LinkOptions;
  /** Ways to end what is under way: there may be thousands, too many for listeners of one signal. */
  readonly #live = new Set<() => void>();
  readonly #turns = new CallLimiter(AT_ONCE);
  #isClosed = false;

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Ends what is under way, and refuses what comes. */
  close(): void {
    this.#isClosed = true;
    for (const abort of this.#live) abort();
  }

  /** The reply as a value; undefined where it has none. */
  json<T>(name: RouteName, options: ClientCallOptions = {}): Promise<T> {
    const once = () => this.#once<T>(name, options);
    // A call that is held waits for its answer at no cost, and must not keep others from theirs.
    const call = options.heldMs === undefined ? () => this.#turns.run(once) : once;
    return this.#patiently(name, options, call);
  }

  async #once<T>(name: RouteName, options: ClientCallOptions): Promise<T> {
    this.#throwIfOver(options.signal);
    const opened = await this.#open(name, options);
    try {
      const text = await this.#text(name, opened);
      return (text === "" ? undefined : JSON.parse(text)) as T;
    } catch (thrown) {
      throw thrown instanceof Fault ? thrown : notOurs(this.#options.base, "something that is not JSON");
    } finally {
      opened.stop();
    }
  }

  /** A reply to be read as it comes. The time limit is for its beginning. */
  open(name: RouteName, options: ClientCallOptions = {}): Promise<OpenedReply> {
    return this.#patiently(name, options, async () => {
      const opened = await this.#open(name, options);
      opened.unlimited();
      return opened;
    });
  }

  async #patiently<T>(name: RouteName, options: ClientCallOptions, call: () => Promise<T>): Promise<T> {
    const { repeatable = ROUTES[name].method === "GET", patienceMs = this.#options.patienceMs, signal } = options;
    const startedAt = performance.now();
    for (let failures = 0; ; failures++) {
      this.#throwIfOver(signal);
      try {
        return await call();
      } catch (thrown) {
        this.#throwIfOver(signal);
        if (!(thrown instanceof Fault)) throw thrown;
        // What the server asks for, and something drawn on top: those it refused together do not come back together.
        const pauseMs = thrown.retryAfterMs + growingPause(failures);
        const isWorthIt = thrown.done === "no" || (thrown.done === "maybe" && repeatable);
        const isFirst = failures === 0 && thrown.done === "no" && patienceMs > 0 && pauseMs <= FIRST_REPEAT_MS;
        if (!isWorthIt || (!isFirst && performance.now() - startedAt + pauseMs > patienceMs)) throw thrown.error;
        const scope = this.#scope(signal);
        await pause(pauseMs, scope.signal);
        scope.end();
      }
    }
  }

  /** A signal that aborts with the caller's, and when the client is closed. */
  #scope(given: AbortSignal | undefined): { readonly signal: AbortSignal; abort(): void; end(): void } {
    const controller = new AbortController();
    const abort = () => controller.abort();
    this.#live.add(abort);
    given?.addEventListener("abort", abort);
    const end = () => {
      this.#live.delete(abort);
      given?.removeEventListener("abort", abort);
    };
    return { signal: controller.signal, abort, end };
  }

  #throwIfOver(signal: AbortSignal | undefined): void {
    if (this.#isClosed) throw new PerdureError("closed", "the client is closed");
    signal?.throwIfAborted();
  }

  /** Sends it, and has the head of a reply that is a success. */
  async #open(name: RouteName, options: ClientCallOptions): Promise<OpenedReply & { unlimited(): void }> {
    const { base, timeoutMs } = this.#options;
    const url = urlOf(base, name, options);
    const scope = this.#scope(options.signal);
    let isLate = false;
    const limitMs = (options.timeoutMs ?? timeoutMs) + (options.heldMs ?? 0);
    const unlimited = after(limitMs, () => {
      isLate = true;
      scope.abort();
    });
    const stop = () => {
      unlimited();
      scope.end();
      scope.abort(); // lets go of a body that nobody reads
    };
    try {
      const response = await this.#options.fetch(url, {
        method: ROUTES[name].method,
        headers: this.#headers(options),
        ...(options.body === undefined ? {} : { body: options.body }),
        redirect: "manual", // followed, it would take the token along, or make a GET of a POST
        signal: scope.signal,
      });
      if (response.ok) return { response, stop, unlimited };
      if (response.status < 400) throw notOurs(base, "a redirect");
      const text = await this.#text(name, { response });
      throw faultOf(this.#called(name), response.status, text, response.headers.get("retry-after"));
    } catch (thrown) {
      stop();
      if (thrown instanceof Fault) throw thrown;
      throw unreachable(this.#called(name), isLate ? `no answer within ${limitMs} ms` : wordsOf(thrown), thrown);
    }
  }

  #called(name: RouteName): CalledOperation {
    return { where: this.#options.base, isRead: ROUTES[name].method === "GET" };
  }

  async #text(name: RouteName, { response }: Pick<OpenedReply, "response">): Promise<string> {
    try {
      return await response.text();
    } catch (thrown) {
      throw unreachable(this.#called(name), `the reply broke off (${wordsOf(thrown)})`, thrown);
    }
  }

  #headers(options: ClientCallOptions): Record<string, string> {
    const { token, namespace } = this.#options;
    return {
      accept: "application/json",
      authorization: `Bearer ${token}`,
      ...(namespace === null ? {} : { [HEADER.namespace]: namespace }),
      // Only with a body: a server refuses an empty one that claims to be JSON.
      ...(options.body === undefined ? {} : { "content-type": typeof options.body === "string" ? JSON_TYPE : BYTES }),
      ...options.headers,
    };
  }
}

function urlOf(base: string, name: RouteName, { params = {}, rest = "", query }: ClientCallOptions): string {
  for (const [param, value] of Object.entries(params)) refuseDots(String(value), `${name}.${param}`);
  for (const part of rest.split("/")) refuseDots(part, `${name}.name`);
  const search = query?.toString() ?? "";
  return `${base}${pathOf(name, params, rest)}${search === "" ? "" : `?${search}`}`;
}

/** In an address these mean "here" and "one up", however they are written: the call would go to another route. */
function refuseDots(part: string, path: string): void {
  if (part === "." || part === "..")
    throw new ConfigError({ path, given: part, allowed: "a name other than . and .." });
}
