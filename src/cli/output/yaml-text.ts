/** Writes a value as YAML that every reader reads as the same value, also readers of YAML 1.1 such as kubectl's, where `yes`
 *  and `0o17` are not text. Text with characters that are unsafe on a terminal is in double quotes, escaped. */
import type { Scalar, ScalarTag } from "yaml";
import { yaml } from "../../yaml/scan.ts";
import { CliError, EXIT } from "../exit.ts";
import { safeText, safeYaml } from "./terminal-text.ts";

/** Multi-line text that begins with blanks or has a line of blanks only: the library loses some of them in a block. */
const FRAGILE = /^[ \t\n].*\n|^\n|\n[ \t]+(?:\n|$)/s;

/** With point and sign, as `1.0e+21`: YAML 1.1 reads `1e+21` as text. */
const EXPONENT: ScalarTag = {
  ...{ tag: "tag:yaml.org,2002:float", format: "EXP", default: true },
  test: /(?!)/, // required by the library; nothing is read with this tag
  identify: (value) => typeof value === "number",
  resolve: Number,
  stringify: ({ value }) => (value as number).toExponential().replace(/^(-?\d)e/, "$1.0e"),
};

/** Without the final line break, which belongs to the value: text that ends with line breaks would lose one. */
export function yamlText(value: unknown): string {
  try {
    return text(value);
  } catch (error) {
    // The library recurses at each level.
    if (!(error instanceof RangeError)) throw error;
    throw new CliError(EXIT.failed, "the value is nested too deeply to be written as YAML; write it as JSON instead");
  }
}

function text(value: unknown): string {
  const { Document, Scalar, visit } = yaml();
  // As in JSON: without undefined fields, and with plain objects.
  const document = new Document(JSON.parse(JSON.stringify(value ?? null)), {
    ...{ compat: "yaml-1.1", aliasDuplicateObjects: false },
    customTags: (tags) => [EXPONENT, ...tags],
  });
  visit(document, {
    Scalar(_, scalar: Scalar) {
      const { value } = scalar;
      if (typeof value === "string" && needsQuotes(value)) scalar.type = Scalar.QUOTE_DOUBLE;
      // An exponent instead of digits beyond the precision of a number.
      if (typeof value === "number" && isLong(value)) scalar.format = "EXP";
    },
  });
  const written = document.toString({ lineWidth: 0, doubleQuotedAsJSON: true });
  return safeYaml(written.replace(/\n$/, ""));
}

function isLong(value: number): boolean {
  return (Number.isInteger(value) && !Number.isSafeInteger(value)) || String(value).includes("e");
}

/** Text that the library does not quote by itself. A lone `=` is the name of a tag in YAML 1.1. */
function needsQuotes(text: string): boolean {
  return text === "=" || FRAGILE.test(text) || safeText(text) !== text;
}
