/** A call to the server by a fetch: its time limit, its reply, and when it is repeated.
 *
 *  A repeatable call (a read, a wait, a submit with a key) is repeated while the server cannot be reached or its reply was
 *  lost, with growing pauses, for up to `patienceMs`. Any other call is repeated only when the server itself has reported that
 *  it did nothing (429, 503, 507): a submit without a key whose reply was lost may have been stored, and ends with
 *  `server_unreachable`. A fetch does not report whether a connection failed before or after it was used, so that a refused
 *  connection also counts as a lost reply. */

import { ROUTES, type RouteName } from "../contract/routes.ts";
import { PerdureError } from "../core/errors.ts";
import { sleep } from "../lib/clock.ts";
import { limiter } from "../lib/limiter.ts";
import { systemTimers } from "../lib/system-timers.ts";
import { CallBackoff, mayRepeat } from "../wire/repeat.ts";
import { requestHead, type WireCall, type WireCaller } from "../wire/request.ts";
import { notOurs, parseReply, refusal, unreachable, WireError, type WireTarget, wordsOf } from "../wire/wire-error.ts";

export interface LinkOptions extends WireCaller {
  /** Without a slash at its end. */
  readonly base: string;
  readonly fetch: typeof fetch;
  /** For the reply to an ordinary call. */
  readonly timeoutMs: number;
  readonly patienceMs: number;
}

export interface ClientCallOptions extends WireCall {
  readonly body?: string | Uint8Array;
  /** How long the server may hold the call before it replies. */
  readonly heldMs?: number;
  /** A second call has no further effect. Default: true for a GET. */
  readonly repeatable?: boolean;
  readonly patienceMs?: number;
  readonly timeoutMs?: number;
}

/** A reply whose body is still to come. */
export interface OpenedReply {
  readonly response: Response;
  /** Must be called at the end, also after an error. */
  stop(): void;
}

/** Concurrent ordinary calls. A fetch opens a connection for each; thousands of connections are slower than these. */
const AT_ONCE = 32;

/** A call that a busy server refuses is repeated once after a pause of up to this, whatever `patienceMs` is: a server requests up to 3 s. */
const FIRST_REPEAT_MS = 5_000;

export class ClientHttpLink {
  readonly #options: LinkOptions;
  /** Ends calls in progress: there may be thousands, too many for listeners of one signal. */
  readonly #live = new Set<() => void>();
  readonly #inTurn = limiter(AT_ONCE);
  #isClosed = false;

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  /** The address of the server. */
  get base(): string {
    return this.#options.base;
  }

  /** Ends calls in progress, and refuses new ones. */
  close(): void {
    this.#isClosed = true;
    for (const abort of this.#live) abort();
  }

  /** The parsed reply; undefined for an empty one. */
  json<T>(name: RouteName, options: ClientCallOptions = {}): Promise<T> {
    const once = () => this.#once<T>(name, options);
    // A held call costs nothing while it waits, and must not delay others.
    const call = options.heldMs === undefined ? () => this.#inTurn(once) : once;
    return this.#patiently(name, options, call);
  }

  async #once<T>(name: RouteName, options: ClientCallOptions): Promise<T> {
    this.#throwIfOver(options.signal);
    const opened = await this.#open(name, options);
    try {
      const text = await this.#text(name, opened.response);
      return parseReply(this.base, opened.response.status, opened.response.headers.get("content-type"), text);
    } finally {
      opened.stop();
    }
  }

  /** A reply that is read as a stream. The time limit is for its head. */
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
    let backoff: CallBackoff | null = null;
    for (;;) {
      this.#throwIfOver(signal);
      try {
        return await call();
      } catch (error) {
        this.#throwIfOver(signal);
        if (!mayRepeat(error, repeatable)) throw error;
        const isFirst = backoff === null && !error.mayBeDone && patienceMs > 0;
        backoff ??= new CallBackoff(Math.random);
        const pauseMs = backoff.after(error);
        const isInTime = performance.now() - startedAt + pauseMs <= patienceMs;
        if (!isInTime && !(isFirst && pauseMs <= FIRST_REPEAT_MS)) throw error;
        const scope = this.#scope(signal);
        await sleep(systemTimers, pauseMs, scope);
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

  /** Sends the call and returns the head of a successful reply. */
  async #open(name: RouteName, options: ClientCallOptions): Promise<OpenedReply & { unlimited(): void }> {
    const { base, timeoutMs } = this.#options;
    const { method, path, headers } = requestHead(name, options, this.#options);
    const scope = this.#scope(options.signal);
    let isLate = false;
    const limitMs = (options.timeoutMs ?? timeoutMs) + (options.heldMs ?? 0);
    const unlimited = systemTimers.after(limitMs, () => {
      isLate = true;
      scope.abort();
    });
    const stop = () => {
      unlimited();
      scope.end();
      scope.abort(); // releases a body that nobody reads
    };
    try {
      const response = await this.#options.fetch(base + path, {
        method,
        headers,
        ...(options.body === undefined ? {} : { body: options.body }),
        redirect: "manual", // a followed redirect would carry the token along, or turn a POST into a GET
        signal: scope.signal,
      });
      if (response.ok) return { response, stop, unlimited };
      if (response.status < 400) throw notOurs(base, "a redirect");
      const text = await this.#text(name, response);
      throw refusal(this.#target(name), response.status, response.headers.get("retry-after"), text);
    } catch (thrown) {
      stop();
      if (thrown instanceof WireError) throw thrown;
      throw unreachable(this.#target(name), isLate ? `no answer within ${limitMs} ms` : thrown);
    }
  }

  /** A read changes nothing, so it does not matter whether it was done. */
  #target(name: RouteName): WireTarget {
    return { server: this.base, isDoubtful: ROUTES[name].method !== "GET" };
  }

  async #text(name: RouteName, response: Response): Promise<string> {
    try {
      return await response.text();
    } catch (thrown) {
      throw unreachable(this.#target(name), `the reply broke off (${wordsOf(thrown)})`);
    }
  }
}
