/** Request bodies: JSON, and on some routes other types as a stream. Compressed JSON is accepted only on routes of systems whose
 *  clients compress by default: a small body may expand into a large one, so memory for the largest is reserved before. */
import { isUtf8 } from "node:buffer";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { PerdureError } from "../core/errors.ts";
import { jsonDepth, jsonFault } from "../lib/json-text.ts";
import type { ServedRoute } from "./served-route.ts";

const unpack = promisify(gunzip);

const JSON_TYPE = "application/json";
/** A payload may be nested 64 levels deep; a request adds a few. */
const MAX_DEPTH = 68;

const texts = new WeakMap<FastifyRequest, string>();

/** The unparsed text of a JSON body. */
export function textOf(request: FastifyRequest): string {
  return texts.get(request) ?? "";
}

/** Whether the size of the body is not known before it has been read. */
export function isOfUnknownSize({ headers }: Pick<FastifyRequest, "headers">): boolean {
  return headers["transfer-encoding"] !== undefined || encodingOf(headers) !== "identity";
}

function encodingOf(headers: FastifyRequest["headers"]): string {
  return headers["content-encoding"]?.toLowerCase() ?? "identity";
}

/** Refuses a body that the route does not accept, before it is read. */
export function checkContent(
  { headers }: Pick<FastifyRequest, "headers">,
  {
    accepts,
    takesGzip = false,
    checksEmptyType = false,
  }: Pick<ServedRoute, "accepts" | "takesGzip" | "checksEmptyType">,
  bodyLimit: number,
): void {
  const encoding = encodingOf(headers);
  if (encoding !== "identity" && !(takesGzip && encoding === "gzip")) {
    const how = takesGzip ? "with gzip or without Content-Encoding" : "without Content-Encoding";
    throw new PerdureError("unsupported_media_type", `send the body ${how}`);
  }
  const length = Number(headers["content-length"] ?? 0);
  const hasBody = headers["transfer-encoding"] !== undefined || length > 0;
  const type = headers["content-type"]?.split(";", 1)[0]?.trim().toLowerCase();
  // A type without a body is harmless on most routes; a body without a type is refused.
  const isChecked = hasBody || (checksEmptyType && type !== undefined);
  if (isChecked && (type === undefined || !accepts.includes(type))) {
    throw new PerdureError("unsupported_media_type", `send the body as ${accepts.join(" or ")}`);
  }
  if (type === JSON_TYPE && length > bodyLimit) throw tooLarge(bodyLimit);
}

export function tooLarge(limit: number): PerdureError {
  return new PerdureError("body_too_large", `the body may have ${limit} bytes at most`);
}

/** JSON is parsed; any other accepted type is passed on as a stream. */
export function addParsers(app: FastifyInstance, bodyLimit: number): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(JSON_TYPE, { parseAs: "buffer" }, async (request: FastifyRequest, sent: Buffer) => {
    if (sent.length === 0) return undefined;
    const body = encodingOf(request.headers) === "gzip" ? await unpacked(sent, bodyLimit) : sent;
    if (!isUtf8(body)) throw new PerdureError("invalid_request", "the body is not UTF-8");
    const text = body.toString("utf8");
    const value = parse(text);
    texts.set(request, text);
    return value;
  });
  app.addContentTypeParser("*", (request, payload, done) => {
    // Routes with a schema take JSON: another type was accepted only because the body is empty.
    const takesJson = request.routeOptions.config.served?.schema.body !== undefined;
    done(null, takesJson ? undefined : payload);
  });
}

async function unpacked(body: Buffer, limit: number): Promise<Buffer> {
  try {
    return await unpack(body, { maxOutputLength: limit });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE") throw tooLarge(limit);
    throw new PerdureError("invalid_request", "the body is not gzip, although its Content-Encoding is");
  }
}

/** Plain `JSON.parse`: a field named `__proto__` stays a field. */
function parse(text: string): unknown {
  if (jsonDepth(text) > MAX_DEPTH) {
    throw new PerdureError("invalid_request", `the JSON is nested deeper than ${MAX_DEPTH} levels`);
  }
  try {
    return JSON.parse(text);
  } catch {
    throw new PerdureError("invalid_request", `the body is not JSON: ${jsonFault(text)}`);
  }
}
