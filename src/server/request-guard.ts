/** What every request passes before it is routed: that it means this server (Host), and that no foreign page sent it
 *  (Origin, Sec-Fetch-Site). Who calls, and what it may do, is decided on the matched route, in `auth.ts`. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { hostname } from "node:os";
import { PerdureError } from "../core/errors.ts";

/** Of every reply. There are no CORS headers, ever: pages of other origins have no business here. */
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
    // Absolute forms and `*` name a host of their own; nothing that speaks to us sends them.
    if (!url.startsWith("/")) return new PerdureError("invalid_request", "the target must be a path");
    const name = hostOf(headers.host);
    if (name === null || !(names.has(name) || name === plainHost(socket.localAddress ?? ""))) {
      return new PerdureError("misdirected", "this server does not answer to that name; allow it with --allow-host");
    }
    return isForeign(headers, tls) ? new PerdureError("forbidden", "a page of another origin may not call this") : null;
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

/** The name in a Host header, without its port: another port is another way to the same server. */
function hostOf(header: string | undefined): string | null {
  const name = HOST.exec((header ?? "").toLowerCase())?.[1];
  return name === undefined ? null : plainHost(name);
}

/** Without brackets, and without the wrapping of IPv4 in IPv6. */
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
  // Without TLS of our own, a proxy before us may have it.
  const own = tls ? [`https://${host}`] : [`http://${host}`, `https://${host}`];
  return !own.some((each) => each.toLowerCase() === origin.toLowerCase());
}

function countOf(rawHeaders: readonly string[], name: string): number {
  return rawHeaders.filter((each, i) => i % 2 === 0 && each.toLowerCase() === name).length;
}
