/** YAML or JSON that a person wrote, read with care: within limits, no tags but those of YAML's core, no merge keys, each key
 *  once, one document. Whatever is wrong is a usage error with file, line and column. The answer is a plain value without
 *  prototypes, and knows where each part of it stands, so that later checks can point there. */

import type { Document, LineCounter } from "yaml";
import { CliError, EXIT, usageError } from "./exit.ts";
import { readBounded } from "./read-file.ts";
import { yaml } from "./yaml-library.ts";
import { Faulty, TOO_DEEP, YAML_LIMITS, yamlTokens } from "./yaml-scan.ts";
import { startOf, Valuer } from "./yaml-value.ts";

/** As people count: from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

export type Path = readonly (string | number)[];

export class YamlText {
  /** As people gave it. */
  readonly file: string;
  readonly value: unknown;
  readonly #document: Document.Parsed;
  readonly #valuer: Valuer;
  readonly #lines: LineCounter;
  /** Where its paths begin. */
  readonly #from: Path;

  constructor(
    file: string,
    value: unknown,
    document: Document.Parsed,
    valuer: Valuer,
    lines: LineCounter,
    from: Path = [],
  ) {
    this.file = file;
    this.value = value;
    this.#document = document;
    this.#valuer = valuer;
    this.#lines = lines;
    this.#from = from;
  }

  /** A part of it as a document of its own, which knows its places in this file. */
  part(path: Path): YamlText {
    const value = path.reduce<unknown>(
      (within, step) => (within as Record<string | number, unknown>)[step],
      this.value,
    );
    const from = [...this.#from, ...path];
    return new YamlText(this.file, value, this.#document, this.#valuer, this.#lines, from);
  }

  /** Where a part stands: a field at its key, an item at its beginning. Of a part that is not there, where it would be. */
  positionOf(path: Path): Position {
    return this.#look(path).position;
  }

  /** Null for a part that is not there. */
  find(path: Path): Position | null {
    const { position, isWhole } = this.#look(path);
    return isWhole ? position : null;
  }

  /** As far as the path leads. */
  #look(below: Path): { readonly position: Position; readonly isWhole: boolean } {
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
    return { position: positionAt(this.#lines, offset), isWhole: found === path.length };
  }

  /** `job.yaml:3:5` */
  where(path: Path): string {
    return told(this.file, this.positionOf(path));
  }

  /** A mistake in what the file says. */
  error(path: Path, message: string): CliError {
    return usageError(`${this.where(path)}: ${message}`);
  }
}

/** `file` is for messages. */
export function readYaml(text: string, file: string): YamlText {
  return documentsIn(text, file, 1)[0] as YamlText;
}

/** Of one file; more than that is no file that somebody wrote. */
const MAX_DOCUMENTS = 1_000;

/** All documents of a text, separated by `---`. Those with nothing in them are left out, unless there is no other. */
export function readYamlDocuments(text: string, file: string): YamlText[] {
  const all = documentsIn(text, file, MAX_DOCUMENTS);
  const filled = all.filter(({ value }) => value !== null);
  return filled.length === 0 ? all.slice(0, 1) : filled;
}

function documentsIn(text: string, file: string, most: number): YamlText[] {
  if (text.length > YAML_LIMITS.bytes || Buffer.byteLength(text) > YAML_LIMITS.bytes) throw tooLong(file);
  const lines = linesOf(text);
  const found: YamlText[] = [];
  try {
    for (const document of composed(text)) {
      if (found.length === most) throw new Faulty(document.range[0], TOO_MANY(most));
      const valuer = new Valuer();
      found.push(new YamlText(file, valuer.valueOf(document.contents), document, valuer, lines));
    }
  } catch (error) {
    if (!(error instanceof Faulty)) throw error;
    throw usageError(`${told(file, positionAt(lines, error.offset))}: ${error.message}`);
  }
  if (found.length === 0) throw new Error("the parser gave no document");
  return found;
}

const TOO_MANY = (most: number) =>
  most === 1 ? "a second document; one file has one, remove the ---" : `more than ${most} documents; split the file`;

function* composed(text: string): Generator<Document.Parsed, void> {
  const composer = new (yaml().Composer)({
    ...{ schema: "core", version: "1.2", merge: false, resolveKnownTags: false, stringKeys: true },
    // Its own check compares each key with each; ours is in yaml-value.ts.
    uniqueKeys: false,
  });
  for (const document of composer.compose(yamlTokens(text), true, text.length)) {
    // A tag it does not know is a mere warning to the parser.
    const [wrong] = [...document.errors, ...document.warnings];
    if (wrong !== undefined) throw new Faulty(wrong.pos[0], inOurWords(wrong));
    yield document as Document.Parsed;
  }
}

/** Null if there is no such file. */
export function readYamlFile(path: string, file: string, check?: FileCheck): YamlText | null {
  const bytes = readSmallFile(path, file, YAML_LIMITS.bytes + 1, check);
  return bytes === null ? null : readYamlBytes(bytes, file);
}

/** Throws for an open file that must not be read. */
type FileCheck = (descriptor: number) => void;

/** No more than `limit` bytes of a file; null if there is none. */
export function readSmallFile(path: string, file: string, limit: number, check?: FileCheck): Buffer | null {
  try {
    return readBounded(path, limit, file, check);
  } catch (error) {
    if (error instanceof CliError) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    if (code === "EISDIR") throw usageError(`${file}: it is a directory; give a file`);
    throw new CliError(EXIT.usage, `${file}: cannot be read: ${message}`);
  }
}

export function readYamlBytes(bytes: Uint8Array, file: string): YamlText {
  return readYaml(textIn(bytes, file), file);
}

/** What was read of a file as its text. */
export function textIn(bytes: Uint8Array, file: string): string {
  if (bytes.length > YAML_LIMITS.bytes) throw tooLong(file);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw usageError(`${file}: it is not text in UTF-8; save it as UTF-8`);
  }
}

function tooLong(file: string): CliError {
  return usageError(
    `${file}: over ${YAML_LIMITS.bytes} bytes; split it, or put the data elsewhere and name its address`,
  );
}

function told(file: string, { line, column }: Position): string {
  return `${file}:${line}:${column}`;
}

function positionAt(lines: LineCounter, offset: number): Position {
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

/** What to do about the slips that people make most. */
const ADVICE: Readonly<Record<string, string>> = {
  TAB_AS_INDENT: "tabs do not indent in YAML; use spaces",
  BAD_INDENT: "the indentation does not fit; line it up with its neighbours",
  MISSING_CHAR: "something is missing here, often a colon, a comma, a bracket or a quote",
  BLOCK_AS_IMPLICIT_KEY: "a second colon in one line; put quotes around the value, or begin a new line",
  BAD_SCALAR_START: "a value cannot begin with this character; put quotes around it",
  KEY_OVER_1024_CHARS: "a key of more than 1024 characters; shorten it",
  NON_STRING_KEY: "a key that is no text; give a plain text as the key",
  RESOURCE_EXHAUSTION: TOO_DEEP,
};

function inOurWords({ code, message }: { code: string; message: string }): string {
  const short = message.replaceAll(/\s+/g, " ").slice(0, 200);
  if (code === "TAG_RESOLVE_FAILED") return `a tag that is not known (${short}); remove it`;
  return ADVICE[code] ?? `this is not YAML (${short}); mend it there`;
}
