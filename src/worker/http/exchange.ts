/** One HTTP exchange: a request, its redirects, one response. At each hop the name is resolved once, every address is checked,
 *  and the socket connects to the first of them only, so that a name that changes between check and connect has no effect. The
 *  connected address is checked again before the request is sent. Nothing is kept alive or shared between exchanges, and proxy
 *  settings of the environment are ignored. Not promised: a retry with the second address of a name; the job is retried. */

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

type ExchangeCode = "blocked_address" | "bad_redirect" | "too_many_redirects" | "ETIMEDOUT" | "ABORT_ERR";

/** An exchange that was ended by this module. System errors (ECONNREFUSED, ENOTFOUND, …) are thrown unchanged. */
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

/** A request to one URL. */
export interface RedirectHop {
  readonly url: URL;
  readonly method: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string | null;
}

/** 300 and 304 have no single target; 305 and 306 are obsolete. */
const REDIRECTS: readonly number[] = [301, 302, 303, 307, 308];
/** Headers that are also sent to another origin. Any other may contain a secret, whatever its name. */
const HARMLESS: readonly string[] = ["accept", "accept-encoding", "accept-language", "content-type", "user-agent"];

export function isRedirect(status: number, location: string | undefined): location is string {
  return REDIRECTS.includes(status) && location !== undefined;
}

/** The request that follows a redirect. Throws if it must not be followed; its address is checked when it is resolved. */
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
  if (url === null) return refuse("an invalid URL");
  if (url.protocol !== "http:" && url.protocol !== "https:")
    return refuse(`a ${url.protocol} URL; only http and https`);
  // The request was meant to be encrypted.
  if (from.protocol === "https:" && url.protocol === "http:") return refuse("http; only https is followed from https");
  if (url.username !== "" || url.password !== "") return refuse("a URL with a user or password");
  url.hash = "";
  return url;
}

export interface HttpReply extends Body {
  readonly status: number;
  /** By lower-case name, without a prototype. Repeated ones are joined by commas, but for set-cookie, a list. */
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  /** The final URL, for messages. */
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
  /** Called with the blocked address of a host: for the operator, not for the author of the job. */
  readonly onBlocked?: (host: string, address: string) => void;
  /** For tests. */
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
  const aborted = () => stop.abort(new ExchangeError("ABORT_ERR", "transient", `cancelled: ${shownUrl(first)}`));
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
    response.destroy(); // only the location of a redirect is used
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
  // Node omits the length for methods that rarely have a body; servers would then parse the body as another request.
  const length: RedirectHop["headers"] = body === null ? [] : [["content-length", String(Buffer.byteLength(body))]];
  const headers = Object.fromEntries([["accept-encoding", ACCEPT_ENCODING], ...hop.headers, ...length]);
  const common: https.RequestOptions = {
    ...{ host, port: url.port, path: url.pathname + url.search, method, headers, lookup, signal: options.signal },
    // Explicit, so that global settings of the process do not apply.
    ...{ agent: false, autoSelectFamily: false, insecureHTTPParser: false, maxHeaderSize: 16_384 },
  };
  const secure = { ...common, rejectUnauthorized: true, ...(options.ca === undefined ? {} : { ca: options.ca }) };
  return new Promise((done, failed) => {
    const request = url.protocol === "https:" ? https.request(secure) : http.request(common);
    request.on("error", failed);
    request.on("response", done);
    // A reply with a protocol upgrade ends without an error and without a response.
    request.on("close", () => failed(Object.assign(new Error("closed without a response"), { code: "ECONNRESET" })));
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

/** The address to connect to. A name with any blocked address is refused. */
async function resolve(host: string, options: ExchangeOptions): Promise<ResolvedAddress> {
  const { lookup = systemAddresses, allow, signal } = options;
  signal.throwIfAborted();
  const family = isIP(host); // sockets connect to these without a lookup
  const all = family === 0 ? await Promise.race([rejection(signal), lookup(host)]) : [{ address: host, family }];
  const refused = all.find(({ address }) => isBlocked(address, allow));
  if (refused !== undefined) throw blocked(host, refused.address, options);
  const [first] = all;
  if (first === undefined) throw Object.assign(new Error(`${host} has no address`), { code: "ENOTFOUND" });
  return first;
}

/** Resolves a name as other programs on this machine do; address families without a network are left out. */
function systemAddresses(host: string): Promise<readonly ResolvedAddress[]> {
  return systemLookup(host, { all: true, hints: ADDRCONFIG });
}

/** A lookup cannot be cancelled: its result is ignored. */
function rejection(signal: AbortSignal): Promise<never> {
  const rejected = new Promise<never>((_, failed) => {
    signal.addEventListener("abort", () => failed(signal.reason), { once: true });
  });
  rejected.catch(() => {}); // it may reject after the race
  return rejected;
}

function blocked(host: string, address: string, { onBlocked }: ExchangeOptions): ExchangeError {
  onBlocked?.(host, address);
  const message = `${host} is a loopback, private or reserved address; permit it with the worker's allowAddresses`;
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
