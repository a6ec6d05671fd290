/** One HTTP exchange: a request, the redirects it leads to, one response. A name is resolved once a hop, every address
 *  it has is checked, and the socket goes to the first of them and nowhere else: a name that changes between check and
 *  connect changes nothing. What the socket is connected to is checked again before a byte of the request is sent.
 *  Nothing is kept alive or shared between exchanges, and no proxy is read from the environment.
 *  Not promised: another try with the second address of a name; the job's policy tries again. */
import { ADDRCONFIG } from "node:dns";
import { lookup as systemLookup } from "node:dns/promises";
import * as http from "node:http";
import * as https from "node:https";
import { isIP, type LookupFunction, type Socket } from "node:net";
import { showMs } from "../../core/duration.ts";
import { type CheckedHttp, shownUrl } from "../../core/http-input.ts";
import type { Clock } from "../../lib/clock.ts";
import { isBlocked } from "./address.ts";
import { ACCEPT_ENCODING, type Body, readBody } from "./body.ts";
import { ExchangeError } from "./exchange-error.ts";
import { follow, type Hop, isRedirect } from "./redirect.ts";

export interface Reply extends Body {
  readonly status: number;
  /** By lower-case name, without a prototype. Repeated ones are joined by commas, but for set-cookie, a list. */
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  /** Where it came from in the end, fit for messages. */
  readonly url: string;
}

export interface Resolved {
  readonly address: string;
  readonly family: number;
}
export type Lookup = (host: string) => Promise<readonly Resolved[]>;

export interface ExchangeOptions {
  /** See `isBlocked`. */
  readonly allow: readonly string[];
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Told of the address that a host led to: for the operator, not for who wrote the job. */
  readonly onBlocked?: (host: string, address: string) => void;
  /** Tests bring their own. */
  readonly lookup?: Lookup;
  /** Certificates to trust instead of the system's. */
  readonly ca?: string;
}

/** Rejects with an `ExchangeError`, or with the system's error. */
export async function exchange(request: CheckedHttp, options: ExchangeOptions): Promise<Reply> {
  const { clock, signal } = options;
  const stop = new AbortController();
  const { url: first, timeoutMs } = request;
  const timedOut = () =>
    stop.abort(new ExchangeError("ETIMEDOUT", "transient", `timed out after ${showMs(timeoutMs)}: ${shownUrl(first)}`));
  const aborted = () => stop.abort(new ExchangeError("ABORT_ERR", "transient", `given up: ${shownUrl(first)}`));
  const cancel = clock.after(timeoutMs, timedOut);
  signal.addEventListener("abort", aborted);
  if (signal.aborted) aborted();
  try {
    return await hops(request, { ...options, signal: stop.signal });
  } catch (error) {
    throw stop.signal.aborted ? stop.signal.reason : error;
  } finally {
    cancel();
    signal.removeEventListener("abort", aborted);
  }
}

async function hops(request: CheckedHttp, options: ExchangeOptions): Promise<Reply> {
  const { method, body, headers } = request;
  let hop: Hop = { url: new URL(request.url), method, headers, body };
  for (let followed = 0; ; followed++) {
    const response = await send(hop, options);
    const status = response.statusCode ?? 0;
    const received = headersOf(response.rawHeaders);
    const location = textOf(received.location);
    if (request.redirects === 0 || !isRedirect(status, location)) {
      const read = await readBody(response, textOf(received["content-encoding"]), request.maxBytes, options.signal);
      return { ...read, status, headers: received, url: shownUrl(hop.url.href) };
    }
    response.destroy(); // what it says beside the address is of no interest
    if (followed === request.redirects) {
      const message = `${shownUrl(request.url)}: more than ${request.redirects} redirects`;
      throw new ExchangeError("too_many_redirects", "logical", message);
    }
    hop = follow(hop, status, location);
  }
}

/** Resolves with the head of the response. */
async function send(hop: Hop, options: ExchangeOptions): Promise<http.IncomingMessage> {
  const { url, method, body } = hop;
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const pinned = await resolve(host, options);
  const lookup: LookupFunction = (_, { all }, done) => {
    if (all) done(null, [{ ...pinned }]);
    else done(null, pinned.address, pinned.family);
  };
  // Node leaves the length out for methods that rarely have a body, and the body would be taken for another request.
  const length: Hop["headers"] = body === null ? [] : [["content-length", String(Buffer.byteLength(body))]];
  const headers = Object.fromEntries([["accept-encoding", ACCEPT_ENCODING], ...hop.headers, ...length]);
  const common: https.RequestOptions = {
    ...{ host, port: url.port, path: url.pathname + url.search, method, headers, lookup, signal: options.signal },
    // The machine's own settings must not widen what is said here.
    ...{ agent: false, autoSelectFamily: false, insecureHTTPParser: false, maxHeaderSize: 16_384 },
  };
  const secure = { ...common, rejectUnauthorized: true, ...(options.ca === undefined ? {} : { ca: options.ca }) };
  return new Promise((done, failed) => {
    const request = url.protocol === "https:" ? https.request(secure) : http.request(common);
    request.on("error", failed);
    request.on("response", done);
    // An answer that asks to speak another protocol ends without an error and without a response.
    request.on("close", () => failed(Object.assign(new Error("closed without an answer"), { code: "ECONNRESET" })));
    request.on("socket", (socket: Socket) => {
      const connected = () => {
        const address = socket.remoteAddress ?? "";
        if (isBlocked(address, options.allow)) request.destroy(blocked(host, address, options));
        else request.end(body ?? undefined);
      };
      if (socket.connecting) socket.once("connect", connected);
      else connected();
    });
  });
}

/** The one address to connect to. That a name also leads to a blocked one is reason enough to refuse it. */
async function resolve(host: string, options: ExchangeOptions): Promise<Resolved> {
  const { lookup = systemAddresses, allow, signal } = options;
  signal.throwIfAborted();
  const family = isIP(host); // a socket takes these without asking any lookup
  const all = family === 0 ? await Promise.race([rejection(signal), lookup(host)]) : [{ address: host, family }];
  const refused = all.find(({ address }) => isBlocked(address, allow));
  if (refused !== undefined) throw blocked(host, refused.address, options);
  const [first] = all;
  if (first === undefined) throw Object.assign(new Error(`${host} has no address`), { code: "ENOTFOUND" });
  return first;
}

/** As other programs on this machine resolve names; families that it has no network for are left out. */
function systemAddresses(host: string): Promise<readonly Resolved[]> {
  return systemLookup(host, { all: true, hints: ADDRCONFIG });
}

/** A lookup cannot be called off: it is left behind. */
function rejection(signal: AbortSignal): Promise<never> {
  const rejected = new Promise<never>((_, failed) => {
    signal.addEventListener("abort", () => failed(signal.reason), { once: true });
  });
  rejected.catch(() => {}); // it may come when nobody waits for it any more
  return rejected;
}

function blocked(host: string, address: string, { onBlocked }: ExchangeOptions): ExchangeError {
  onBlocked?.(host, address);
  const message = `${host} leads to a loopback, private or reserved address; the worker's allowAddresses can permit it`;
  return new ExchangeError("blocked_address", "invalid", message);
}

function headersOf(raw: readonly string[]): Reply["headers"] {
  const headers: Record<string, string | string[]> = Object.create(null);
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const [name, value] = [(raw[i] as string).toLowerCase(), raw[i + 1] as string];
    const before = headers[name];
    if (name === "set-cookie") headers[name] = [...(before ?? []), value];
    else headers[name] = before === undefined ? value : `${before}, ${value}`;
  }
  return headers;
}

function textOf(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === "string" ? value : undefined;
}
