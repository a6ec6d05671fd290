/** Makes of the texts in a query or a path what its schema asks for: numbers, booleans, lists of one. What does not fit is
 *  left as it is, and refused by the schema with its own words. Bodies are never touched. */

interface Schema {
  readonly type?: string;
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
}

const NUMBER = /^-?\d{1,16}(\.\d{1,16})?$/;

export function coerced(values: unknown, schema: unknown): Record<string, unknown> {
  const known = (schema as Schema | undefined)?.properties ?? {};
  const result: Record<string, unknown> = Object.create(null);
  for (const [name, value] of Object.entries((values ?? {}) as Record<string, unknown>)) {
    result[name] = Object.hasOwn(known, name) ? toType(value, known[name] as Schema) : value;
  }
  return result;
}

function toType(value: unknown, schema: Schema): unknown {
  if (schema.type === "array") {
    const items = Array.isArray(value) ? value : [value];
    return items.map((item) => toType(item, schema.items ?? {}));
  }
  if (typeof value !== "string") return value;
  if ((schema.type === "integer" || schema.type === "number") && NUMBER.test(value)) return Number(value);
  if (schema.type === "boolean" && (value === "true" || value === "false")) return value === "true";
  return value;
}
