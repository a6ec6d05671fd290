/** What the schema check found wrong, in words: which field, what is allowed there, and the nearest known name. */
import { fieldPath, nearest } from "../core/check.ts";
import { PerdureError, show } from "../core/errors.ts";
import { storable } from "../lib/text.ts";

/** As ajv tells it, with its option `verbose`. */
export interface SchemaFault {
  readonly keyword: string;
  readonly instancePath: string;
  readonly schemaPath: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly message?: string;
  readonly schema?: unknown;
  readonly parentSchema?: unknown;
  readonly data?: unknown;
}

interface Schema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
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
  const fault = tellingOne(faults as readonly SchemaFault[]);
  const where = pathOf(fault.instancePath);
  const { path, message } = told(fault, where);
  const place = path === "" ? context : path;
  return new PerdureError("invalid_request", `${place}: ${message}`, { path: place });
}

/** `/jobs/3/priority` is told as `jobs[3].priority`. */
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

/** Of several shapes that a value may have, the faults of all are listed. The one told is that of the shape that was
 *  meant: the one whose word, as in `kind: "failed"`, fits. */
function tellingOne(faults: readonly SchemaFault[]): SchemaFault {
  const last = faults.at(-1) as SchemaFault;
  if (last.keyword !== "anyOf") return faults[0] as SchemaFault;
  const deeper = faults.filter((each) => each !== last && each.instancePath.length > last.instancePath.length);
  const inside = faults.filter((each) => each !== last);
  const branchOf = (each: SchemaFault) => each.schemaPath.slice(last.schemaPath.length).split("/")[1];
  const wordMissed = new Set(deeper.filter((each) => each.keyword === "enum").map(branchOf));
  const typeMissed = new Set(
    inside.filter((each) => each.keyword === "type" && each.instancePath === last.instancePath).map(branchOf),
  );
  const meant = inside.filter((each) => !wordMissed.has(branchOf(each)) && !typeMissed.has(branchOf(each)));
  if (meant.length > 0) return meant[0] as SchemaFault;
  return wordMissed.size > 0 ? (deeper.find((each) => each.keyword === "enum") as SchemaFault) : last;
}

function told(fault: SchemaFault, where: string): { path: string; message: string } {
  const { keyword, params, data } = fault;
  const parent = (fault.parentSchema ?? {}) as Schema;
  if (keyword === "additionalProperties") {
    const given = storable(String(params.additionalProperty), 100);
    const known = Object.keys(parent.properties ?? {});
    const allowed = known.length === 0 ? "nothing" : known.join(", ");
    const message = `unknown field ${show(given)}; allowed: ${allowed}.${hint(given, known)}`;
    return { path: fieldPath(where, given), message };
  }
  if (keyword === "required") {
    const missing = String(params.missingProperty);
    const schema = (parent.properties?.[missing] ?? {}) as Schema;
    return { path: fieldPath(where, missing), message: `missing; allowed: ${allowedBy(schema)}.` };
  }
  const near = keyword === "enum" ? hint(data, parent.enum ?? []) : "";
  return { path: where, message: `got ${brief(data)}; allowed: ${allowedBy(parent)}.${near}` };
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

function allowedBy(schema: Schema): string {
  if (schema.anyOf !== undefined) return schema.anyOf.map(allowedBy).join(", or ");
  if (schema.enum !== undefined) return schema.enum.map((word) => show(word)).join(", ");
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
