/** Where the templates of a shell command are: bare, within '…' or within "…". A template is refused where no quoting keeps a value from
 *  being read as code: in heredocs, comments, backticks, arithmetic and expansions, directly after `$` or a backslash, and as the code of
 *  `eval`, `sh -c` and others. The same goes for a template after anything that shells read differently, or that this scan does
 *  not follow, so a wrong guess refuses and never pastes. For POSIX shells and bash. */

import { CommandWords } from "./shell-words.ts";

/** A place that can be quoted. */
export type ShellPlace = "bare" | "single" | "double";

/** Replaces a template. No shell command can have this character. */
export const TEMPLATE = "\0";

/** A template where a value cannot be quoted; `index` is that of its character. */
export class ShellRefusal extends Error {
  readonly index: number;

  constructor(index: number, message: string) {
    super(message);
    this.index = index;
  }
}

const MAX_NESTED = 50;
/** The rest of the command has no templates. */
class GaveUp extends Error {}

interface Heredoc {
  readonly delimiter: string;
  readonly stripsTabs: boolean;
  readonly isQuoted: boolean;
}

/** The places in a command whose templates are replaced by `TEMPLATE`. */
export function scanShell(code: string): readonly ShellPlace[] {
  return new ShellScanner(code).scan();
}

class ShellScanner {
  readonly #code: string;
  readonly #places: ShellPlace[] = [];
  #at = 0;
  #depth = 0;
  #isInTest = false;
  #heredocs: Heredoc[] = [];

  constructor(code: string) {
    this.#code = code;
  }

  scan(): readonly ShellPlace[] {
    try {
      this.#commands(false);
    } catch (error) {
      if (!(error instanceof GaveUp)) throw error;
    }
    return this.#places;
  }

  #char(offset = 0): string {
    return this.#code[this.#at + offset] ?? "";
  }

  get #isAtEnd(): boolean {
    return this.#at >= this.#code.length;
  }

  #refuse(where: string): never {
    throw new ShellRefusal(this.#at, `a value cannot be quoted ${where}`);
  }

  /** After something that the scan does not follow: templates may be anywhere from here on. */
  #giveUp(after: string): never {
    const next = this.#code.indexOf(TEMPLATE, this.#at);
    throw next === -1 ? new GaveUp() : new ShellRefusal(next, `a value cannot be quoted safely after ${after}`);
  }

  #template(place: ShellPlace, words: CommandWords): void {
    if (this.#isInTest) this.#refuse("in [[ … ]]; use [ … ]");
    const refusal = words.refusal();
    if (refusal !== null) this.#refuse(refusal);
    this.#places.push(place);
    words.add(TEMPLATE);
    this.#at += 1;
  }

  /** Up to the end, or within `$(` to its `)`. */
  #commands(isNested: boolean): void {
    const words = new CommandWords();
    let parentheses = 0;
    while (!this.#isAtEnd) {
      const char = this.#char();
      if (char === ")" && isNested && parentheses === 0) {
        if (this.#heredocs.length > 0) this.#giveUp("a heredoc in $(…)");
        this.#at += 1;
        return;
      }
      if (char === "(") parentheses += 1;
      if (char === ")") parentheses -= 1;
      this.#bare(char, words, isNested);
    }
  }

  #bare(char: string, words: CommandWords, isNested: boolean): void {
    if (char === TEMPLATE) this.#template("bare", words);
    else if (char === "\\") this.#escape(words);
    else if (char === "'") this.#single(words);
    else if (char === '"') this.#double(words);
    else if (char === "`") this.#backticks(words);
    else if (char === "$") this.#dollar(words, false);
    else if (char === "<") this.#input(words);
    else if (char === "#" && words.isWordStart) this.#comment();
    else if (/[ \t>]/.test(char)) {
      this.#endWord(char === ">" ? words.redirect() : words.endWord(), isNested);
      this.#at += 1;
    } else if (/[\n;&|()]/.test(char)) this.#separator(char, words, isNested);
    else {
      words.add(char);
      this.#at += 1;
    }
  }

  #endWord(word: string | null, isNested: boolean): void {
    if (word === "[[") this.#isInTest = true;
    else if (word === "]]") this.#isInTest = false;
    else if (word === "case" && isNested) this.#giveUp("case in $(…)");
  }

  #separator(char: string, words: CommandWords, isNested: boolean): void {
    const before = this.#char(-1);
    // `2>&1`, `>|file` and `&>file` are redirections, within a command.
    const isRedirection = (before === ">" || before === "<") && (char === "&" || (char === "|" && before === ">"));
    if (!isRedirection && char === "&" && this.#char(1) === ">") {
      this.#endWord(words.endWord(), isNested);
    } else if (isRedirection) {
      words.redirect();
    } else {
      this.#endWord(words.end(), isNested);
      if (char === "(" && this.#char(1) === "(") this.#giveUp("((");
    }
    this.#at += 1;
    if (char === "\n") this.#heredocBodies();
  }

  #escape(words: CommandWords): void {
    const escaped = this.#char(1);
    if (escaped === TEMPLATE) this.#refuse("directly after a backslash");
    if (escaped === "\n") {
      if (/[$<>&|(#[]/.test(this.#char(-1))) this.#giveUp("a line that is continued within a sign");
    } else words.add(escaped);
    this.#at += 2;
  }

  #single(words: CommandWords): void {
    this.#at += 1;
    words.add("");
    while (!this.#isAtEnd) {
      const char = this.#char();
      if (char === TEMPLATE) this.#template("single", words);
      else if (this.#isHeredocAt(char)) this.#giveUp("a heredoc and a text of several lines");
      else {
        this.#at += 1;
        if (char === "'") return;
        words.add(char);
      }
    }
  }

  #double(words: CommandWords): void {
    this.#at += 1;
    words.add("");
    while (!this.#isAtEnd) {
      const char = this.#char();
      if (char === TEMPLATE) this.#template("double", words);
      else if (char === "\\") this.#escape(words);
      else if (char === "`") this.#backticks(words);
      else if (char === "$") this.#dollar(words, true);
      else if (this.#isHeredocAt(char)) this.#giveUp("a heredoc and a text of several lines");
      else {
        this.#at += 1;
        if (char === '"') return;
        words.add(char);
      }
    }
  }

  #isHeredocAt(char: string): boolean {
    return char === "\n" && this.#heredocs.length > 0;
  }

  #backticks(words: CommandWords): void {
    words.add("$");
    for (this.#at += 1; !this.#isAtEnd; this.#at += 1) {
      const char = this.#char();
      if (char === TEMPLATE) this.#refuse("in backticks; use $(…)");
      if (this.#isHeredocAt(char)) this.#giveUp("a heredoc and a text of several lines");
      if (char === "\\" && this.#char(1) !== TEMPLATE) this.#at += 1;
      else if (char === "`") {
        this.#at += 1;
        return;
      }
    }
  }

  #comment(): void {
    for (; !this.#isAtEnd && this.#char() !== "\n"; this.#at += 1) {
      if (this.#char() === TEMPLATE) this.#refuse("in a comment");
    }
  }

  #dollar(words: CommandWords, isDouble: boolean): void {
    const next = this.#char(1);
    if (next === TEMPLATE) this.#refuse("directly after $; for a variable of the shell write $NAME");
    if (next === "[") this.#giveUp("$[");
    if (next === "'" && !isDouble) this.#giveUp("$'…'");
    words.add("$");
    if (next === "{") this.#parameter();
    else if (next === "(") this.#substitution();
    else {
      // `$$(` is the parameter `$$` and a parenthesis.
      this.#at += /[$!?@*#\-0-9]/.test(next) ? 2 : 1;
    }
  }

  #substitution(): void {
    if (this.#heredocs.length > 0) this.#giveUp("a heredoc before $(…)");
    if (this.#char(2) === "(") {
      this.#arithmetic();
      return;
    }
    this.#at += 2;
    this.#depth += 1;
    if (this.#depth > MAX_NESTED) this.#giveUp("that many $(…)");
    this.#commands(true);
    this.#depth -= 1;
  }

  /** `${name}` and what has no quotes. */
  #parameter(): void {
    for (this.#at += 2; !this.#isAtEnd; this.#at += 1) {
      const char = this.#char();
      if (char === TEMPLATE) this.#refuse("in a parameter expansion");
      if (char === "}") {
        this.#at += 1;
        return;
      }
      if (/['"`\\{\n]/.test(char) || (char === "$" && !/\w/.test(this.#char(1))))
        this.#giveUp("a parameter expansion with quotes");
    }
  }

  #arithmetic(): void {
    let depth = 0;
    for (this.#at += 1; !this.#isAtEnd; this.#at += 1) {
      const char = this.#char();
      if (char === TEMPLATE) this.#refuse("in $((…))");
      if (/['"`\\\n]/.test(char) || (char === "#" && /\s/.test(this.#char(-1)))) this.#giveUp("$((…)) with quotes");
      if (char === "(") depth += 1;
      if (char === ")") depth -= 1;
      if (depth > 0) continue;
      if (this.#char(-1) !== ")") this.#giveUp("$((…)) that is a command");
      this.#at += 1;
      return;
    }
  }

  #input(words: CommandWords): void {
    if (this.#char(1) !== "<") {
      words.redirect();
      this.#at += 1;
    } else if (this.#char(2) === "<") {
      words.hereString();
      this.#at += 3;
    } else {
      words.redirect();
      this.#heredoc();
      words.add("");
      words.endWord();
    }
  }

  #heredoc(): void {
    this.#at += 2;
    const stripsTabs = this.#char() === "-";
    if (stripsTabs) this.#at += 1;
    while (/[ \t]/.test(this.#char())) this.#at += 1;
    let [delimiter, isQuoted] = ["", false];
    while (!this.#isAtEnd && !/[\s;&|<>()]/.test(this.#char())) {
      const char = this.#char();
      if (char === TEMPLATE) this.#refuse("as the end of a heredoc");
      if (char === "$" || char === "`") this.#giveUp("a heredoc whose end is not constant");
      if (/['"\\]/.test(char)) isQuoted = true;
      else delimiter += char;
      this.#at += 1;
    }
    // An end with spaces, or of several quoted pieces.
    if (isQuoted && !/^(?:'\w+'|"\w+"|\\\w+)$/.test(this.#code.slice(this.#lastSpace(), this.#at))) {
      this.#giveUp("a heredoc whose end is quoted like this");
    }
    this.#heredocs.push({ delimiter, stripsTabs, isQuoted });
  }

  #lastSpace(): number {
    let from = this.#at;
    while (from > 0 && !/[\s<-]/.test(this.#code[from - 1] as string)) from -= 1;
    return from;
  }

  #heredocBodies(): void {
    for (const { delimiter, stripsTabs, isQuoted } of this.#heredocs.splice(0)) {
      for (let line: string | null = null; line !== delimiter && !this.#isAtEnd; ) {
        const newline = this.#code.indexOf("\n", this.#at);
        const end = newline === -1 ? this.#code.length : newline;
        line = this.#code.slice(this.#at, end);
        const template = line.indexOf(TEMPLATE);
        if (template !== -1) {
          this.#at += template;
          this.#refuse("in a heredoc; pass it in env, and write $NAME");
        }
        if (!isQuoted && line.endsWith("\\")) this.#giveUp("a heredoc with a line that is continued");
        if (stripsTabs) line = line.replace(/^\t+/, "");
        this.#at = end + 1;
      }
    }
  }
}
