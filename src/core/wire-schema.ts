/** The JSON Schemas that option tables share with the contract. Plain data: what the wire takes is described here, and
 *  checked by the server. */

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

/** Any names, each with a value of this form. */
export function recordSchema(value: WireSchema, maxProperties: number, description: string): WireSchema {
  return { type: "object", patternProperties: { "^.*$": value }, maxProperties, description };
}
