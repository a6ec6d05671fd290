/** The regular expressions in a source file, and texts that expose slow ones. */

export interface Expression {
  readonly line: number;
  readonly source: string;
  readonly flags: string;
}

/** What may precede an expression. Anywhere else a slash divides. */
const BEFORE = /(^|[=(,:;[!&|?{}+*%<>~^]|\breturn|\btypeof|\bcase|=>)\s*$/;
const LITERAL = /^\/((?:[^\\/[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+)\/([a-z]*)/;

/** Comments and the text of strings and templates are skipped. */
export function expressionsIn(text: string): Expression[] {
  const found: Expression[] = [];
  let at = text.startsWith("#!") ? text.indexOf("\n") : 0;
  /** For each open `${`: the braces that are open within it. */
  const braces: number[] = [];
  const skipText = (quote: string) => {
    for (at += 1; at < text.length; at++) {
      if (text[at] === "\\") at += 1;
      else if (text[at] === quote) break;
      else if (quote === "`" && text.startsWith("${", at)) {
        braces.push(0);
        at += 1;
        break;
      }
    }
    at += 1;
  };
  const indexAfter = (end: string) => {
    const index = text.indexOf(end, at);
    return index === -1 ? text.length : index + end.length;
  };
  while (at < text.length) {
    const [one, two] = [text[at] as string, text.slice(at, at + 2)];
    if (two === "//") at = indexAfter("\n");
    else if (two === "/*") at = indexAfter("*/");
    else if (one === '"' || one === "'" || one === "`") skipText(one);
    else if (one === "}" && braces.at(-1) === 0) {
      braces.pop();
      skipText("`");
    } else {
      const depth = braces.pop();
      if (depth !== undefined) braces.push(depth + (one === "{" ? 1 : one === "}" ? -1 : 0));
      const literal =
        one === "/" && BEFORE.test(text.slice(Math.max(0, at - 40), at))
          ? LITERAL.exec(text.slice(at, at + 2_000))
          : null;
      if (literal !== null) {
        const [whole, source = "", flags = ""] = literal;
        found.push({ line: text.slice(0, at).split("\n").length, source, flags });
        at += whole.length;
      } else at += 1;
    }
  }
  return found;
}

const ALWAYS = ["a", "0", " ", "\n", "/", ".", ":", "x"];
const STAND_FOR: Readonly<Record<string, readonly string[]>> = {
  s: [" ", "\n", "\t"],
  n: ["\n"],
  r: ["\r"],
  t: ["\t"],
  d: ["0"],
  w: ["a"],
};

/** Repetitions of what an expression may repeat, after what it may start with, and before something that it does not
 *  match. */
export function* longTexts(source: string, length: number): Generator<string> {
  const plain = source.replaceAll(/\\u\{?[0-9a-f]{4,6}\}?|\\x[0-9a-f]{2}/gi, "");
  const own = new Set<string>();
  for (const [, escaped, char] of plain.matchAll(/\\(.)|([^()[\]{}|?*+^$])/gs)) {
    for (const each of (escaped && STAND_FOR[escaped]) ?? [escaped ?? char ?? ""]) own.add(each);
  }
  const words = [...new Set(plain.replaceAll(/\\./g, "\0").match(/[^()[\]{}|?*+^$.\0]{2,}/g) ?? [])];
  const pumps = new Set([...ALWAYS, ...own, ...words]);
  const few = [...new Set([...own].slice(0, 10)).add("a")];
  for (const one of few) for (const two of few) pumps.add(one + two);
  for (const start of new Set(["", words[0] ?? "", words.join("")])) {
    for (const pump of pumps) {
      const row = start + pump.repeat(Math.ceil(length / pump.length));
      yield `${row}\u0001`;
      yield `${row}\n\u0001`;
    }
  }
}
