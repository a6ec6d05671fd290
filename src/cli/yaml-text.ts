/** A value as YAML that means the same to every reader: to ours, and to those of YAML 1.1, such as kubectl's, for whom `yes` and
 *  `0o17` are no text. Text that a terminal must not be sent stands in double quotes, escaped. */
import type { Scalar } from "yaml";
import { safeText, safeYaml } from "./terminal-text.ts";
import { yaml } from "./yaml-library.ts";

/** Text of several lines that begins with blanks or has a line of blanks alone: the library loses some of them in a block. */
const FRAGILE = /^[ \t\n].*\n|^\n|\n[ \t]+(?:\n|$)/s;

/** Without the line break at its end, which belongs to it: text that ends with some would lose one. */
export function yamlText(value: unknown): string {
  const { Document, Scalar, visit } = yaml();
  // As JSON has it: without what is undefined, and with plain objects.
  const document = new Document(JSON.parse(JSON.stringify(value ?? null)), {
    ...{ compat: "yaml-1.1", aliasDuplicateObjects: false },
  });
  visit(document, {
    Scalar(_, scalar: Scalar) {
      const { value } = scalar;
      if (typeof value === "string" && needsQuotes(value)) scalar.type = Scalar.QUOTE_DOUBLE;
      // Not as digits that no number has.
      if (Number.isInteger(value) && !Number.isSafeInteger(value)) scalar.format = "EXP";
    },
  });
  const text = document.toString({ lineWidth: 0, doubleQuotedAsJSON: true });
  return safeYaml(text.replace(/\n$/, ""));
}

/** Beside what the library quotes by itself. A lone `=` is a tag's name in YAML 1.1. */
function needsQuotes(text: string): boolean {
  return text === "=" || FRAGILE.test(text) || safeText(text) !== text;
}
