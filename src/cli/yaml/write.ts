/** A value as YAML that means the same to every reader: to ours, and to those of YAML 1.1, such as kubectl's, for whom `yes` and
 *  `0o17` are no text. Text that a terminal must not be sent stands in double quotes, escaped. */
import type { Scalar, ScalarTag } from "yaml";
import { CliError, EXIT } from "../exit.ts";
import { safeText, safeYaml } from "../output/terminal-text.ts";
import { yaml } from "./scan.ts";

/** Text of several lines that begins with blanks or has a line of blanks alone: the library loses some of them in a block. */
const FRAGILE = /^[ \t\n].*\n|^\n|\n[ \t]+(?:\n|$)/s;

/** With point and sign, as `1.0e+21`: for readers of YAML 1.1 `1e+21` is text. */
const EXPONENT: ScalarTag = {
  ...{ tag: "tag:yaml.org,2002:float", format: "EXP", default: true },
  test: /(?!)/, // nothing is read with it, but the library wants one
  identify: (value) => typeof value === "number",
  resolve: Number,
  stringify: ({ value }) => (value as number).toExponential().replace(/^(-?\d)e/, "$1.0e"),
};

/** Without the line break at its end, which belongs to it: text that ends with some would lose one. */
export function yamlText(value: unknown): string {
  try {
    return text(value);
  } catch (error) {
    // The library calls itself for each level.
    if (!(error instanceof RangeError)) throw error;
    throw new CliError(EXIT.failed, "the value is nested too deeply to be written as YAML; write it as JSON instead");
  }
}

function text(value: unknown): string {
  const { Document, Scalar, visit } = yaml();
  // As JSON has it: without what is undefined, and with plain objects.
  const document = new Document(JSON.parse(JSON.stringify(value ?? null)), {
    ...{ compat: "yaml-1.1", aliasDuplicateObjects: false },
    customTags: (tags) => [EXPONENT, ...tags],
  });
  visit(document, {
    Scalar(_, scalar: Scalar) {
      const { value } = scalar;
      if (typeof value === "string" && needsQuotes(value)) scalar.type = Scalar.QUOTE_DOUBLE;
      // Not as digits that no number has.
      if (typeof value === "number" && isLong(value)) scalar.format = "EXP";
    },
  });
  const written = document.toString({ lineWidth: 0, doubleQuotedAsJSON: true });
  return safeYaml(written.replace(/\n$/, ""));
}

function isLong(value: number): boolean {
  return (Number.isInteger(value) && !Number.isSafeInteger(value)) || String(value).includes("e");
}

/** Beside what the library quotes by itself. A lone `=` is a tag's name in YAML 1.1. */
function needsQuotes(text: string): boolean {
  return text === "=" || FRAGILE.test(text) || safeText(text) !== text;
}
