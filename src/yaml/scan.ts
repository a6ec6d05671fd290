/** Loads the YAML library on first use, as loading takes a good part of a short command's time, and scans text token by
 *  token before a document is built. Scanning stops at the first excess (depth, aliases, size), so a malicious file costs
 *  milliseconds and no memory. It does not check that the text is valid YAML. */
import { createRequire } from "node:module";
import type { CST } from "yaml";

type YamlLibrary = typeof import("yaml");

let loaded: YamlLibrary | undefined;

export function yaml(): YamlLibrary {
  loaded ??= createRequire(import.meta.url)("yaml") as YamlLibrary;
  return loaded;
}

// Depth is the most important limit: documents are built by recursion, and a stack overflow can end Node.

export const YAML_LIMITS = {
  bytes: 1_048_576,
  depth: 64,
  aliases: 100,
  /** Anchors, tags and directives. Each may be an error that the parser keeps until its end. */
  marks: 1_000,
  /** One megabyte of ordinary JSON has 400 000. */
  lexemes: 500_000,
} as const;

/** Reported by the caller with line and column. `offset` counts from 0. */
export class YamlFault extends Error {
  readonly offset: number;

  constructor(offset: number, message: string) {
    super(message);
    this.offset = offset;
  }
}

/** YAML allows none of them in its text; as escapes in double quotes all are allowed. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are searched for.
const CONTROLS = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/;

/** The parser's stack also holds the stream's document and the value being read. */
const STACK_DEPTH = YAML_LIMITS.depth + 3;

/** Throws a `YamlFault`. */
export function* yamlTokens(text: string, lexemes: number): Generator<CST.Token, void> {
  const control = CONTROLS.exec(text);
  if (control !== null) throw new YamlFault(control.index, "a control character; remove it, or write it as \\x…");
  const parser = new (yaml().Parser)();
  const seen = { depth: 0, aliases: 0, marks: 0, lexemes: 0, isScalar: false, afterComma: false };
  for (const lexeme of new (yaml().Lexer)().lex(text)) {
    const { offset } = parser;
    const message = seen.lexemes >= lexemes ? "too many values; split the file" : look(lexeme, seen);
    if (message !== null) throw new YamlFault(offset, message);
    yield* parser.next(lexeme);
    if (parser.stack.length > STACK_DEPTH) throw new YamlFault(offset, TOO_DEEP);
  }
  yield* parser.end();
}

interface YamlScanState {
  /** Of brackets and braces. */
  depth: number;
  aliases: number;
  marks: number;
  lexemes: number;
  /** The next lexeme is the text of a value, whatever it contains. */
  isScalar: boolean;
  /** A comma or an opening bracket was the last token. */
  afterComma: boolean;
}

function look(lexeme: string, seen: YamlScanState): string | null {
  const type = seen.isScalar ? null : yaml().CST.tokenType(lexeme);
  seen.isScalar = type === "scalar";
  seen.lexemes += 1;
  const wasAfterComma = seen.afterComma;
  if (type !== "space" && type !== "newline" && type !== "comment") seen.afterComma = false;
  switch (type) {
    case "flow-map-start":
    case "flow-seq-start":
      seen.depth += 1;
      seen.afterComma = true;
      return seen.depth > YAML_LIMITS.depth ? TOO_DEEP : null;
    case "flow-map-end":
    case "flow-seq-end":
      seen.depth -= 1;
      return seen.depth < 0 ? `a ${lexeme} that closes nothing; remove it, or put quotes around the text` : null;
    case "comma":
      seen.afterComma = true;
      return wasAfterComma ? "a comma with nothing before it; remove it" : null;
    case "flow-error-end":
      seen.depth = 0;
      return null;
    case "alias":
      seen.aliases += 1;
      return seen.aliases > YAML_LIMITS.aliases ? TOO_MANY_ALIASES : null;
    case "anchor":
    case "tag":
    case "directive-line":
      seen.marks += 1;
      return seen.marks > YAML_LIMITS.marks
        ? `more than ${YAML_LIMITS.marks} anchors and tags; write values out`
        : null;
  }
  return null;
}

export const TOO_DEEP = `nested more than ${YAML_LIMITS.depth} levels deep; make it flatter`;
const TOO_MANY_ALIASES = `more than ${YAML_LIMITS.aliases} aliases (*name); write the values out`;
