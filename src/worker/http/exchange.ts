/** One HTTP exchange: a request, the redirects it leads to, one response. At each hop a name is resolved once, every
 *  address is checked, and the socket goes to the first of them and nowhere else. */

import { ADDRCONFIG } from "node:dns";
import { lookup as systemLookup } from "node:dns/promises";
import * as http from "node:http";
import * as https from "node:https";
import { isIP, type LookupFunction, type Socket } from "node:net";
import type { FailureClass } from "../../core/decision/failure.ts";
import { showMs } from "../../core/duration.ts";
import { type CheckedHttp, shownUrl } from "../../core/input/http-input.ts";
import type { Clock } from "../../lib/clock.ts";
import { isBlocked } from "./address.ts";
import { ACCEPT_ENCODING, type Body, readBody } from "./body.ts";

// An exchange that we ended ourselves. Errors of the system (ECONNREFUSED, ENOTFOUND, …) pass as they are.

type ExchangeCode = "blocked_address" | "bad_redirect" | "too_many_redirects" | "ETIMEDOUT" | "ABORT_ERR";

export class ExchangeError extends Error {
  readonly code: ExchangeCode;
  readonly class: FailureClass;

  constructor(code: ExchangeCode, failureClass: FailureClass, message: string) {
    super(message);
    this.name = code === "ETIMEDOUT" ? "TimeoutError" : code === "ABORT_ERR" ? "AbortError" : "ExchangeError";
    this.code = code;
    this.class = failureClass;
  }
}

// Where a redirect leads, and what is sent there. Pure; whether the new address may be reached is asked when it is
// resolved, as for the first one.

export interface RedirectHop {
  readonly url: URL;
  readonly method: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string | null;
}

/** 300 and 304 have no one place to go to, 305 and 306 are long gone. */
const REDIRECTS: readonly number[] = [301, 302, 303, 307, 308];
/** What may go to another origin than the one it was written for. All else may hold a secret, whatever its name. */
const HARMLESS: readonly string[] = ["accept", "accept-encoding", "accept-language", "content-type", "user-agent"];

export function isRedirect(status: number, location: string | undefined): location is string {
  return REDIRECTS.includes(status) && location !== undefined;
}

/** The request that follows. Throws where it must not be followed. */
export function follow(hop: RedirectHop, status: number, location: string): RedirectHop {
  const url = target(hop.url, location);
  const becomesGet = status === 303 ? hop.method !== "HEAD" : status <= 302 && hop.method === "POST";
  const crosses = url.origin !== hop.url.origin;
  const headers = hop.headers.filter(([name]) => {
    const lower = name.toLowerCase();
    if (becomesGet && lower.startsWith("content-")) return false;
    return !crosses || HARMLESS.includes(lower);
  });
  return becomesGet ? { url, method: "GET", headers, body: null } : { ...hop, url, headers };
}

function target(from: URL, location: string): URL {
  const refuse = (why: string): never => {
    throw new ExchangeError("bad_redirect", "logical", `${shownUrl(from.href)} redirects to ${why}`);
  };
  const url = URL.canParse(location, from.href) ? new URL(location, from.href) : null;
  if (url === null) return refuse("what is no address");
  if (url.protocol !== "http:" && url.protocol !== "https:") return refuse(`${url.protocol}, not to http or https`);
  // Everyone on the way could read what was meant to be hidden from them.
  if (from.protocol === "https:" && url.protocol === "http:") return refuse("http, away from https");
  if (url.username !== "" || url.password !== "") return refuse("an address with a user or password");
  url.hash = "";
  return url;
}

// One HTTP exchange: a request, the redirects it leads to, one response. A name is resolved once a hop, every address
// it has is checked, and the socket goes to the first of them and nowhere else: a name that changes between check and
// connect changes nothing. What the socket is connected to is checked again before a byte of the request is sent.
// Nothing is kept alive or shared between exchanges, and no proxy is read from the environment. Not promised: another
// try with the second address of a name; the job's policy tries again.

export interface HttpReply extends Body {
  readonly status: number;
  /** By lower-case name, without a prototype. Repeated ones are joined by commas, but for set-cookie, a list. */
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  /** Where it came from in the end, fit for messages. */
  readonly url: string;
}

interface ResolvedAddress {
  readonly address: string;
  readonly family: number;
}
export type Lookup = (host: string) => Promise<readonly ResolvedAddress[]>;

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
export async function exchange(request: CheckedHttp, options: ExchangeOptions): Promise<HttpReply> {
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

async function hops(request: CheckedHttp, options: ExchangeOptions): Promise<HttpReply> {
  const { method, body, headers } = request;
  let hop: RedirectHop = { url: new URL(request.url), method, headers, body };
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
async function send(hop: RedirectHop, options: ExchangeOptions): Promise<http.IncomingMessage> {
  const { url, method, body } = hop;
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const pinned = await resolve(host, options);
  const lookup: LookupFunction = (_, { all }, done) => {
    if (all) done(null, [{ ...pinned }]);
    else done(null, pinned.address, pinned.family);
  };
  // Node leaves the length out for methods that rarely have a body, and the body would be taken for another request.
  const length: RedirectHop["headers"] = body === null ? [] : [["content-length", String(Buffer.byteLength(body))]];
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
async function resolve(host: string, options: ExchangeOptions): Promise<ResolvedAddress> {
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
function systemAddresses(host: string): Promise<readonly ResolvedAddress[]> {
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

function headersOf(raw: readonly string[]): HttpReply["headers"] {
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
