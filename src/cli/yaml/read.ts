/** Reads YAML or JSON that a person wrote, within limits: no custom tags, no merge keys, each key once. Errors are usage
 *  errors with file, line and column. The result is a plain value without prototypes that knows the position of each part,
 *  so that later checks can report it. */
import type { Alias, Document, LineCounter, Pair, Scalar, YAMLMap, YAMLSeq } from "yaml";
import { CliError, EXIT, usageError } from "../exit.ts";
import { readBounded } from "../input/read-file.ts";
import { TOO_DEEP, YAML_LIMITS, YamlFault, yaml, yamlTokens } from "./scan.ts";

/** Counted from 1. */
interface YamlPosition {
  readonly line: number;
  readonly column: number;
}

export type YamlPath = readonly (string | number)[];

export class YamlText {
  /** The name as it was given. */
  readonly file: string;
  readonly value: unknown;
  readonly #document: Document.Parsed;
  readonly #valuer: YamlValueReader;
  readonly #lines: LineCounter;
  /** The path of this part in the file. */
  readonly #from: YamlPath;

  constructor(
    file: string,
    value: unknown,
    document: Document.Parsed,
    valuer: YamlValueReader,
    lines: LineCounter,
    from: YamlPath = [],
  ) {
    this.file = file;
    this.value = value;
    this.#document = document;
    this.#valuer = valuer;
    this.#lines = lines;
    this.#from = from;
  }

  /** A part as a document of its own that keeps its positions in this file. */
  part(path: YamlPath): YamlText {
    const value = path.reduce<unknown>(
      (within, step) => (within as Record<string | number, unknown>)[step],
      this.value,
    );
    const from = [...this.#from, ...path];
    return new YamlText(this.file, value, this.#document, this.#valuer, this.#lines, from);
  }

  /** The position of a part: of a field its key, of an item its beginning. Of a missing part: where it would be. */
  positionOf(path: YamlPath): YamlPosition {
    return this.#locate(path).position;
  }

  /** Null if the part does not exist. */
  find(path: YamlPath): YamlPosition | null {
    const { position, isWhole } = this.#locate(path);
    return isWhole ? position : null;
  }

  /** Follows the path as far as it exists. */
  #locate(below: YamlPath): { readonly position: YamlPosition; readonly isWhole: boolean } {
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
  where(path: YamlPath): string {
    return positionText(this.file, this.positionOf(path));
  }

  /** An error at a position of the file. */
  error(path: YamlPath, message: string): CliError {
    return usageError(`${this.where(path)}: ${message}`);
  }
}

/** `file` is for messages. */
export function readYaml(text: string, file: string): YamlText {
  return documentsIn(text, file, 1)[0] as YamlText;
}

/** Documents in one file. */
const MAX_DOCUMENTS = 1_000;

/** All documents of a text, separated by `---`. Empty ones are left out, unless all are empty. */
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
      if (found.length === most) throw new YamlFault(document.range[0], TOO_MANY(most));
      const valuer = new YamlValueReader();
      found.push(new YamlText(file, valuer.valueOf(document.contents), document, valuer, lines));
    }
  } catch (error) {
    if (!(error instanceof YamlFault)) throw error;
    throw usageError(`${positionText(file, positionAt(lines, error.offset))}: ${error.message}`);
  }
  if (found.length === 0) throw new Error("the parser gave no document");
  return found;
}

const TOO_MANY = (most: number) =>
  most === 1 ? "a second document; one file has one, remove the ---" : `more than ${most} documents; split the file`;

function* composed(text: string): Generator<Document.Parsed, void> {
  const composer = new (yaml().Composer)({
    ...{ schema: "core", version: "1.2", merge: false, resolveKnownTags: false, stringKeys: true },
    // The library compares each key with each; our check is below.
    uniqueKeys: false,
  });
  for (const document of composer.compose(yamlTokens(text), true, text.length)) {
    // The parser only warns about unknown tags.
    const [wrong] = [...document.errors, ...document.warnings];
    if (wrong !== undefined) throw new YamlFault(wrong.pos[0], plainYamlError(wrong));
    yield document as Document.Parsed;
  }
}

/** Null if there is no such file. */
export function readYamlFile(path: string, file: string, check?: YamlFileCheck): YamlText | null {
  const bytes = readSmallFile(path, file, YAML_LIMITS.bytes + 1, check);
  return bytes === null ? null : readYamlBytes(bytes, file);
}

/** Throws if the open file must not be read. */
type YamlFileCheck = (descriptor: number) => void;

/** Reads at most `limit` bytes of a file; null if it does not exist. */
export function readSmallFile(path: string, file: string, limit: number, check?: YamlFileCheck): Buffer | null {
  try {
    return readBounded(path, limit, file, check);
  } catch (error) {
    if (error instanceof CliError) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    if (code === "EISDIR") throw usageError(`${file} is a directory; pass a file`);
    throw new CliError(EXIT.usage, `${file}: cannot be read: ${message}`);
  }
}

export function readYamlBytes(bytes: Uint8Array, file: string): YamlText {
  return readYaml(textIn(bytes, file), file);
}

/** The bytes of a file as text. */
export function textIn(bytes: Uint8Array, file: string): string {
  if (bytes.length > YAML_LIMITS.bytes) throw tooLong(file);
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw usageError(`${file} is not UTF-8 text; save it as UTF-8`);
  }
}

function tooLong(file: string): CliError {
  return usageError(
    `${file}: over ${YAML_LIMITS.bytes} bytes; split it, or store the data elsewhere and pass its address`,
  );
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

const NOT_A_TEXT_KEY = "a key must be text; use a plain text as the key";
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

// Converts the nodes of a YAML document to a plain value with only what JSON has. Objects have no prototype, so `__proto__`
// is a key like any other. Aliases are copied, and the size of the copies is limited: a few nested aliases could otherwise
// expand to a billion values.

/** Characters that aliases may add: a kilobyte each. */
const MAX_ADDED = 1_024 * YAML_LIMITS.aliases;
/** The cost of a value besides its text, in characters. */
const VALUE_COST = 16;

/** The offset of a node in the text. */
function startOf(node: unknown): number | null {
  const { range } = (node ?? {}) as { range?: readonly number[] | null };
  return range?.[0] ?? null;
}

class YamlValueReader {
  /** The node of each alias: the last anchor of its name before it. Also used to find positions. */
  readonly targets = new Map<Alias, unknown>();
  readonly #anchors = new Map<string, unknown>();
  /** The nodes being converted now. */
  readonly #open = new Set<unknown>();
  /** The outermost alias being converted now. */
  #alias: Alias | null = null;
  #added = 0;

  valueOf(node: unknown): unknown {
    if (node === null || node === undefined) return null;
    const { isAlias, isMap, isScalar, isSeq } = yaml();
    if (isAlias(node)) return this.#copied(node);
    this.#note(node);
    if (isScalar(node)) return this.#scalar(node);
    if (this.#open.size >= YAML_LIMITS.depth) throw faulty(node, TOO_DEEP);
    this.#open.add(node);
    const value = isMap(node) ? this.#object(node) : isSeq(node) ? this.#list(node) : refuse(node);
    this.#open.delete(node);
    return value;
  }

  #copied(alias: Alias): unknown {
    const target = this.targets.get(alias) ?? this.#anchors.get(alias.source);
    if (target === undefined) {
      throw faulty(alias, `*${alias.source} has no &${alias.source} before it; if it is text, add quotes`);
    }
    this.targets.set(alias, target);
    if (this.#open.has(target)) throw faulty(alias, `*${alias.source} contains itself; write the value out`);
    const outer = this.#alias;
    this.#alias ??= alias;
    const value = this.valueOf(target);
    this.#alias = outer;
    return value;
  }

  #object(map: YAMLMap): object {
    const object: Record<string, unknown> = Object.create(null);
    for (const pair of map.items) {
      const key = this.#key(pair);
      if (Object.hasOwn(object, key)) throw faulty(pair.key, `duplicate key ${quoted(key)}; keep one`);
      object[key] = this.valueOf(pair.value);
    }
    return object;
  }

  #key({ key }: Pair): string {
    if (!yaml().isScalar(key) || typeof key.value !== "string") {
      throw faulty(key, NOT_A_TEXT_KEY);
    }
    this.#note(key);
    if (key.value === "<<" && key.type === "PLAIN") {
      throw faulty(key, "merge keys (<<) are not read; write the keys out");
    }
    this.#count(key.value.length);
    return key.value;
  }

  #list(seq: YAMLSeq): unknown[] {
    return seq.items.map((item) => this.valueOf(item));
  }

  #scalar(scalar: Scalar): string | number | boolean | null {
    const { value, source = "" } = scalar;
    if (typeof value === "string") {
      this.#count(value.length);
      return value;
    }
    if (value === null || typeof value === "boolean") return value;
    if (typeof value !== "number") return refuse(scalar);
    if (!Number.isFinite(value)) throw faulty(scalar, `${quoted(source)} is not a JSON number`);
    if (Number.isInteger(value) && !Number.isSafeInteger(value) && !/[.eE]/.test(source)) {
      throw faulty(scalar, `${quoted(source)} is too large to be kept exactly; put it in quotes`);
    }
    return value;
  }

  /** Nodes inside an alias were recorded at its anchor. */
  #note(node: unknown): void {
    const { anchor } = node as { anchor?: string };
    if (this.#alias !== null) this.#count(VALUE_COST);
    else if (anchor !== undefined) this.#anchors.set(anchor, node);
  }

  #count(more: number): void {
    if (this.#alias === null) return;
    this.#added += more;
    if (this.#added <= MAX_ADDED) return;
    throw faulty(this.#alias, "aliases (*name) make too much of the file; write the values out");
  }
}

function faulty(node: unknown, message: string): YamlFault {
  return new YamlFault(startOf(node) ?? 0, message);
}

function refuse(node: unknown): never {
  throw faulty(node, "not a JSON value; use text, a number, true, false, null, a list or a map");
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 57)}...` : text);
}
