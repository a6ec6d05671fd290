/** Phrases in lines of text: words one after the other, whatever stands between them and in whichever case. "status code 401"
 *  is in `{"statusCode": 401}` and in "Status code: 401", but not in "status code 4011" and not in "401 status". Plain text
 *  and no regular expressions of strangers: the time grows with the length of the text and of the lists. */
import { type FoundPart, lineAround, type Span } from "./message-parts.ts";
import type { LinesCondition } from "./policy.ts";

/** The phrase of `has` that decides, with its line. Lines are in the order in which they were written. */
export function findInLines(lines: readonly string[], { has, unless }: LinesCondition): FoundPart | null {
  for (const line of lines.toReversed()) {
    const plain = plainText(line);
    if (unless.some((phrase) => plain.includes(` ${phrase} `))) return null;
    const part = has.find((phrase) => plain.includes(` ${phrase} `));
    if (part !== undefined) return { part, line: lineAround(line, placeOf(part, line)) };
  }
  return null;
}

/** About where it stands, for a line that is too long to be shown: by its longest word. */
function placeOf(phrase: string, line: string): Span {
  const [word = ""] = phrase.split(" ").sort((a, b) => b.length - a.length);
  const from = Math.max(0, line.toLowerCase().indexOf(word));
  return { from, to: from };
}

/** `AuthenticationError: {"statusCode":401}` as ` authentication error status code 401 `. */
function plainText(line: string): string {
  const [first = "", ...coloured] = line.split("\u001b[");
  const uncoloured = [first, ...coloured.map((piece) => piece.replace(/^[\d;]*[A-Za-z]/, ""))].join(" ");
  const apart = uncoloured.replaceAll(/([a-z\d])(?=[A-Z])/g, "$1 ").toLowerCase();
  return ` ${apart.replaceAll(/[^a-z\d]+/g, " ").trim()} `;
}
