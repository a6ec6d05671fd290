/** Cuts an expression of a template into tokens, from a position in its text to the `}}` that ends it, or to the end of the text. A
 *  `}}` within a text or a dict does not end it. */
import { MAX_LENGTH } from "../expression/expression.ts";
import { ESCAPES, quote } from "../expression/tokens.ts";
import { syntaxError } from "./template-error.ts";

export interface Lexeme {
  readonly type: "word" | "number" | "text" | "sign" | "end";
  /** As written; a text without its quotes and escapes. */
  readonly value: string;
  /** Positions in the whole text. */
  readonly at: number;
  readonly end: number;
}

export interface CutExpression {
  /** The last one is the end. */
  readonly lexemes: readonly Lexeme[];
  /** The position after `}}`, or the end of the text. */
  readonly end: number;
  /** Ended by `-}}`, which trims the text after it. */
  readonly isTrimmed: boolean;
}

const SPACE = /\s+/y;
const WORD = /[A-Za-z_]\w*/y;
const TEXT = /'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"/sy;
const NUMBER = /\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
/** After a dot: `data.0.1` has two indexes. */
const INDEX = /\d+/y;
const SIGN = /\*\*|\/\/|[<>=!]=|[-+*/%~<>()[\]{},.:|=]/y;

/** The expression from `start` on. `isBare`: it is the rest of the text, without braces. */
export function cutExpression(text: string, start: number, isBare: boolean): CutExpression {
  const lexemes: Lexeme[] = [];
  let [at, braces] = [start, 0];
  const add = (type: Lexeme["type"], value: string, end: number) => lexemes.push({ type, value, at, end });
  const finish = (length: number): CutExpression => {
    add("end", "", at);
    return { lexemes, end: at + length, isTrimmed: length === 3 };
  };
  for (;;) {
    at = endOf(SPACE, text, at) ?? at;
    const length = endLength(text, at, braces, isBare);
    if (length !== null) return finish(length);
    if (at >= text.length) throw syntaxError('missing "}}"', start);
    if (at - start > MAX_LENGTH) throw tooLong(start);
    const char = text[at] as string;
    const previous = lexemes.at(-1);
    const isIndex = previous?.type === "sign" && previous.value === ".";
    const word = endOf(WORD, text, at);
    const number = word === null ? endOf(isIndex ? INDEX : NUMBER, text, at) : null;
    let end = word ?? number;
    if (end !== null) {
      add(word === null ? "number" : "word", text.slice(at, end), end);
    } else if (char === "'" || char === '"') {
      end = endOf(TEXT, text, at);
      if (end === null) throw syntaxError("a text in quotes does not end", at);
      if (end - start > MAX_LENGTH) throw tooLong(start);
      add("text", unescaped(text, at, end), end);
    } else {
      end = endOf(SIGN, text, at);
      if (end === null)
        throw syntaxError(`${quote(String.fromCodePoint(text.codePointAt(at) as number))} is not allowed`, at);
      if (char === "{") braces += 1;
      else if (char === "}") braces -= 1;
      add("sign", text.slice(at, end), end);
    }
    at = end;
  }
}

/** The length of what ends the expression here; null if it continues. */
function endLength(text: string, at: number, braces: number, isBare: boolean): number | null {
  if (isBare) return at >= text.length ? 0 : null;
  if (braces > 0) return null;
  if (text.startsWith("}}", at)) return 2;
  return text.startsWith("-}}", at) ? 3 : null;
}

function tooLong(start: number): Error {
  return syntaxError(`an expression is longer than ${MAX_LENGTH} characters`, start);
}

function endOf(pattern: RegExp, text: string, at: number): number | null {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : null;
}

function unescaped(text: string, at: number, end: number): string {
  return text.slice(at + 1, end - 1).replace(/\\(.)/gsu, (pair: string, char: string, offset: number) => {
    const value = ESCAPES.get(char);
    if (value !== undefined) return value;
    throw syntaxError(`unknown escape ${quote(pair)}; write two backslashes for one`, at + 1 + offset);
  });
}
