/** The input of a job of kind `http`: one request, and which replies count as success. Checked at submit, and again by the
 *  worker, which trusts no payload. The worker checks the address when it resolves the host name. Messages never contain a
 *  query, a password or the value of a header, which may be secret. */
import { asInteger, asList, asObject, fieldPath, reader } from "../check.ts";
import { type Duration, toMs } from "../duration.ts";
import { ConfigError } from "../errors.ts";
import { MIB } from "./resources.ts";

/** A status, or a hundred of them. */
export type ExpectedStatus = number | `${2 | 3 | 4 | 5}xx`;

/** A request, and which replies count as success.
 *  @example
 *  const input: HttpInput = { url: "https://example.com/hook", method: "POST", body: { id: 7 }, timeout: "10s" }; */
export interface HttpInput {
  /** http or https, without user and password. */
  readonly url: string;
  /** Default: GET. */
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Text is sent as it is, anything else as JSON, with that content type unless `headers` has one. */
  readonly body?: unknown;
  /** The statuses that count as success. Default: 2xx. */
  readonly expect?: ExpectedStatus | readonly ExpectedStatus[];
  /** For the whole exchange, with redirects and body. Default: 30 s. */
  readonly timeout?: Duration;
  /** Of the decoded body. Default: 1 MiB. */
  readonly maxBytes?: number;
  /** How many to follow. Default: 3. With 0, `expect` applies to a 3xx as to any other status. */
  readonly redirects?: number;
}

export interface CheckedHttp {
  readonly url: string;
  readonly method: string;
  /** Pairs and not an object, so that no name means anything to JavaScript. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string | null;
  /** Inclusive ranges. */
  readonly expect: readonly (readonly [low: number, high: number])[];
  readonly timeoutMs: number;
  readonly maxBytes: number;
  readonly redirects: number;
}

const FIELDS = ["url", "method", "headers", "body", "expect", "timeout", "maxBytes", "redirects"] as const;

const DEFAULT_TIMEOUT_MS = 30_000;
/** For longer work, send a short request and poll with another job. */
const MAX_TIMEOUT_MS = 3_600_000;
/** The limit of a result. */
export const MAX_BODY_BYTES = MIB;
const MAX_REDIRECTS = 3;
/** Above these, servers reply 414 and 431. */
const MAX_URL = 8_192;
const MAX_HEADER = 8_192;
const MAX_HEADERS = 100;

const TOKEN = /^[\w!#$%&'*+.^`|~-]{1,100}$/;
/** Not allowed in the value of a header: control characters such as line breaks, and what is not a single byte. */
const NOT_IN_VALUE = /[^\t\x20-\x7e\x80-\xff]/;
/** They turn the connection into a tunnel, or return the request with its secrets. */
const NO_METHODS: readonly string[] = ["CONNECT", "TRACE", "TRACK"];
/** They determine where a message ends and where it goes; a second opinion allows request smuggling. */
const OURS: readonly string[] =
  "connection content-length expect host keep-alive proxy-connection te trailer transfer-encoding upgrade".split(" ");

export function checkHttpInput(value: unknown, path: string): CheckedHttp {
  // An address instead of an object is a common mistake; the message must not show it.
  if (typeof value === "string") refuse(path, "text", `an object with ${FIELDS.join(", ")}`);
  const fields = asObject(value, path, FIELDS);
  const read = reader(fields, path);
  const url = asUrl(fields.url, fieldPath(path, "url"));
  const method = read("method", asMethod, "GET");
  const headers = read("headers", asHeaders, []);
  const body = read("body", asBody, null);
  if (body !== null && (method === "GET" || method === "HEAD")) {
    throw new ConfigError({ path: fieldPath(path, "body"), given: "a body", problem: `cannot be used with ${method}` });
  }
  const isJson = body !== null && typeof fields.body !== "string";
  const isTyped = headers.some(([name]) => name.toLowerCase() === "content-type");
  return {
    url,
    method,
    headers: isJson && !isTyped ? [...headers, ["content-type", "application/json"]] : headers,
    body,
    expect: read("expect", asExpected, [[200, 299]]),
    timeoutMs: read("timeout", asTimeout, DEFAULT_TIMEOUT_MS),
    maxBytes: read("maxBytes", (given, at) => asInteger(given, at, { min: 0, max: MAX_BODY_BYTES }), MAX_BODY_BYTES),
    redirects: read("redirects", (given, at) => asInteger(given, at, { min: 0, max: MAX_REDIRECTS }), MAX_REDIRECTS),
  };
}

/** A checked address for messages, without query and fragment. */
export function shownUrl(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + pathname;
}

/** Describes the given value in place of showing it, as it may be secret. */
function refuse(path: string, shown: string, allowed: string): never {
  throw new ConfigError({ path, given: shown, allowed, shown });
}

/** Normalised as the URL standard does: odd spellings of an address (`0x7f.1`, `①②⑦.0.0.1`) become the plain one. */
function asUrl(value: unknown, path: string): string {
  const allowed = `an http or https address of at most ${MAX_URL} characters`;
  if (typeof value !== "string") refuse(path, value === undefined ? "nothing" : `a ${typeof value}`, allowed);
  if (value.length > MAX_URL) refuse(path, `${value.length} characters`, allowed);
  if (!URL.canParse(value)) refuse(path, "text that is not an address", allowed);
  const url = new URL(value);
  if (url.protocol !== "http:" && url.protocol !== "https:") refuse(path, `an address of ${url.protocol}`, allowed);
  if (url.username !== "" || url.password !== "") {
    const problem = "contains a user or a password";
    throw new ConfigError({ path, given: problem, problem, fix: 'send them in the header "authorization"' });
  }
  url.hash = "";
  return url.href;
}

function asMethod(value: unknown, path: string): string {
  const method = typeof value === "string" && TOKEN.test(value) ? value.toUpperCase() : "";
  if (method !== "" && !NO_METHODS.includes(method)) return method;
  const allowed = `a method such as GET or POST, but not ${NO_METHODS.join(", ")}`;
  throw new ConfigError({ path, given: value, allowed });
}

function asHeaders(value: unknown, path: string): CheckedHttp["headers"] {
  const headers = Object.entries(asObject(value, path));
  if (headers.length > MAX_HEADERS) refuse(path, `${headers.length} headers`, `at most ${MAX_HEADERS} headers`);
  const seen = new Set<string>();
  return headers.map(([name, text]) => {
    const at = fieldPath(path, name);
    const lower = name.toLowerCase();
    if (!TOKEN.test(name))
      refuse(at, "a name that cannot be sent", "a name of letters, digits and -, as in content-type");
    if (OURS.includes(lower)) refuse(at, `"${lower}"`, "a header that the connection itself does not set");
    if (seen.has(lower)) throw new ConfigError({ path: at, given: lower, problem: "is set twice" });
    seen.add(lower);
    if (typeof text !== "string") refuse(at, text === null ? "null" : `a ${typeof text}`, "text");
    if (text.length > MAX_HEADER) refuse(at, `${text.length} characters`, `at most ${MAX_HEADER} characters`);
    if (NOT_IN_VALUE.test(text)) refuse(at, "a character that cannot be sent", "one line of Latin-1 text");
    return [name, text];
  });
}

function asBody(value: unknown, path: string): string {
  if (typeof value === "string") return value;
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch {
    text = undefined;
  }
  return text ?? refuse(path, `a ${typeof value}`, "text, or a JSON value");
}

function asTimeout(value: unknown, path: string): number {
  const ms = toMs(value, path);
  if (ms >= 1 && ms <= MAX_TIMEOUT_MS) return ms;
  throw new ConfigError({ path, given: value, allowed: "a duration from 1ms to 1h" });
}

function asExpected(value: unknown, path: string): CheckedHttp["expect"] {
  return Array.isArray(value) ? asList(value, path, asStatus, MAX_HEADERS, 1) : [asStatus(value, path)];
}

/** 1xx never ends an exchange. */
function asStatus(value: unknown, path: string): readonly [number, number] {
  const [, hundreds] = typeof value === "string" ? (/^([2-5])xx$/i.exec(value) ?? []) : [];
  if (hundreds !== undefined) return [Number(hundreds) * 100, Number(hundreds) * 100 + 99];
  if (typeof value === "number" && Number.isInteger(value) && value >= 200 && value <= 599) return [value, value];
  throw new ConfigError({ path, given: value, allowed: 'a status from 200 to 599, or "2xx", "3xx", "4xx" or "5xx"' });
}
