/** `Perdure.connect()`: a client of a server. */

import type * as api from "../core/api.ts";
import { asText, checkOptions } from "../core/check.ts";
import { asSpan, type Duration, toMs } from "../core/duration.ts";
import { ConfigError } from "../core/errors.ts";
import { withoutEnd } from "../core/format.ts";
import { type PerdureClient, perdureClient } from "./client.ts";
import type { LinkOptions } from "./http-call.ts";

/** How a client connects to its server.
 *  @example
 *  const options: ConnectOptions = { token: "pdr_…", timeout: "10s", patience: "1m" }; */
export interface ConnectOptions {
  /** A token of the server. */
  token: string;
  /** For a token of all namespaces; default: `default`. */
  namespace?: string;
  /** Makes the requests; default: the one of the platform. */
  fetch?: typeof fetch;
  /** How long the reply to one request may take; default 30 s. */
  timeout?: Duration;
  /** How long a call that may be repeated is repeated while the server is away; default 30 s. `result()` and followed
   *  events wait without limit. */
  patience?: Duration;
}

/** One name for the value and the type: `const perdure: Perdure = await Perdure.connect(…)`.
 *  @example
 *  const client = await Perdure.connect("https://jobs.example.com", { token: "pdr_…" });
 *  await client.submit("resize", { url }); */
export type Perdure = api.Perdure;
export const Perdure = { connect };

/** A client of the server at this address. Nothing is sent yet: the first call fails if it cannot be reached. */
async function connect(url: string | URL, options: ConnectOptions): Promise<PerdureClient> {
  return perdureClient(checkConnect(url, options));
}

const DEFAULT_TIMEOUT = "30s";
const DEFAULT_PATIENCE = "30s";

export function checkConnect(url: string | URL, options: ConnectOptions, path = "connect"): LinkOptions {
  checkOptions(options, ["token", "namespace", "fetch", "timeout", "patience"], path);
  const { namespace, timeout = DEFAULT_TIMEOUT, patience = DEFAULT_PATIENCE } = options;
  const given = options.fetch ?? globalThis.fetch;
  if (typeof given !== "function") {
    throw new ConfigError({ path: `${path}.fetch`, given, allowed: "a function like the fetch of browsers" });
  }
  return {
    base: checkUrl(url, `${path}.url`),
    token: checkHeader(options.token, `${path}.token`, "a token of the server"),
    namespace: namespace === undefined ? null : checkNamespace(namespace, `${path}.namespace`),
    fetch: (input, init) => given(input, init), // a browser's fetch throws when it is called as a method
    timeoutMs: asSpan(timeout, `${path}.timeout`),
    patienceMs: toMs(patience, `${path}.patience`),
  };
}

/** The address without a slash at its end; a path is kept, for servers behind a proxy. */
function checkUrl(url: unknown, path: string): string {
  const allowed = "the address of a server, as in https://perdure.example.org or http://localhost:4400";
  let parsed: URL;
  try {
    parsed = new URL(String(url));
  } catch {
    throw new ConfigError({ path, given: url, allowed });
  }
  const { protocol, username, password, origin, pathname, search, hash } = parsed;
  if (protocol !== "http:" && protocol !== "https:") throw new ConfigError({ path, given: url, allowed });
  if (username !== "" || password !== "") {
    throw new ConfigError({ path, given: origin, problem: "it holds a password", allowed: `${allowed}; use a token` });
  }
  if (search !== "" || hash !== "") throw new ConfigError({ path, given: url, allowed: `${allowed}, without ? and #` });
  return `${origin}${withoutEnd(pathname, "/")}`;
}

/** It is sent in a header, which can hold only these characters. */
function checkNamespace(value: unknown, path: string): string {
  const name = asText(value, path, 200);
  if (/^[\x20-\x7e\xa0-\xff]+$/.test(name) && name.trim() === name) return name;
  throw new ConfigError({ path, given: value, allowed: "a name of Latin letters, digits and signs" });
}

/** A text that a header can hold. The value is a secret, and never part of a message. */
function checkHeader(value: unknown, path: string, allowed: string): string {
  if (typeof value === "string" && /^[\x21-\x7e]{1,1000}$/.test(value)) return value;
  const problem = value === undefined ? "missing" : "not the text of a token";
  throw new ConfigError({ path, given: null, problem, allowed });
}
