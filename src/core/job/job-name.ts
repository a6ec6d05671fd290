/** The display name of a job: its own, else the action or manifest it came from, else one made from its kind and input: of a
 *  command the program and at most one plain argument, of a request the method and host, as the rest may be secret. One line,
 *  never empty. */
import { withoutEnd } from "../format.ts";

/** The fields that a name is made from. `name` is the stored one, which jobs of older versions do not have. */
export interface NameParts {
  readonly name?: string | null;
  readonly kind: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly payload?: unknown;
}

/** The limit of a given name. */
export const MAX_JOB_NAME = 200;

export function jobName(job: NameParts): string {
  return job.name ?? madeName(job);
}

/** The name of a job without its own. */
export function madeName({ kind, annotations = {}, payload }: NameParts): string {
  const given = actionName(annotations) ?? annotated(annotations, "/name") ?? annotated(annotations, "/step");
  return given ?? (kind === "exec" ? execName(payload) : kind === "http" ? httpName(payload) : null) ?? kind;
}

/** The same with a payload as JSON text, which is parsed only where needed. */
export function rowName(row: NameParts & { readonly payload: string }): string {
  if (row.name != null) return row.name;
  const isMade = row.kind === "exec" || row.kind === "http";
  return madeName({ ...row, payload: isMade ? parsed(row.payload) : null });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // a job without an input
  }
}

/** The action a job came from. By convention it is in an annotation `SYSTEM/action`. */
export function actionName(annotations: Readonly<Record<string, string>>): string | null {
  return annotated(annotations, "/action");
}

function annotated(annotations: Readonly<Record<string, string>>, ending: string): string | null {
  for (const [key, value] of Object.entries(annotations)) {
    const text = key.endsWith(ending) ? oneLine(value, MAX_JOB_NAME) : "";
    if (text !== "") return text;
  }
  return null;
}

/** Text on one line: runs of white space and control characters are one space; cut with an ellipsis. */
export function oneLine(text: string, limit: number): string {
  // Bounds the work, also if most of the text is white space.
  const line = text
    .slice(0, limit * 20)
    .replaceAll(/[\s\p{Cc}\p{Cf}\p{Cs}]+/gu, " ")
    .trim();
  if (line.length <= limit) return line;
  return `${line
    .slice(0, limit - 1)
    .toWellFormed()
    .replace(/\ufffd$/, "")
    .trimEnd()}…`;
}

const SHELLS = new Set(["sh", "bash", "dash", "zsh", "ksh"]);
const INTERPRETERS = /^(fish|python|pypy|node|deno|bun|ruby|perl|php|java|Rscript|pwsh)[\d.]*(\.exe)?$/;
/** Programs that run another program. */
const WRAPPERS = new Set(["env", "nice", "nohup", "exec"]);
const PROGRAM = /^[\w.+-]{1,40}$/;
const ARGUMENT = /^[\w./][\w./-]{0,39}$/;
const ASSIGNMENT = /^[A-Za-z_]\w*=/;

function execName(payload: unknown): string | null {
  if (typeof payload !== "object" || payload === null) return null;
  const { argv, command } = payload as { readonly argv?: unknown; readonly command?: unknown };
  if (typeof command === "string") return scriptName(command) ?? "sh script";
  if (!Array.isArray(argv) || argv.length === 0) return null;
  return wordsName(argv.slice(0, 20).map(String));
}

/** Null where the program's own name is not plain. */
function wordsName(words: readonly string[]): string | null {
  const [path = "", ...rest] = words;
  const program = baseName(path);
  if (path.includes("=") || !PROGRAM.test(program)) return null;
  if (WRAPPERS.has(program)) {
    const inner = rest.slice(rest.findIndex((word) => !ASSIGNMENT.test(word)));
    return /^-|^$/.test(inner[0] ?? "") || ASSIGNMENT.test(inner[0] ?? "") ? program : (wordsName(inner) ?? program);
  }
  if (SHELLS.has(program)) {
    const at = rest.findIndex((word) => !/^-[eulx]+$/.test(word));
    if (/^-[a-z]*c$/.test(rest[at] ?? "")) return scriptName(rest[at + 1] ?? "") ?? `${program} script`;
    return withArgument(program, rest[at]);
  }
  if (INTERPRETERS.test(program)) {
    const [first, second] = rest[0] === "-u" ? rest.slice(1) : rest;
    return withArgument(program, first === "-m" || first === "-jar" || first === "run" ? second : first);
  }
  return withArgument(program, rest[0]);
}

/** Options and what follows them are not shown, as that may be a secret value. Of a path, only the last part is shown. */
function withArgument(program: string, word = ""): string {
  const argument = ARGUMENT.test(word) ? baseName(word) : "";
  return argument === "" ? program : `${program} ${argument}`;
}

function baseName(path: string): string {
  return withoutEnd(path, "/\\").split(/[/\\]/).at(-1) ?? "";
}

/** Commands that do not show what a script does. */
const SKIPPED = new Set([
  ...[
    "set",
    "cd",
    "export",
    "readonly",
    "local",
    "declare",
    "typeset",
    "unset",
    "trap",
    ":",
    ".",
    "source",
    "test",
    "[",
  ],
  ...["if", "elif", "while", "until", "for", "fi", "done"],
]);
const PREFIXES = new Set(["then", "do", "else", "{", "!"]);
/** Not parsed here. */
const UNCLEAR = new Set(["case", "select", "function", "[[", "esac", "}"]);

/** The first command of a script; null where that is not clear. */
function scriptName(script: string): string | null {
  for (const { words, isPiped } of commandsOf(script.slice(0, 4_096))) {
    const from = words.findIndex((word) => !PREFIXES.has(word) && !ASSIGNMENT.test(word));
    const [first, ...rest] = from < 0 ? [] : words.slice(from);
    if (first === undefined || SKIPPED.has(first)) continue;
    if (UNCLEAR.has(first)) return null;
    // Arguments of a command before a pipe are data.
    return wordsName(isPiped ? [first] : [first, ...rest]);
  }
  return null;
}

interface ScriptCommand {
  /** As written, with quotes: only a word without quotes is shown in a name. */
  readonly words: readonly string[];
  readonly isPiped: boolean;
}

/** White space, a comment, the end of a command, or a piece of a word. Substitutions, groups, redirections and unterminated quotes
 *  are not parsed. */
const PIECE =
  /(?<space>[ \t\r]+|\\\n)|(?<end>\n|;+|&&|\|\||\||&)|(?<word>[^\s;&|()<>"'`\\$]+|\\[^\n]|'[^']*'|"(?:[^"\\`$]|\\[\s\S]|\$(?![({]))*"|\$(?![({'"]))/y;

/** The commands up to the first text that is not parsed. The word before that may be incomplete, and is marked so. */
function* commandsOf(script: string): Generator<ScriptCommand> {
  let words: string[] = [];
  let word = "";
  let at = 0;
  const endWord = () => {
    if (word !== "") words.push(word);
    word = "";
  };
  while (at < script.length) {
    if (word === "" && script[at] === "#") {
      const end = script.indexOf("\n", at);
      at = end < 0 ? script.length : end;
      continue;
    }
    PIECE.lastIndex = at;
    const { space, end, word: piece } = PIECE.exec(script)?.groups ?? {};
    if (space === undefined && end === undefined && piece === undefined) {
      word += "$";
      break;
    }
    at = PIECE.lastIndex;
    if (piece !== undefined) word += piece;
    else if (space !== "\\\n") endWord();
    if (end === undefined) continue;
    yield { words, isPiped: end === "|" };
    words = [];
  }
  endWord();
  yield { words, isPiped: false };
}

function httpName(payload: unknown): string | null {
  if (typeof payload !== "object" || payload === null) return null;
  const { url, method } = payload as { readonly url?: unknown; readonly method?: unknown };
  // Without the path, which contains the tokens of webhooks.
  const authority = typeof url === "string" ? /^https?:\/\/([^/?#\\]+)/i.exec(url.slice(0, 2_000))?.[1] : undefined;
  const host = authority?.split("@").at(-1) ?? "";
  if (!/^[\w.:[\]-]{1,60}$/.test(host)) return null;
  const verb = typeof method === "string" && /^[A-Za-z]{1,20}$/.test(method) ? method.toUpperCase() : "GET";
  return `${verb} ${host}`;
}
