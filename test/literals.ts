/** The string and template literals of a TypeScript file, without comments and regular expressions. TypeScript 7 has no
 *  scanner for programs to call; this one is enough for code that the formatter has been over. */
export interface Literal {
  readonly line: number;
  /** What stands between the quotes; an expression in a template is `…`. */
  readonly text: string;
}

const BEFORE_REGEX = /(?:^|[(,=:[!&|?{};+\-*%<>~^]|\b(?:return|typeof|case|of|in|do|else|await|yield))$/;

export function literalsOf(source: string): Literal[] {
  const found: Literal[] = [];
  const lineAt = (index: number) => source.slice(0, index).split("\n").length;
  let at = 0;

  /** Up to the end, or to the brace that closes an expression in a template. */
  function code(isInTemplate: boolean): void {
    let depth = 0;
    let end = at; // behind the last character that is neither space nor comment
    while (at < source.length) {
      const start = at;
      const char = source[at] as string;
      if (source.startsWith("//", at)) at = endOf("\n", at);
      else if (source.startsWith("/*", at)) at = endOf("*/", at) + 2;
      else if (char === '"' || char === "'") quoted(char);
      else if (char === "`") template();
      else if (char === "/" && BEFORE_REGEX.test(source.slice(Math.max(0, end - 20), end))) regex();
      else if (char === "}" && isInTemplate && depth === 0) return;
      else {
        if (char === "{") depth += 1;
        if (char === "}") depth -= 1;
        at += 1;
      }
      if (/\S/.test(char) && !source.startsWith("//", start) && !source.startsWith("/*", start)) end = at;
    }
  }

  function endOf(end: string, from: number): number {
    const index = source.indexOf(end, from);
    return index === -1 ? source.length : index;
  }

  function quoted(quote: string): void {
    const start = at;
    at += 1;
    while (source[at] !== quote && at < source.length) at += source[at] === "\\" ? 2 : 1;
    found.push({ line: lineAt(start), text: source.slice(start + 1, at) });
    at += 1;
  }

  function regex(): void {
    let isClass = false;
    at += 1;
    while (at < source.length && (isClass || source[at] !== "/")) {
      if (source[at] === "[") isClass = true;
      if (source[at] === "]") isClass = false;
      at += source[at] === "\\" ? 2 : 1;
    }
    at += 1;
  }

  function template(): void {
    const line = lineAt(at);
    let text = "";
    at += 1;
    while (at < source.length && source[at] !== "`") {
      if (source.startsWith("${", at)) {
        at += 2;
        code(true);
        text += "…";
        at += 1;
      } else {
        const length = source[at] === "\\" ? 2 : 1;
        text += source.slice(at, at + length);
        at += length;
      }
    }
    at += 1;
    found.push({ line, text });
  }

  code(false);
  return found;
}
