/** Requests derived from the OpenAPI document alone, as a stranger who read it would make them, and mistakes of all kinds. */
import type { Dice } from "../dice.ts";
import { type Schema, Values } from "./values.ts";

export interface Request {
  readonly operation: string;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Buffer | null;
}

interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required?: boolean;
  readonly schema?: Schema;
}

export interface Operation {
  readonly id: string;
  readonly method: string;
  readonly path: string;
  readonly parameters: readonly Parameter[];
  readonly body: { readonly type: string; readonly schema: Schema } | null;
  /** By status; a JSON reply only. */
  readonly replies: ReadonlyMap<number, Schema | null>;
}

export function operationsIn(document: Schema): Operation[] {
  const components = (document.components as { parameters: Record<string, Parameter> }).parameters;
  const resolve = (parameter: Parameter & { $ref?: string }) =>
    parameter.$ref === undefined ? parameter : (components[parameter.$ref.split("/").at(-1) as string] as Parameter);
  return Object.entries(document.paths as Record<string, Record<string, Schema>>).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      const content = (operation.requestBody as { content?: Record<string, { schema: Schema }> } | undefined)?.content;
      const [type, body] = Object.entries(content ?? {})[0] ?? [];
      const replies = Object.entries(operation.responses as Record<string, Schema>).flatMap(([status, reply]) => {
        const json = (reply.content as Record<string, { schema: Schema }> | undefined)?.["application/json"];
        return status === "default" ? [] : [[Number(status), json?.schema ?? null] as const];
      });
      return {
        id: operation.operationId as string,
        method: method.toUpperCase(),
        path,
        parameters: ((operation.parameters ?? []) as (Parameter & { $ref?: string })[]).map(resolve),
        body: type === undefined || body === undefined ? null : { type, schema: body.schema },
        replies: new Map(replies),
      };
    }),
  );
}

const TYPES = [
  "application/json",
  "text/plain",
  "application/x-www-form-urlencoded",
  "multipart/form-data",
  "a/b",
  "",
] as const;
const METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"] as const;

export function makeRequest(
  operation: Operation,
  dice: Dice,
  known: ReadonlyMap<string, readonly string[]>,
  token: string,
): Request {
  const values = new Values(dice, known);
  const wild = dice.pick([0, 0, 0.02, 0.1, 0.4]);
  let path = operation.path;
  const query: string[] = [];
  const headers: Record<string, string> = { authorization: `Bearer ${token}` };
  for (const { name, in: place, required, schema } of operation.parameters) {
    if (!required && dice.chance(0.6)) continue;
    const value = values.of(schema ?? { type: "string" }, name, wild);
    const text = typeof value === "object" ? JSON.stringify(value) : String(value);
    if (place === "path") path = path.replace(`{${name}}`, () => encoded(text));
    if (place === "query") {
      for (const each of Array.isArray(value) ? value : [text]) query.push(`${encoded(name)}=${encoded(String(each))}`);
    }
    // What no header may hold cannot be sent at all.
    if (place === "header") headers[name.toLowerCase()] = text.replaceAll(/[^\x20-\x7e]/g, "?").trim();
  }
  if (dice.chance(wild)) query.push(`${encoded(String(values.of({ type: "string" }, "", 1)))}=1`);
  if (query.length > 0) path += `?${query.join("&")}`;
  const method = dice.chance(wild / 4) ? dice.pick(METHODS) : operation.method;
  if (operation.body === null || dice.chance(wild / 4))
    return { operation: operation.id, method, path, headers, body: null };
  const { type, schema } = operation.body;
  headers["content-type"] = dice.chance(wild / 4) ? dice.pick(TYPES) : type;
  const body = type === "application/json" ? jsonBody(values.of(schema, "", wild), dice, wild) : randomBytes(dice);
  return { operation: operation.id, method, path, headers, body };
}

/** Well-formed: half a surrogate pair cannot be written into an address. */
function encoded(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

function jsonBody(value: unknown, dice: Dice, wild: number): string {
  // A held request must not take its time.
  const text =
    JSON.stringify(value, (key, each) => (key === "waitMs" && typeof each === "number" ? each % 20 : each)) ?? "";
  if (!dice.chance(wild / 3)) return text;
  switch (dice.below(5)) {
    case 0:
      return text.slice(0, dice.below(text.length + 1));
    case 1:
      return text.replace("{", '{"__proto__":{"polluted":true},');
    case 2:
      return "[".repeat(dice.below(3_000)) + text;
    case 3:
      return text.replaceAll(/\d+/g, () => "9".repeat(dice.below(400)));
    default:
      return `${text}${text}`;
  }
}

function randomBytes(dice: Dice): Buffer {
  return Buffer.from(dice.times(dice.below(300), () => dice.below(256)));
}
