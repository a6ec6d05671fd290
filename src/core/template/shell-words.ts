/** The words of a simple command, as far as they are constant, and whether a template among them would be read as code: by `eval`,
 *  by `sh -c`, or in bash by what evaluates arithmetic. For `shell-places.ts`, which finds the words. */

const SHELL = /(?:^|\/)(?:ba|da|z|k|mk|a|fi|c|tc|r)?sh$|^\$SHELL$|^\$BASH$/;
/** Programs that pass the text after `-c` to a shell. */
const SHELL_STARTERS: ReadonlySet<string> = new Set(["su", "runuser", "script", "flock", "sg"]);
/** They evaluate their arguments: as commands, or in bash as arithmetic, which may hold commands. */
const EVALUATORS: ReadonlySet<string> = new Set(["eval", "trap", "let", "declare", "typeset", "unset", "alias"]);
const PRINTERS: ReadonlySet<string> = new Set(["echo", "printf"]);
/** The command follows after them. */
const BEFORE_COMMAND = /^(?:if|then|elif|else|while|until|do|!|\{|time)$|^\w+\+?=/;
/** Of which `-v` names a variable. */
const NAMERS: ReadonlySet<string> = new Set(["printf", "test", "["]);

/** The words of a simple command, as far as they are constant. */
export class CommandWords {
  #word: string | null = null;
  #first: string | null = null;
  #last = "";
  #evaluator: string | null = null;
  #startsShell = false;
  #isCode = false;
  #isTarget = false;

  get isWordStart(): boolean {
    return this.#word === null;
  }

  add(text: string): void {
    this.#word = (this.#word ?? "") + text;
  }

  /** Returns the word that ended. */
  endWord(): string | null {
    const word = this.#word;
    if (word === null) return null;
    this.#word = null;
    if (this.#isTarget) {
      this.#isTarget = false;
      return null;
    }
    const isOption = /^-[A-Za-z]+$/.test(word);
    if (this.#isCode && !/^[-+]/.test(word)) this.#isCode = false;
    else if (isOption && word.includes("c") && this.#startsShell) this.#isCode = true;
    // A command that is not constant may be a shell.
    const isVariable = this.#first === null && /[$\0]/.test(word);
    if (isVariable || SHELL.test(word) || SHELL_STARTERS.has(word)) this.#startsShell = true;
    if (!BEFORE_COMMAND.test(word)) this.#first ??= word;
    if (EVALUATORS.has(word) && !PRINTERS.has(this.#first ?? "")) this.#evaluator ??= word;
    this.#last = word;
    return word;
  }

  end(): string | null {
    const word = this.endWord();
    [this.#first, this.#last, this.#evaluator] = [null, "", null];
    this.#startsShell = false;
    this.#isCode = false;
    this.#isTarget = false;
    return word;
  }

  /** The next word is the target of a redirection, and digits before it are its descriptor: neither is a word of the command. */
  redirect(): string | null {
    if (/^(?:\d+|\{\w+\})$/.test(this.#word ?? "")) this.#word = null;
    const word = this.endWord();
    this.#isTarget = true;
    return word;
  }

  /** Standard input of a shell is code. */
  hereString(): void {
    this.redirect();
    this.#isTarget = !this.#startsShell;
    if (this.#startsShell) this.#isCode = true;
  }

  /** Why a template here would be code; null if it would not. */
  refusal(): string | null {
    const word = this.#word ?? "";
    if (/^[A-Za-z_]\w*\[[^\]]*$/.test(word)) return "in the index of a variable";
    if (this.#isCode) return "in the code of a shell";
    if (/^-(?:[A-Za-z]*c|-command)/.test(word) && this.#startsShell) return "in the code of a shell";
    if (this.#last === "-v" && NAMERS.has(this.#first ?? "")) return "in the name of a variable";
    return this.#evaluator === null ? null : `after ${this.#evaluator}`;
  }
}
