/** Reads YAML or JSON that a person wrote, within limits: no custom tags, no merge keys, each key once. A mistake is a
 *  `YamlError` with file, line and column. The result is a plain value without prototypes that knows the position of each
 *  part, so that later checks can report it. Reads no files: a server gets its text in a request. */
import type { Document, LineCounter } from "yaml";
import { TOO_DEEP, YAML_LIMITS, YamlFault, yaml, yamlTokens } from "./scan.ts";
import { NOT_A_TEXT_KEY, startOf, YamlValueReader } from "./value.ts";

/** Counted from 1. */
export interface YamlPosition {
  readonly line: number;
  readonly column: number;
}

/** A text that cannot be read. Its message is `job.yaml:3:5: PROBLEM`; of a problem with the file as a whole it has no
 *  position. */
export class YamlError extends Error {
  /** The name as it was given. */
  readonly file: string;
  /** Counted from 1, as `column`. Null: the whole file. */
  readonly line: number | null;
  readonly column: number | null;
  /** The message without the position. */
  readonly problem: string;

  constructor(file: string, at: YamlPosition | null, problem: string, message?: string) {
    super(message ?? `${at === null ? file : positionText(file, at)}: ${problem}`);
    this.name = "YamlError";
    this.file = file;
    this.line = at?.line ?? null;
    this.column = at?.column ?? null;
    this.problem = problem;
  }
}

export type YamlPath = readonly (string | number)[];

export class YamlText {
  /** The name as it was given. */
  readonly file: string;
  readonly value: unknown;
  readonly #document: Document.Parsed;
  readonly #valuer: YamlValueReader;
  readonly #lines: LineCounter;
  readonly #text: string;
  /** The path of this part in the file. */
  readonly #from: YamlPath;

  constructor(
    file: string,
    value: unknown,
    document: Document.Parsed,
    valuer: YamlValueReader,
    lines: LineCounter,
    text: string,
    from: YamlPath = [],
  ) {
    this.file = file;
    this.value = value;
    this.#document = document;
    this.#valuer = valuer;
    this.#lines = lines;
    this.#text = text;
    this.#from = from;
  }

  /** A part as a document of its own that keeps its positions in this file. */
  part(path: YamlPath): YamlText {
    const value = path.reduce<unknown>(
      (within, step) => (within as Record<string | number, unknown>)[step],
      this.value,
    );
    const from = [...this.#from, ...path];
    return new YamlText(this.file, value, this.#document, this.#valuer, this.#lines, this.#text, from);
  }

  /** The position of a part: of a field its key, of an item its beginning. Of a missing part: where it would be. */
  positionOf(path: YamlPath): YamlPosition {
    return this.#locate(path).position;
  }

  /** The position of a character of a text, from 0. Where it cannot be found, as after some escapes, that of the part. */
  positionIn(path: YamlPath, offset: number): YamlPosition {
    const { position, isWhole, node } = this.#locate(path);
    const { isScalar } = yaml();
    if (!isWhole || !isScalar(node) || typeof node.value !== "string" || !node.range) return position;
    const [from, to] = node.range;
    const isBlock = node.type === "BLOCK_LITERAL" || node.type === "BLOCK_FOLDED";
    const quote = node.type === "QUOTE_DOUBLE" || node.type === "QUOTE_SINGLE" ? this.#text[from] : null;
    const begin = isBlock ? this.#text.indexOf("\n", from) + 1 : from + (quote === null ? 0 : 1);
    const at = offsetOf(this.#text.slice(begin, to), node.value, offset, quote ?? null);
    return at === null ? position : positionAt(this.#lines, begin + at);
  }

  /** Null if the part does not exist. */
  find(path: YamlPath): YamlPosition | null {
    const { position, isWhole } = this.#locate(path);
    return isWhole ? position : null;
  }

  /** Follows the path as far as it exists. */
  #locate(below: YamlPath): {
    readonly position: YamlPosition;
    readonly isWhole: boolean;
    readonly node: unknown;
  } {
    const { isAlias, isMap, isScalar, isSeq } = yaml();
    const path = [...this.#from, ...below];
    let found = 0;
    let node: unknown = this.#document.contents;
    let offset = startOf(node) ?? 0;
    for (const step of path) {
      if (isAlias(node)) node = this.#valuer.targets.get(node);
      if (isMap(node)) {
        const pair = node.items.find(({ key }) => isScalar(key) && key.value === String(step));
        if (pair === undefined) break;
        offset = startOf(pair.key) ?? offset;
        node = pair.value;
      } else if (isSeq(node) && typeof step === "number" && step in node.items) {
        node = node.items[step];
        offset = startOf(node) ?? offset;
      } else break;
      found += 1;
    }
    if (isAlias(node)) node = this.#valuer.targets.get(node);
    return { position: positionAt(this.#lines, offset), isWhole: found === path.length, node };
  }

  /** `job.yaml:3:5` */
  where(path: YamlPath): string {
    return positionText(this.file, this.positionOf(path));
  }
}

/** Where the character at `offset` of a value is in the text that it was read from: indents and line breaks of the text may be missing
 *  in the value. Null where the two cannot be matched. */
function offsetOf(text: string, value: string, offset: number, quote: string | null): number | null {
  let at = 0;
  for (let read = 0; read <= offset; ) {
    const isLast = read === offset;
    const [char, wanted] = [text[at], value[read]];
    if (char === undefined || wanted === undefined) return null;
    const escaped = quote === '"' && char === "\\" ? ESCAPED[text[at + 1] ?? ""] : undefined;
    if (char === wanted || escaped === wanted) {
      if (isLast) return at;
      at += escaped === wanted ? 2 : 1;
      if (quote === "'" && char === "'" && text[at] === "'") at += 1;
      read += 1;
    } else if (/\s/.test(char)) at += 1;
    else if (/\s/.test(wanted) && !isLast) read += 1;
    else return null;
  }
  return null;
}

const ESCAPED: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", '"': '"', "\\": "\\", "/": "/" };

/** `file` is for messages. `lexemes`: words and signs, at most; a hundred thousand take a fifth of a second. */
export function readYaml(text: string, file: string, lexemes: number = YAML_LIMITS.lexemes): YamlText {
  return documentsIn(text, file, 1, lexemes)[0] as YamlText;
}

/** Documents in one file. */
const MAX_DOCUMENTS = 1_000;

/** All documents of a text, separated by `---`. Empty ones are left out, unless all are empty. */
export function readYamlDocuments(text: string, file: string): YamlText[] {
  const all = documentsIn(text, file, MAX_DOCUMENTS, YAML_LIMITS.lexemes);
  const filled = all.filter(({ value }) => value !== null);
  return filled.length === 0 ? all.slice(0, 1) : filled;
}

function documentsIn(text: string, file: string, most: number, lexemes: number): YamlText[] {
  if (text.length > YAML_LIMITS.bytes || Buffer.byteLength(text) > YAML_LIMITS.bytes) throw tooLong(file);
  const lines = linesOf(text);
  const found: YamlText[] = [];
  try {
    for (const document of composed(text, lexemes)) {
      if (found.length === most) throw new YamlFault(document.range[0], TOO_MANY(most));
      const valuer = new YamlValueReader();
      found.push(new YamlText(file, valuer.valueOf(document.contents), document, valuer, lines, text));
    }
  } catch (error) {
    if (!(error instanceof YamlFault)) throw error;
    throw new YamlError(file, positionAt(lines, error.offset), error.message);
  }
  if (found.length === 0) throw new Error("the parser gave no document");
  return found;
}

const TOO_MANY = (most: number) =>
  most === 1 ? "a second document; one file has one, remove the ---" : `more than ${most} documents; split the file`;

function* composed(text: string, lexemes: number): Generator<Document.Parsed, void> {
  const composer = new (yaml().Composer)({
    ...{ schema: "core", version: "1.2", merge: false, resolveKnownTags: false, stringKeys: true },
    // The library compares each key with each; our check is below.
    uniqueKeys: false,
  });
  for (const document of composer.compose(yamlTokens(text, lexemes), true, text.length)) {
    // The parser only warns about unknown tags.
    const [wrong] = [...document.errors, ...document.warnings];
    if (wrong !== undefined) throw new YamlFault(wrong.pos[0], plainYamlError(wrong));
    yield document as Document.Parsed;
  }
}

export function readYamlBytes(bytes: Uint8Array, file: string): YamlText {
  return readYaml(yamlTextIn(bytes, file), file);
}

/** The bytes of a file as text. */
export function yamlTextIn(bytes: Uint8Array, file: string): string {
  if (bytes.length > YAML_LIMITS.bytes) throw tooLong(file);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    const problem = "is not UTF-8 text; save it as UTF-8";
    throw new YamlError(file, null, problem, `${file} ${problem}`);
  }
}

function tooLong(file: string): YamlError {
  const problem = `over ${YAML_LIMITS.bytes} bytes; split it, or store the data elsewhere and pass its address`;
  return new YamlError(file, null, problem);
}

function positionText(file: string, { line, column }: YamlPosition): string {
  return `${file}:${line}:${column}`;
}

function positionAt(lines: LineCounter, offset: number): YamlPosition {
  const { line, col } = lines.linePos(offset);
  return { line, column: col };
}

function linesOf(text: string): LineCounter {
  const lines = new (yaml().LineCounter)();
  for (let at = 0; ; ) {
    lines.addNewLine(at);
    const end = text.indexOf("\n", at);
    if (end < 0) return lines;
    at = end + 1;
  }
}

const ADVICE: Readonly<Record<string, string>> = {
  TAB_AS_INDENT: "tabs do not indent in YAML; use spaces",
  BAD_INDENT: "wrong indentation; align it with its neighbours",
  MISSING_CHAR: "something is missing here, often a colon, a comma, a bracket or a quote",
  BLOCK_AS_IMPLICIT_KEY: "a second colon in one line; put quotes around the value, or begin a new line",
  BAD_SCALAR_START: "a value cannot begin with this character; put quotes around it",
  KEY_OVER_1024_CHARS: "a key of more than 1024 characters; shorten it",
  MULTILINE_IMPLICIT_KEY: "a key and its colon must be on one line; a colon may be missing here",
  UNEXPECTED_TOKEN: "unexpected text here; remove it, or put quotes around the whole value",
  MULTIPLE_ANCHORS: "two anchors (&name) for one value; keep one",
  MULTIPLE_TAGS: "two tags (!name) for one value; remove them",
  BAD_DQ_ESCAPE: "unknown escape after a backslash; write two backslashes, or use single quotes",
  NON_STRING_KEY: NOT_A_TEXT_KEY,
  RESOURCE_EXHAUSTION: TOO_DEEP,
};

function plainYamlError({ code, message }: { code: string; message: string }): string {
  const short = message.replaceAll(/\s+/g, " ").slice(0, 200);
  if (code === "TAG_RESOLVE_FAILED") return `unknown tag (${short}); remove it`;
  const [, end] = /^Flow .* end with a ([\]}])/.exec(short) ?? [];
  if (end !== undefined) {
    const begin = end === "]" ? "[" : "{";
    return `the "${begin}" is not closed, or its lines are not indented; add "${end}", or indent them`;
  }
  return ADVICE[code] ?? `not valid YAML (${short}); fix it there`;
}
