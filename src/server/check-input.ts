/** Validates input by the schema of its route before the handler is called. Strings in queries and paths are converted to the types
 *  of the schema. An error has the field, what is allowed, and the nearest known name. */

import type { FastifyRequest } from "fastify";
import { fieldPath, nearest } from "../core/check.ts";
import { PerdureError, show } from "../core/errors.ts";
import { storable } from "../lib/text.ts";
import type { ServedRoute } from "./served-route.ts";

interface QuerySchema {
  readonly type?: string;
  readonly items?: QuerySchema;
  readonly properties?: Readonly<Record<string, QuerySchema>>;
}

const NUMBER = /^-?\d{1,16}(\.\d{1,16})?$/;

/** Converts strings in a query or a path to numbers, booleans and lists of one, as the schema requires. A value that cannot be
 *  converted is left as it is, and the schema refuses it. */
function coerced(values: unknown, schema: unknown): Record<string, unknown> {
  const known = (schema as QuerySchema | undefined)?.properties ?? {};
  const result: Record<string, unknown> = Object.create(null);
  for (const [name, value] of Object.entries((values ?? {}) as Record<string, unknown>)) {
    result[name] = Object.hasOwn(known, name) ? toType(value, known[name] as QuerySchema) : value;
  }
  return result;
}

function toType(value: unknown, schema: QuerySchema): unknown {
  if (schema.type === "array") {
    const items = Array.isArray(value) ? value : [value];
    return items.map((item) => toType(item, schema.items ?? {}));
  }
  if (typeof value !== "string") return value;
  if ((schema.type === "integer" || schema.type === "number") && NUMBER.test(value)) return Number(value);
  if (schema.type === "boolean" && (value === "true" || value === "false")) return value === "true";
  return value;
}

/** An error of ajv with the option `verbose`. */
interface SchemaFault {
  readonly keyword: string;
  readonly instancePath: string;
  readonly schemaPath: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly message?: string;
  readonly schema?: unknown;
  readonly parentSchema?: unknown;
  readonly data?: unknown;
}

interface RefusalSchema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly RefusalSchema[];
  readonly properties?: Readonly<Record<string, unknown>>;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly maxProperties?: number;
}

export function refusalOf(faults: readonly unknown[], context: string): PerdureError {
  const fault = mostSpecific(faults as readonly SchemaFault[]);
  const where = pathOf(fault.instancePath);
  const { path, message } = described(fault, where);
  const field = path === "" ? context : path;
  return new PerdureError("invalid_request", `${field}: ${message}`, { path: field });
}

/** `/jobs/3/priority` becomes `jobs[3].priority`. */
function pathOf(pointer: string): string {
  const names = pointer
    .split("/")
    .slice(1)
    .map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~"));
  return names.reduce(
    (path, name) => (/^\d+$/.test(name) && path !== "" ? `${path}[${name}]` : fieldPath(path, name)),
    "",
  );
}

/** For `anyOf`, ajv lists the errors of all branches. This picks one of the branch that was meant: the one whose constant, as in
 *  `kind: "failed"`, matches. */
function mostSpecific(faults: readonly SchemaFault[]): SchemaFault {
  const last = faults.at(-1) as SchemaFault;
  if (last.keyword !== "anyOf") return faults[0] as SchemaFault;
  const deeper = faults.filter((each) => each !== last && each.instancePath.length > last.instancePath.length);
  const inside = faults.filter((each) => each !== last);
  const branchOf = (each: SchemaFault) => each.schemaPath.slice(last.schemaPath.length).split("/")[1];
  const wrongConstant = new Set(deeper.filter((each) => each.keyword === "enum").map(branchOf));
  const wrongType = new Set(
    inside.filter((each) => each.keyword === "type" && each.instancePath === last.instancePath).map(branchOf),
  );
  const meant = inside.filter((each) => !wrongConstant.has(branchOf(each)) && !wrongType.has(branchOf(each)));
  if (meant.length > 0) return meant[0] as SchemaFault;
  return wrongConstant.size > 0 ? (deeper.find((each) => each.keyword === "enum") as SchemaFault) : last;
}

function described(fault: SchemaFault, where: string): { path: string; message: string } {
  const { keyword, params, data } = fault;
  const parent = (fault.parentSchema ?? {}) as RefusalSchema;
  if (keyword === "additionalProperties") {
    const given = storable(String(params.additionalProperty), 100);
    const known = Object.keys(parent.properties ?? {});
    const fix = known.length === 0 ? "there are no fields" : `known fields: ${known.join(", ")}`;
    const message = `unknown field ${show(given)}; ${fix}.${hint(given, known)}`;
    return { path: fieldPath(where, given), message };
  }
  if (keyword === "required") {
    const missing = String(params.missingProperty);
    const schema = (parent.properties?.[missing] ?? {}) as RefusalSchema;
    return { path: fieldPath(where, missing), message: `is missing; must be ${allowedBy(schema)}.` };
  }
  const near = keyword === "enum" ? hint(data, parent.enum ?? []) : "";
  return { path: where, message: `must be ${allowedBy(parent)}; got ${brief(data)}.${near}` };
}

function hint(given: unknown, known: readonly unknown[]): string {
  const near = typeof given === "string" ? nearest(given, known as string[]) : null;
  return near === null ? "" : ` Did you mean "${near}"?`;
}

function brief(data: unknown): string {
  if (Array.isArray(data)) return `a list of ${data.length}`;
  if (typeof data === "string" && data.length > 60) return `text of ${data.length} characters`;
  return typeof data === "object" && data !== null ? "an object" : show(data);
}

function allowedBy(schema: RefusalSchema): string {
  if (schema.anyOf !== undefined) return schema.anyOf.map(allowedBy).join(", or ");
  if (schema.enum !== undefined) {
    const words = schema.enum.map((word) => show(word));
    return words.length < 3 ? words.join(" or ") : `one of ${words.join(", ")}`;
  }
  switch (schema.type) {
    case "integer":
      return `a whole number${range(schema.minimum, schema.maximum, "")}`;
    case "number":
      return `a number${range(schema.minimum, schema.maximum, "")}`;
    case "string":
      return `text${range(schema.minLength, schema.maxLength, " characters")}`;
    case "array":
      return `a list${range(schema.minItems, schema.maxItems, " items")}`;
    case "boolean":
      return "true or false";
    case "null":
      return "null";
    case "object": {
      const names = Object.keys(schema.properties ?? {});
      const most = schema.maxProperties === undefined ? "" : ` with at most ${schema.maxProperties} fields`;
      return names.length === 0 ? `an object${most}` : `an object with ${names.join(", ")}`;
    }
    default:
      return "any JSON value";
  }
}

/** "from 0 to 9", "of 1 to 20 items", "of at least 1 item". */
function range(min: number | undefined, max: number | undefined, unit: string): string {
  const top = max === undefined || max >= 1e15 ? undefined : max;
  if (min !== undefined && top !== undefined) return `${unit === "" ? " from" : " of"} ${min} to ${top}${unit}`;
  if (min !== undefined) return ` of at least ${min}${unit}`;
  return top === undefined ? "" : ` of at most ${top}${unit}`;
}

/** Options of ajv: bodies are accepted unchanged or not at all. */
export const STRICT = {
  ...{ coerceTypes: false, removeAdditional: false, useDefaults: false, allErrors: false, verbose: true },
  ownProperties: true,
} as const;

type CompiledSchema = ReturnType<FastifyRequest["compileValidationSchema"]>;

/** Compiled when a route is first called: compiling all at the start would take a quarter of a second. Shared by all servers of a
 *  process, since the schemas of a route are always the same objects. */
const compiled = new WeakMap<object, CompiledSchema>();

export function checkInput(
  request: FastifyRequest,
  { schema, emptyBody }: Pick<ServedRoute, "schema" | "emptyBody">,
): void {
  const { params, query, body } = schema;
  if (params !== undefined) {
    request.params = coerced(request.params, params);
    checkPart(request, params, request.params, "path");
  }
  if (query !== undefined) {
    request.query = coerced(request.query, query);
    checkPart(request, query, request.query, "query");
  }
  if (body === undefined) return;
  if (request.body === undefined && emptyBody) request.body = {};
  checkPart(request, body, request.body, "body");
}

function checkPart(request: FastifyRequest, schema: object, value: unknown, part: string): void {
  let check = compiled.get(schema);
  if (check === undefined) {
    check = request.compileValidationSchema(schema as Record<string, unknown>);
    compiled.set(schema, check);
  }
  if (!check(value)) throw refusalOf(check.errors ?? [], part);
}
