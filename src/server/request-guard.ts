/** Checks every request before it is routed: that it is meant for this server (Host), and not sent by a foreign web page (Origin,
 *  Sec-Fetch-Site). Authentication happens on the matched route, in `auth.ts`. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { hostname } from "node:os";
import { PerdureError } from "../core/errors.ts";

/** Headers of every reply. There are never CORS headers: pages of other origins must not use the API. */
export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
};

export interface RequestGuardOptions {
  readonly host: string;
  readonly allowHosts: readonly string[];
  readonly tls: boolean;
}

export type RequestGuard = (request: IncomingMessage) => PerdureError | null;

export function createGuard({ host, allowHosts, tls }: RequestGuardOptions): RequestGuard {
  const names = new Set(["localhost", ...[host, ...allowHosts].map(plainHost)]);
  if (!isLoopback(host)) names.add(hostname().toLowerCase());
  return (request) => {
    const { headers, url = "", socket } = request;
    if (countOf(request.rawHeaders, "host") > 1)
      return new PerdureError("invalid_request", "more than one Host header");
    // Absolute URLs contain their own host; no supported client sends them, nor `*`.
    if (!url.startsWith("/")) return new PerdureError("invalid_request", "the request target must be a path");
    const name = hostOf(headers.host);
    if (name === null || !(names.has(name) || name === plainHost(socket.localAddress ?? ""))) {
      return new PerdureError(
        "misdirected",
        "the Host header is not a name of this server; allow it with --allow-host",
      );
    }
    return isForeign(headers, tls)
      ? new PerdureError("forbidden", "requests from web pages of another origin are not allowed")
      : null;
  };
}

export function setSecurityHeaders(response: ServerResponse): void {
  for (const name in SECURITY_HEADERS) response.setHeader(name, SECURITY_HEADERS[name] as string);
}

export function isLoopback(host: string): boolean {
  const name = plainHost(host);
  return name === "localhost" || name === "::1" || /^127\.\d+\.\d+\.\d+$/.test(name);
}

const HOST = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/;

/** The name in a Host header, without the port, which may be that of a proxy. */
function hostOf(header: string | undefined): string | null {
  const name = HOST.exec((header ?? "").toLowerCase())?.[1];
  return name === undefined ? null : plainHost(name);
}

/** Without brackets, and without the IPv6 prefix of a mapped IPv4 address. */
function plainHost(host: string): string {
  return host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, "$1")
    .replace(/^::ffff:(?=\d+\.)/, "");
}

function isForeign(headers: IncomingHttpHeaders, tls: boolean): boolean {
  const site = headers["sec-fetch-site"];
  if (site === "cross-site" || site === "same-site") return true;
  const { origin, host = "" } = headers;
  if (origin === undefined) return false;
  // Without our own TLS, a proxy may terminate it.
  const own = tls ? [`https://${host}`] : [`http://${host}`, `https://${host}`];
  return !own.some((each) => each.toLowerCase() === origin.toLowerCase());
}

function countOf(rawHeaders: readonly string[], name: string): number {
  return rawHeaders.filter((each, i) => i % 2 === 0 && each.toLowerCase() === name).length;
}
