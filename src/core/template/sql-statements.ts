/** Splits the command of a postgres step into statements, and finds the place of each template: bare, or within a literal '…', which
 *  becomes a parameter as a whole. Follows the lexer of PostgreSQL with `standard_conforming_strings`. A template elsewhere is refused. A
 *  `;` within parentheses does not split; one within `begin atomic … end` does, so PostgreSQL refuses such a function. */

/** Replaces a template. No text of PostgreSQL can have this character. */
export const SQL_TEMPLATE = "\0";

/** A literal with templates: its texts, without quotes and escapes, and `SQL_TEMPLATE` for each template. */
export interface SqlLiteral {
  readonly literal: string;
}

export interface SqlPieces {
  /** Position of its first word. */
  readonly at: number;
  /** Texts, bare templates as `SQL_TEMPLATE` alone, and literals that have templates. */
  readonly pieces: readonly (string | SqlLiteral)[];
}

/** Something that a command cannot have; `index` is its position. */
export class SqlRefusal extends Error {
  readonly index: number;

  constructor(index: number, message: string) {
    super(message);
    this.index = index;
  }
}

const FILLED: ReadonlySet<string> = new Set(["select", "insert", "update", "delete", "merge", "values", "with"]);
const TRANSACTIONS: ReadonlySet<string> = new Set(["begin", "start", "commit", "end", "rollback", "abort"]);
/** In `date '…'` the text is part of the syntax, so a parameter cannot replace it. */
const TYPES: ReadonlySet<string> = new Set(
  "bit bool boolean box bytea char cidr circle date decimal float inet int integer interval json jsonb line macaddr money numeric path point polygon real text time timestamp timestamptz timetz uuid varchar xml".split(
    " ",
  ),
);
const WORD_CHAR = /[\w$\u0080-\uffff]/;
const WORD = /[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*/y;
const NUMBER = /\d[\w.]*/y;
const TAG = /\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/y;

/** The statements of a command whose templates are replaced by `SQL_TEMPLATE`. Empty ones are left out. */
export function splitSql(code: string): readonly SqlPieces[] {
  return new SqlScanner(code).scan();
}

class SqlScanner {
  readonly #code: string;
  readonly #statements: SqlPieces[] = [];
  #at = 0;
  /** Where the text begins that is not yet in a piece. */
  #from = 0;
  #pieces: (string | SqlLiteral)[] = [];
  /** Of the statement: its first word, or a sign; empty before it. */
  #first = "";
  #start = 0;
  /** The word before this token; empty after another token. */
  #word = "";
  #depth = 0;

  constructor(code: string) {
    this.#code = code;
  }

  scan(): readonly SqlPieces[] {
    while (this.#at < this.#code.length) this.#token();
    this.#endStatement();
    return this.#statements;
  }

  #char(offset = 0): string {
    return this.#code[this.#at + offset] ?? "";
  }

  #token(): void {
    const char = this.#char();
    const two = char + this.#char(1);
    if (/\s/.test(char)) this.#at += 1;
    else if (two === "--") this.#skipTo(this.#lineEnd(), "a comment");
    else if (two === "/*") this.#comment();
    else if (char === ";" && this.#depth === 0) {
      this.#endStatement();
      this.#at += 1;
      this.#from = this.#at;
    } else {
      const start = this.#at;
      this.#begin(char);
      const word = this.#matched(WORD);
      if (word !== null) this.#wordToken(word);
      else {
        this.#sign(char);
        this.#word = "";
      }
      if (this.#at === start) this.#at += 1;
    }
  }

  #wordToken(word: string): void {
    this.#at += word.length;
    this.#word = word.toLowerCase();
    if (this.#first === "") this.#first = this.#word;
    const isUnicode = this.#word === "u" && this.#char() === "&" && /['"]/.test(this.#char(1));
    if (isUnicode) this.#at += 1;
    const isPrefix = isUnicode || ["e", "b", "x", "n"].includes(this.#word);
    if (!isPrefix || this.#char() !== "'") return;
    const { text } = this.#quoted(this.#word === "e");
    if (text.includes(SQL_TEMPLATE)) this.#refuseIn(`${isUnicode ? "U&" : word.toUpperCase()}'…'; use a plain '…'`);
  }

  #sign(char: string): void {
    if (char === SQL_TEMPLATE) this.#bare();
    else if (char === "'") this.#literal();
    else if (char === '"') this.#skipTo(this.#closing('"', this.#at + 1), "a name in quotes");
    else if (char === "$") this.#dollar();
    else if (/\d/.test(char)) this.#at += this.#matched(NUMBER)?.length ?? 1;
    else {
      if (char === "(") this.#depth += 1;
      else if (char === ")") this.#depth = Math.max(0, this.#depth - 1);
      this.#at += 1;
    }
  }

  /** At the first token of a statement; parentheses before it do not count. */
  #begin(char: string): void {
    if (this.#first !== "" || char === "(") return;
    this.#start = this.#at;
    if (!/[A-Za-z_]/.test(char)) this.#first = char;
  }

  #endStatement(): void {
    const { pieces, at } = { pieces: this.#piecesNow(), at: this.#start };
    const first = this.#first;
    this.#pieces = [];
    [this.#first, this.#word, this.#depth] = ["", "", 0];
    if (first === "") return;
    if (TRANSACTIONS.has(first)) throw new SqlRefusal(at, `${first} is refused: a command is one transaction`);
    this.#statements.push({ at, pieces });
  }

  #piecesNow(): readonly (string | SqlLiteral)[] {
    const rest = this.#code.slice(this.#from, this.#at);
    return rest === "" ? this.#pieces : [...this.#pieces, rest];
  }

  #add(piece: string | SqlLiteral, from: number, to: number): void {
    const before = this.#code.slice(this.#from, from);
    if (before !== "") this.#pieces.push(before);
    this.#pieces.push(piece);
    this.#at = to;
    this.#from = to;
  }

  #checkStatement(index: number): void {
    if (FILLED.has(this.#first)) return;
    if (this.#first === SQL_TEMPLATE) throw new SqlRefusal(index, "a value cannot be a whole statement, or begin one");
    const allowed = [...FILLED].join(", ");
    throw new SqlRefusal(index, `a value cannot be in a statement that begins with ${this.#first}; only in ${allowed}`);
  }

  #bare(): void {
    this.#checkStatement(this.#at);
    const [before, after] = [this.#char(-1), this.#char(1)];
    const touches = [before, after].some((char) => WORD_CHAR.test(char) || /['".\0]/.test(char));
    if (touches) {
      throw new SqlRefusal(
        this.#at,
        "a value cannot be part of a name or a number; for a part of a text write '…{{ x }}…'",
      );
    }
    this.#add(SQL_TEMPLATE, this.#at, this.#at + 1);
  }

  #literal(): void {
    const from = this.#at;
    const { text, to } = this.#quoted(false);
    if (!text.includes(SQL_TEMPLATE)) return;
    const template = this.#code.indexOf(SQL_TEMPLATE, from);
    this.#checkStatement(template);
    if (TYPES.has(this.#word)) {
      throw new SqlRefusal(template, `a value cannot be in ${this.#word} '…'; write '…'::${this.#word}`);
    }
    // `like'…'and` would become one word with `$1`.
    const [before, after] = [this.#code[from - 1] ?? "", this.#code[to] ?? ""];
    this.#add({ literal: text }, from, to);
    if (WORD_CHAR.test(before)) this.#pieces.splice(-1, 0, " ");
    if (WORD_CHAR.test(after)) this.#pieces.push(" ");
  }

  /** A text in quotes from here on, with what continues it on the next line. */
  #quoted(hasEscapes: boolean): { readonly text: string; readonly to: number } {
    let text = "";
    for (let next: number | null = this.#at; next !== null; next = this.#continued()) {
      const start = next + 1;
      const end = hasEscapes ? this.#escapedEnd(start) : this.#closing("'", start);
      text += this.#code.slice(start, end - 1).replaceAll("''", "'");
      this.#at = end;
    }
    return { text, to: this.#at };
  }

  /** The position of the quote that continues a literal: after spaces and comments with at least one new line. */
  #continued(): number | null {
    let [at, hasNewline] = [this.#at, false];
    for (;;) {
      const char = this.#code[at] ?? "";
      if (/\s/.test(char)) hasNewline ||= char === "\n" || char === "\r";
      else if (char === "-" && this.#code[at + 1] === "-") at = this.#lineEnd(at) - 1;
      else return hasNewline && char === "'" ? at : null;
      at += 1;
    }
  }

  /** The position after the quote that closes what is open; two in a row do not. */
  #closing(quote: string, from: number): number {
    for (let at = this.#code.indexOf(quote, from); at !== -1; at = this.#code.indexOf(quote, at + 2)) {
      if (this.#code[at + 1] !== quote) return at + 1;
    }
    return this.#unterminated(from);
  }

  #escapedEnd(from: number): number {
    for (let at = from; at < this.#code.length; at += 1) {
      const char = this.#code[at];
      if (char === "\\") at += 1;
      else if (char === "'" && this.#code[at + 1] !== "'") return at + 1;
      else if (char === "'") at += 1;
    }
    return this.#unterminated(from);
  }

  #unterminated(from: number): never {
    throw new SqlRefusal(from - 1, "a text in quotes does not end");
  }

  #dollar(): void {
    if (/\d/.test(this.#char(1))) {
      throw new SqlRefusal(this.#at, "a parameter such as $1 is refused; write {{ x }}, without quotes");
    }
    const tag = this.#matched(TAG);
    if (tag === null) return;
    const end = this.#code.indexOf(tag, this.#at + tag.length);
    if (end === -1) throw new SqlRefusal(this.#at, `${tag} does not end`);
    this.#skipTo(end + tag.length, `${tag}…${tag}`);
  }

  /** Comments nest. */
  #comment(): void {
    let [at, depth] = [this.#at + 2, 1];
    for (; depth > 0; at += 2) {
      const open = this.#code.indexOf("/*", at);
      const close = this.#code.indexOf("*/", at);
      if (close === -1) throw new SqlRefusal(this.#at, "a comment does not end");
      const isOpen = open !== -1 && open < close;
      depth += isOpen ? 1 : -1;
      at = isOpen ? open : close;
    }
    this.#skipTo(at, "a comment");
  }

  #lineEnd(from = this.#at): number {
    for (let at = from; at < this.#code.length; at += 1) {
      if (this.#code[at] === "\n" || this.#code[at] === "\r") return at;
    }
    return this.#code.length;
  }

  /** Skips what cannot have templates. */
  #skipTo(end: number, what: string): void {
    const template = this.#code.slice(this.#at, end).indexOf(SQL_TEMPLATE);
    this.#at += Math.max(0, template);
    if (template !== -1) this.#refuseIn(what);
    this.#at = end;
  }

  #refuseIn(what: string): never {
    const template = this.#code.lastIndexOf(SQL_TEMPLATE, this.#at);
    throw new SqlRefusal(template, `a value cannot be in ${what}`);
  }

  #matched(pattern: RegExp): string | null {
    pattern.lastIndex = this.#at;
    return pattern.exec(this.#code)?.[0] ?? null;
  }
}
