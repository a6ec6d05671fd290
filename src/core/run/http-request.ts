/** The request of an `http` step: its filled fields, with `params` in the query, and data in the query of GET and HEAD, else in
 *  the body. Numbers and booleans in headers become text. */
import { isRecord, type JsonFields } from "./run-data.ts";

/** The fields of an `HttpInput`, not checked. A `body`, or else `data`, is sent. */
export function httpRequest(fields: JsonFields, data: JsonFields | null): Record<string, unknown> {
  const { params, body, headers, url, ...rest } = fields;
  const request: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(rest)) if (isGiven(value)) request[name] = value;
  if (isRecord(headers)) request.headers = headersOf(headers);
  else if (isGiven(headers)) request.headers = headers;
  const sent = isGiven(body) ? body : data;
  const method = typeof rest.method === "string" ? rest.method.toUpperCase() : "GET";
  const isInQuery = (method === "GET" || method === "HEAD") && (isRecord(sent) || !isGiven(sent));
  const query = { ...(isRecord(params) ? params : {}), ...(isInQuery && isRecord(sent) ? sent : {}) };
  request.url = withQuery(url, query);
  if (!isInQuery && isGiven(sent)) request.body = sent;
  return request;
}

function isGiven(value: unknown): boolean {
  return value !== null && value !== undefined;
}

function headersOf(headers: JsonFields): Record<string, unknown> {
  const texts: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(headers)) {
    texts[name] = typeof value === "number" || typeof value === "boolean" ? String(value) : value;
  }
  return texts;
}

/** Lists repeat the name, objects are JSON, and None is left out. */
function withQuery(url: unknown, query: JsonFields): unknown {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).filter(isGiven).map((each) => `${encode(name)}=${encode(textOf(each))}`),
  );
  if (pairs.length === 0 || typeof url !== "string") return url;
  const [address = "", ...fragment] = url.split("#");
  const sign = !address.includes("?") ? "?" : /[?&]$/.test(address) ? "" : "&";
  const hash = fragment.length === 0 ? "" : `#${fragment.join("#")}`;
  return `${address}${sign}${pairs.join("&")}${hash}`;
}

function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

function textOf(value: unknown): string {
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
