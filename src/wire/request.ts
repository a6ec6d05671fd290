/** The head of a request, the same for both transports: a fetch and Node's own client. */
import { pathOf, ROUTES, type RouteName } from "../contract/routes.ts";
import { HEADER } from "../contract/wire.ts";
import { ConfigError } from "../core/errors.ts";

export interface WireCall {
  readonly params?: Readonly<Record<string, string | number>>;
  /** Fills the `*` of a path. */
  readonly rest?: string;
  readonly query?: URLSearchParams;
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON as text, or bytes. */
  readonly body?: string | Uint8Array;
  readonly signal?: AbortSignal;
}

export interface WireCaller {
  /** Empty: no token is sent. */
  readonly token: string;
  /** The namespace, for a token of all namespaces; null: the token's own. */
  readonly namespace: string | null;
}

export interface RequestHead {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: Record<string, string>;
}

export function requestHead(name: RouteName, call: WireCall, { token, namespace }: WireCaller): RequestHead {
  const headers: Record<string, string> = { accept: "application/json" };
  if (token !== "") headers.authorization = `Bearer ${token}`;
  if (namespace !== null) headers[HEADER.namespace] = namespace;
  // Only with a body: a server refuses an empty body of type JSON.
  if (call.body !== undefined) {
    headers["content-type"] = typeof call.body === "string" ? "application/json" : "application/octet-stream";
  }
  return {
    method: ROUTES[name].method,
    path: pathWithQuery(name, call),
    headers: Object.assign(headers, call.headers),
  };
}

function pathWithQuery(name: RouteName, { params = {}, rest = "", query }: WireCall): string {
  for (const param in params) refuseDots(String(params[param]), `${name}.${param}`);
  if (rest !== "") for (const part of rest.split("/")) refuseDots(part, `${name}.name`);
  const search = query?.toString() ?? "";
  const path = pathOf(name, params, rest);
  return search === "" ? path : `${path}?${search}`;
}

/** In a URL these parts mean "here" and "one up", also when they are encoded: the call would reach another route. */
function refuseDots(part: string, path: string): void {
  if (part !== "." && part !== "..") return;
  throw new ConfigError({ path, given: part, allowed: "a name other than . and .." });
}
