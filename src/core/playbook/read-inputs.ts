/** Reads the rules of the inputs of a playbook. */
import { asBoolean, asInteger, asList, asNumber, asOneOf, asText } from "../check.ts";
import { checkValue } from "./input-check.ts";
import { VARIABLE_NAME } from "./names-in-scope.ts";
import type { InputRule } from "./playbook.ts";
import type { SourcePath } from "./problem.ts";
import { type DocumentReading, ObjectReader } from "./reading.ts";

export const INPUT_TYPES = ["string", "integer", "number", "boolean", "object", "array"] as const;
export const INPUT_LIMITS = { inputs: 100, depth: 8, enum: 100, description: 2_000 } as const;
const SIZED: readonly unknown[] = ["string", "array"];

/** Null where they are not given. */
export function readInputs(
  document: ObjectReader,
  reading: DocumentReading,
): Readonly<Record<string, InputRule>> | null {
  const inputs = document.object("inputs", INPUT_LIMITS.inputs);
  if (inputs === undefined) return null;
  const rules = Object.entries(inputs).map(([name, rule]) => {
    const path = [...document.at("inputs"), name];
    if (!VARIABLE_NAME.test(name)) {
      const allowed = "letters, digits and _, at most 100, not beginning with a digit";
      reading.error("invalid_value", path, `inputs: the name ${JSON.stringify(name.slice(0, 100))} must be ${allowed}`);
    }
    return [name, readRule(rule, path, reading, 1)];
  });
  return Object.fromEntries(rules);
}

function readRule(value: unknown, path: SourcePath, reading: DocumentReading, depth: number): InputRule {
  if (depth > INPUT_LIMITS.depth) {
    reading.error("too_large", path, `items: nested more than ${INPUT_LIMITS.depth} levels deep`);
    return {};
  }
  // `city:` alone accepts any value.
  const fields = new ObjectReader(reading, value ?? {}, path, "the rule of an input");
  const type = fields.check("type", (given, at) => asOneOf(given, INPUT_TYPES, at), undefined);
  const list = fields.check("enum", (given, at) => asList(given, at, (each) => each, INPUT_LIMITS.enum, 1), undefined);
  const required = fields.check("required", asBoolean, undefined);
  const description = fields.check("description", (text, at) => asText(text, at, INPUT_LIMITS.description), undefined);
  const { min, max } = readBounds(fields, type, reading);
  const items = fields.value("items");
  if (items !== undefined && type !== "array") {
    reading.error("invalid_value", fields.at("items"), 'items: requires type: "array"');
  }
  const given = fields.value("default");
  fields.end("the rule of an input", {}, { minimum: "; write min", maximum: "; write max" });

  const rule: InputRule = {
    ...(type === undefined ? {} : { type }),
    ...(list === undefined ? {} : { enum: list }),
    ...(required === undefined ? {} : { required }),
    ...(min === undefined ? {} : { min }),
    ...(max === undefined ? {} : { max }),
    ...(items === undefined ? {} : { items: readRule(items, fields.at("items"), reading, depth + 1) }),
    ...(description === undefined ? {} : { description }),
  };
  const { enum: _, ...withoutEnum } = rule;
  for (const [index, each] of (list ?? []).entries()) {
    for (const { path: at, message } of checkValue(withoutEnum, each, [])) {
      reading.error("invalid_value", [...fields.at("enum"), index, ...at], `enum: ${message}`);
    }
  }
  if (given === undefined) return rule;
  for (const { path: at, message } of checkValue(rule, given, [])) {
    reading.error("invalid_value", [...fields.at("default"), ...at], `default: ${message}`);
  }
  return { ...rule, default: given };
}

function readBounds(
  fields: ObjectReader,
  type: InputRule["type"],
  reading: DocumentReading,
): { min?: number; max?: number } {
  const isSize = SIZED.includes(type);
  const asBound = (value: unknown, at: string) => (isSize ? asInteger(value, at, { min: 0 }) : asNumber(value, at));
  const bounds: { min?: number; max?: number } = {};
  for (const name of ["min", "max"] as const) {
    const bound = fields.check(name, asBound, undefined);
    if (bound === undefined) continue;
    bounds[name] = bound;
    if (isSize || type === "integer" || type === "number") continue;
    const message = `${name}: requires type: "integer", "number", "string" or "array"`;
    reading.error("invalid_value", fields.at(name), message);
  }
  if (bounds.min !== undefined && bounds.max !== undefined && bounds.min > bounds.max) {
    reading.error("invalid_value", fields.at("min"), `min: is above max; got ${bounds.min} and ${bounds.max}`);
  }
  return bounds;
}
