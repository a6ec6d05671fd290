/** The name of a job for people: its own, else the action or manifest it came from, else its kind with a short argument.
 *  One line, never empty. A name shows no query, password, header or option value: they may be secrets. */

/** What a name is made from. `name` is the stored one; jobs stored by older versions have none. */
export interface NameParts {
  readonly name?: string | null;
  readonly kind: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly payload?: unknown;
}

/** Of a name that somebody gave. */
export const MAX_JOB_NAME = 200;
/** Of a name that is made from an input. */
const MAX_MADE = 60;

export function jobName(job: NameParts): string {
  return job.name ?? madeName(job);
}

/** The name of a job that was given none. */
export function madeName({ kind, annotations = {}, payload }: NameParts): string {
  const given = actionName(annotations) ?? annotated(annotations, "/name") ?? annotated(annotations, "/step");
  return given ?? (kind === "exec" ? execName(payload) : kind === "http" ? httpName(payload) : null) ?? kind;
}

/** The same of a job whose payload is JSON text. It is read only where the name is made from it. */
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

/** The action a job came from. By convention it stands in an annotation `SYSTEM/action`, as `attune/action`. */
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
  // Twice the limit is enough to know whether it is cut, unless most of it is white space.
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

const SHELLS = new Set(["sh", "bash", "dash", "zsh", "ksh", "fish"]);
/** Programs whose first argument that is not an option is the program people mean. */
const INTERPRETERS = /^(python|pypy|node|deno|bun|ruby|perl|php|java|Rscript|pwsh)[\d.]*$/;

function execName(payload: unknown): string | null {
  if (typeof payload !== "object" || payload === null) return null;
  const { argv, command } = payload as { readonly argv?: unknown; readonly command?: unknown };
  if (typeof command === "string") return scriptName(command);
  if (!Array.isArray(argv) || argv.length === 0) return null;
  return made(wordsName(argv.slice(0, 20).map(String)));
}

/** The first command of a script: a comment, `set` and assignments say nothing of what it does. */
function scriptName(script: string): string | null {
  const lines = script.slice(0, 4_096).split(/\n|;|&&/, 20);
  for (const each of lines) {
    const line = each.trim().replace(/^(then|do|else|\{|\()\s+/, "");
    const words = line.match(/"[^"]*"?|'[^']*'?|[^\s"']+/g)?.slice(0, 20) ?? [];
    while (/^[A-Za-z_]\w*=/.test(words[0] ?? "")) words.shift();
    const [first = ""] = words;
    if (first === "" || /^(#|(set|cd|export|trap|:|if|while|until|for|case|test|\[|fi|done|esac)$)/.test(first))
      continue;
    return made(wordsName(words.map((word) => word.replaceAll(/^["']|["']$/g, ""))));
  }
  return null;
}

function made(text: string): string | null {
  const line = oneLine(text, MAX_MADE);
  return line === "" ? null : line;
}

function wordsName(words: readonly string[]): string {
  const [path = "", ...rest] = words;
  const program = baseName(path);
  if (program === "env" || program === "nice" || program === "nohup" || program === "exec") {
    const from = rest.findIndex((word) => !word.startsWith("-") && !word.includes("="));
    return from < 0 || from > 5 ? program : wordsName(rest.slice(from));
  }
  const [first = ""] = rest;
  if (SHELLS.has(program) && /^-[a-z]*c$/.test(first)) return scriptName(rest[1] ?? "") ?? program;
  if (SHELLS.has(program) || INTERPRETERS.test(program)) return interpreted(program, rest);
  // What follows an option may be its value, and that a secret.
  return /^[^-]/.test(first) ? withArgument(program, first) : program;
}

function interpreted(program: string, rest: readonly string[]): string {
  for (const [i, word] of rest.entries()) {
    if (word === "-m" || word === "-jar" || word === "run") return withArgument(program, rest[i + 1] ?? "");
    // Code on the command line.
    if (/^-[a-zA-Z]*[ceEr]$|^--(eval|print)$|^-$/.test(word)) return program;
    if (!word.startsWith("-")) return withArgument(program, word);
  }
  return program;
}

function withArgument(program: string, word: string): string {
  const argument = safeArgument(word);
  return argument === "" ? program : `${program} ${argument}`;
}

/** An address without user, query and fragment; a path by its last part; nothing of `NAME=VALUE` but the name. */
function safeArgument(word: string): string {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(word)) return addressName(word) ?? "";
  const [name = ""] = word.split("=", 1);
  return name.includes("@") || name.includes(":") ? "" : baseName(name);
}

function baseName(path: string): string {
  return path.replace(/\/+$/, "").split("/").at(-1) ?? "";
}

function httpName(payload: unknown): string | null {
  if (typeof payload !== "object" || payload === null) return null;
  const { url, method } = payload as { readonly url?: unknown; readonly method?: unknown };
  const address = typeof url === "string" ? addressName(url) : null;
  if (address === null) return null;
  const verb = typeof method === "string" && /^[A-Za-z]{1,20}$/.test(method) ? method.toUpperCase() : "GET";
  return made(`${verb} ${address}`);
}

/** Host and path. */
function addressName(text: string): string | null {
  const [, host, path = ""] =
    /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#]*@)?([^/?#@]+)([^?#]*)/i.exec(text.slice(0, 2_000)) ?? [];
  return host === undefined ? null : `${host}${path === "/" ? "" : path}`;
}
