/** JSON Schemas that the option tables share with the contract. */

export interface WireSchema {
  readonly [keyword: string]: unknown;
}

export const SPAN: WireSchema = {
  anyOf: [
    { type: "number", minimum: 0 },
    { type: "string", maxLength: 40 },
  ],
  description: 'Milliseconds, or a text as in "30s", "5m", "2h".',
};

export const INSTANT: WireSchema = {
  type: "number",
  minimum: 0,
  maximum: 8.64e15,
  description: "Milliseconds since 1970 (UTC).",
};

export function textSchema(maxLength: number, description?: string): WireSchema {
  const schema = { type: "string", minLength: 1, maxLength };
  return description === undefined ? schema : { ...schema, description };
}

/** An object with any names and values of this schema. */
export function recordSchema(value: WireSchema, maxProperties: number, description: string): WireSchema {
  return { type: "object", patternProperties: { "^.*$": value }, maxProperties, description };
}
