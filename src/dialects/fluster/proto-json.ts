/** The JSON form of protobuf messages (proto3), as far as fluster needs it. Input: names in lowerCamelCase or as in the .proto,
 *  numbers as numbers or text, bytes in either base64 alphabet; null and empty text mean that a field is not set. Output:
 *  lowerCamelCase names, 64-bit numbers as text, and no fields with their default.
 *
 *  An unknown field with a value is refused, as by fluster's own server, because the request would not be fulfilled. With its
 *  default it is ignored, so that a newer client can send it. */
import { asBoolean, asList, fieldPath, isPlain, nearest } from "../../core/check.ts";
import { ConfigError, show } from "../../core/errors.ts";

export type ProtoField =
  | "string"
  /** Base64 of the standard alphabet with padding. */
  | "bytes"
  | "bool"
  | "int32"
  | "int64"
  | "double"
  /** Not part of the message: plain JSON. */
  | "json"
  | { readonly list: "string" | "int32" }
  /** Texts by names. */
  | { readonly map: "string" }
  | { readonly message: ProtoMessage };

/** Its fields, by their names in the .proto. */
export type ProtoMessage = { readonly [name: string]: ProtoField };

/** The fields that are set, by their names in the .proto. */
export function readProto(value: unknown, message: ProtoMessage, path: string): Record<string, unknown> {
  const names = new Map(Object.keys(message).flatMap((name) => [name, lowerCamel(name)].map((each) => [each, name])));
  if (!isPlain(value)) {
    const problem = value === undefined ? "the body is empty" : undefined;
    const allowed = "a JSON object, such as {}";
    throw new ConfigError({ path: path === "" ? "body" : path, given: value, allowed, problem });
  }
  const read: Record<string, unknown> = Object.create(null);
  const seen = new Map<string, string>();
  for (const [key, given] of Object.entries(value)) {
    const at = fieldPath(path, key);
    const name = names.get(key);
    if (name === undefined) {
      refuseUnknown(given, key, at, [...names.keys()]);
      continue;
    }
    const other = seen.get(name);
    if (other !== undefined) {
      const problem = `${other} and ${key} are two names of one field`;
      throw new ConfigError({ path: at, given, allowed: "one of them", problem });
    }
    seen.set(name, key);
    const field = given === null ? null : readField(given, message[name] as ProtoField, at);
    if (field !== null && field !== "") read[name] = field;
  }
  return read;
}

function refuseUnknown(given: unknown, key: string, path: string, known: readonly string[]): void {
  if (isDefault(given) || given === "0") return;
  const allowed = known.filter((name) => !name.includes("_")).join(", ");
  throw new ConfigError({ path, given, allowed, nearest: nearest(key, known), problem: `unknown field ${show(key)}` });
}

/** The default of a field. */
function isDefault(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0;
  if (isPlain(value)) return Object.values(value).every(isDefault);
  return value === null || value === "" || value === 0 || value === false;
}

function readField(value: unknown, type: ProtoField, path: string): unknown {
  switch (type) {
    case "string":
      return asString(value, path);
    case "bytes":
      return asBytes(value, path);
    case "bool":
      return asBoolean(value, path);
    case "int32":
      return asWhole(value, path, 32);
    case "int64":
      return asWhole(value, path, 64);
    case "double":
      return asDouble(value, path);
    case "json":
      return value;
  }
  if ("message" in type) return readProto(value, type.message, path);
  if ("list" in type) return asList(value, path, (each, at) => readField(each, type.list, at), MAX_ITEMS);
  if (!isPlain(value)) throw new ConfigError({ path, given: value, allowed: "an object of names and texts" });
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, asString(each, fieldPath(path, name))]));
}

const MAX_ITEMS = 10_000;

function asString(value: unknown, path: string): string {
  if (typeof value === "string") return value;
  throw new ConfigError({ path, given: value, allowed: "a text" });
}

const DIGITS = /^-?\d{1,19}$/;

/** Bounds are checked on the number: 64-bit values that are not exact as a number exceed every limit anyway. */
function asWhole(value: unknown, path: string, bits: 32 | 64): number {
  const number = typeof value === "string" && DIGITS.test(value) ? Number(value) : value;
  const limit = 2 ** (bits - 1);
  if (typeof number === "number" && Number.isInteger(number) && number >= -limit && number < limit) return number + 0;
  throw new ConfigError({ path, given: value, allowed: `a whole number of ${bits} bits, as a number or a text` });
}

function asDouble(value: unknown, path: string): number {
  const isText = typeof value === "string" && /^-?\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?$/.test(value);
  const number = isText ? Number(value) : value;
  if (typeof number === "number" && Number.isFinite(number)) return number;
  throw new ConfigError({ path, given: value, allowed: "a finite number, as a number or a text" });
}

function asBytes(value: unknown, path: string): string {
  const plain =
    typeof value === "string"
      ? value
          .replaceAll("-", "+")
          .replaceAll("_", "/")
          .replace(/={0,2}$/, "")
      : "?";
  if (/^[A-Za-z0-9+/]*$/.test(plain) && plain.length % 4 !== 1)
    return plain.padEnd(Math.ceil(plain.length / 4) * 4, "=");
  const shown = typeof value === "string" ? `a text of ${value.length} characters` : show(value);
  throw new ConfigError({ path, given: value, allowed: "bytes in base64", problem: `got ${shown} that is not base64` });
}

function lowerCamel(name: string): string {
  return name.replaceAll(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** A message in JSON, from fields by their names in the .proto. `int64` fields are written as text. */
export function toProtoJson(fields: Readonly<Record<string, unknown>>, int64: ReadonlySet<string>): object {
  const entries = Object.entries(fields).filter(([, value]) => !isDefault(value));
  return Object.fromEntries(
    entries.map(([name, value]) => [lowerCamel(name), int64.has(name) ? String(value) : value]),
  );
}
