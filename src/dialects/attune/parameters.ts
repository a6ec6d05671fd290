/** Parameters of an action and their values. Declared as `name: {type, required, default}` or as a JSON schema of an
 *  object. Type, enum and plain bounds are checked; other keywords are reported in a note, because values are not
 *  checked against them. */
import { asBoolean, asList, asNumber, asObject, fieldPath, isPlain, nearest } from "../../core/check.ts";
import { ConfigError, show } from "../../core/errors.ts";

const TYPES = ["string", "integer", "number", "boolean", "array", "object", "null"] as const;
type ParameterType = (typeof TYPES)[number];

interface DeclaredParameter {
  /** Its path in the document, for mistakes in values. */
  readonly path: string;
  /** Empty: any type. */
  readonly types: readonly ParameterType[];
  readonly required: boolean;
  readonly fallback: unknown;
  readonly oneOf: readonly unknown[] | null;
  readonly bounds: Readonly<Partial<Record<ParameterBound, number>>>;
}

export interface Parameters {
  readonly declared: ReadonlyMap<string, DeclaredParameter>;
  /** Whether undeclared names are allowed. */
  readonly open: boolean;
  readonly path: string;
  readonly notes: readonly string[];
}

const BOUNDS = ["minimum", "maximum", "minLength", "maxLength"] as const;
type ParameterBound = (typeof BOUNDS)[number];
/** For people; no effect. */
const TOLD = ["description", "label", "title", "examples", "position"] as const;
const NOT_CHECKED = [
  "pattern",
  "format",
  "items",
  "properties",
  "additionalProperties",
  "minItems",
  "maxItems",
] as const;
const KEYS = ["type", "required", "default", "enum", "secret", ...BOUNDS, ...TOLD, ...NOT_CHECKED];
const SCHEMA_KEYS = [
  "type",
  "properties",
  "required",
  "additionalProperties",
  "description",
  "title",
  "$schema",
] as const;
const MAX_PARAMETERS = 200;

/** For an action that declares no parameters: any are passed on, as in Attune. */
export const ANY_PARAMETERS: Parameters = { declared: new Map(), open: true, path: "parameters", notes: [] };

export function readParameters(value: unknown, path: string): Parameters {
  const fields = asObject(value, path);
  // A parameter may be called `type` too; then its value is a map.
  const isSchema = (fields as { type?: unknown }).type === "object";
  return isSchema ? schemaOf(value, path) : { ...declarations(fields, path, null), open: false, path };
}

function schemaOf(value: unknown, path: string): Parameters {
  const schema = asObject(value, path, SCHEMA_KEYS);
  const at = fieldPath(path, "properties");
  const properties = schema.properties === undefined ? {} : asObject(schema.properties, at);
  const requiredAt = fieldPath(path, "required");
  const required = schema.required === undefined ? [] : asList(schema.required, requiredAt, asName, MAX_PARAMETERS);
  for (const [index, name] of required.entries()) {
    if (Object.hasOwn(properties, name)) continue;
    const known = Object.keys(properties);
    throw new ConfigError({
      ...{ path: `${requiredAt}[${index}]`, given: name, problem: `${show(name)} is not among the properties` },
      ...{ fix: `known properties: ${known.join(", ") || "none"}`, nearest: nearest(name, known) },
    });
  }
  const more = schema.additionalProperties;
  const open = more === undefined ? false : asBoolean(more, fieldPath(path, "additionalProperties"));
  return { ...declarations(properties, at, required), open, path: at };
}

function declarations(fields: object, path: string, required: readonly string[] | null) {
  const names = Object.keys(fields);
  if (names.length > MAX_PARAMETERS) {
    throw new ConfigError({ path, given: names.length, allowed: `at most ${MAX_PARAMETERS} parameters` });
  }
  const notes: string[] = [];
  const declared = new Map<string, DeclaredParameter>();
  for (const name of names) {
    const at = fieldPath(path, name);
    declared.set(name, declaration((fields as Record<string, unknown>)[name], at, required?.includes(name), notes));
  }
  return { declared, notes };
}

function declaration(value: unknown, path: string, required: boolean | undefined, notes: string[]): DeclaredParameter {
  const fields = asObject(value, path, KEYS);
  const types = fields.type === undefined ? [] : typesOf(fields.type, fieldPath(path, "type"));
  const bounds: Partial<Record<ParameterBound, number>> = {};
  for (const bound of BOUNDS) {
    if (fields[bound] !== undefined) bounds[bound] = asNumber(fields[bound], fieldPath(path, bound));
  }
  const isRequired = fields.required === undefined ? false : asBoolean(fields.required, fieldPath(path, "required"));
  const declared: DeclaredParameter = {
    ...{ path, types, bounds, required: required === true || isRequired, fallback: fields.default },
    oneOf: fields.enum === undefined ? null : asList(fields.enum, fieldPath(path, "enum"), (each) => each, 1_000, 1),
  };
  if (declared.fallback !== undefined && declared.fallback !== null) {
    const problem = whyNot(declared, declared.fallback);
    const at = fieldPath(path, "default");
    if (problem !== null) throw new ConfigError({ path: at, given: declared.fallback, allowed: problem });
  }
  const unchecked = NOT_CHECKED.filter((name) => fields[name] !== undefined);
  if (unchecked.length > 0)
    notes.push(`${path}: ${unchecked.join(", ")}: not supported; values are not checked against it`);
  if (fields.secret !== undefined && asBoolean(fields.secret, fieldPath(path, "secret"))) {
    notes.push(`${path}: secrets are stored in the job like other values, readable for everyone who may read the job`);
  }
  return declared;
}

function typesOf(value: unknown, path: string): readonly ParameterType[] {
  const type = (each: unknown, at: string): ParameterType => {
    const found = TYPES.find((known) => known === each);
    if (found !== undefined) return found;
    const near = typeof each === "string" ? nearest(each, TYPES) : null;
    throw new ConfigError({ path: at, given: each, allowed: TYPES.join(", "), nearest: near });
  };
  return Array.isArray(value) ? asList(value, path, type, TYPES.length, 1) : [type(value, path)];
}

/** The values for an attempt: those given, and defaults for the others. */
export function bindParameters(
  { declared, open, path }: Parameters,
  given: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const values: Record<string, unknown> = Object.create(null);
  const others = Object.entries(given).filter(([name, value]) => !declared.has(name) && value !== undefined);
  // Checked first: a misspelt name is also missing, and the misspelling explains more.
  if (!open) refuseUnknown(others, [...declared.keys()], path);
  for (const [name, { required, fallback, path: at, ...rest }] of declared) {
    const value = Object.hasOwn(given, name) ? meant(rest, given[name]) : undefined;
    if (value !== undefined) {
      const allowed = whyNot(rest, value);
      if (allowed !== null) throw new ConfigError({ path: at, given: value, allowed });
      values[name] = value;
    } else if (fallback !== undefined) values[name] = fallback;
    else if (required) {
      const [like] = others.find(([other]) => nearest(other, [name]) !== null) ?? [];
      const but = like === undefined ? "" : `, but ${show(like)} was given`;
      throw new ConfigError({
        ...{ path: at, given: undefined, problem: `the parameter ${show(name)} is required${but}` },
        allowed: `${described(rest)}, as in -p ${name}=VALUE`,
      });
    }
  }
  for (const [name, value] of others) values[name] = value;
  return values;
}

function refuseUnknown([other]: readonly (readonly [string, unknown])[], known: readonly string[], path: string): void {
  if (other === undefined) return;
  const [name] = other;
  throw new ConfigError({
    ...{ path, given: name, problem: `unknown parameter ${show(name)}`, nearest: nearest(name, known) },
    fix: known.length === 0 ? "the action has no parameters" : `known parameters: ${known.join(", ")}`,
  });
}

/** `-p n=3` is a text. If no text is allowed, and it is valid as JSON, its JSON value is used. */
function meant(rule: ParameterRule, value: unknown): unknown {
  if (typeof value !== "string" || whyNot(rule, value) === null) return value;
  try {
    const parsed: unknown = JSON.parse(value);
    return whyNot(rule, parsed) === null ? parsed : value;
  } catch {
    return value;
  }
}

type ParameterRule = Pick<DeclaredParameter, "types" | "oneOf" | "bounds">;

/** What is allowed if this value is not; otherwise null. */
function whyNot(rule: ParameterRule, value: unknown): string | null {
  const { types, oneOf, bounds } = rule;
  const fits = types.length === 0 || types.some((type) => isOf(type, value));
  if (!fits) return described(rule);
  if (oneOf !== null && !oneOf.some((each) => JSON.stringify(each) === JSON.stringify(value))) return described(rule);
  const { minimum = -Infinity, maximum = Infinity, minLength = 0, maxLength = Infinity } = bounds;
  if (typeof value === "number" && (value < minimum || value > maximum)) return described(rule);
  if (typeof value === "string" && (value.length < minLength || value.length > maxLength)) return described(rule);
  return null;
}

function isOf(type: ParameterType, value: unknown): boolean {
  switch (type) {
    case "array":
      return Array.isArray(value);
    case "object":
      return isPlain(value);
    case "null":
      return value === null;
    case "integer":
      return Number.isSafeInteger(value);
    default:
      // JSON schema and JavaScript use the same names for these three.
      return typeof value === type;
  }
}

const NOUNS: Readonly<Record<ParameterType, string>> = {
  ...{ string: "a text", integer: "a whole number", number: "a number", boolean: "true or false" },
  ...{ array: "a list", object: "an object", null: "null" },
};

function described({ types, oneOf, bounds }: ParameterRule): string {
  if (oneOf !== null) return `one of ${oneOf.map(show).join(", ")}`;
  const noun = types.length === 0 ? "a value" : types.map((type) => NOUNS[type]).join(" or ");
  const limits = Object.entries(bounds).map(([name, limit]) => `${name} ${limit}`);
  return limits.length === 0 ? noun : `${noun}, with ${limits.join(" and ")}`;
}

function asName(value: unknown, path: string): string {
  if (typeof value === "string") return value;
  throw new ConfigError({ path, given: value, allowed: "the name of a property" });
}
