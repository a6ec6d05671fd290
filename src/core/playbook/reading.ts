/** What a reader of a playbook collects: problems, the places of compiled parts, and code. A mistake never ends the reading; the
 *  part gets a fallback, and the playbook is not used. */
import { asObject, isPlain, nearest } from "../check.ts";
import { ConfigError, show } from "../errors.ts";
import type { PlaybookProblem, ProblemCode, SourcePath } from "./problem.ts";

export const MAX_PROBLEMS = 500;
/** Comparisons of letters for "did you mean": a fraction of a second. */
const NEAREST_WORK = 4_000_000;
const MAX_MESSAGE = 600;
const MAX_SHOWN_NAMES = 12;

export class DocumentReading {
  readonly sources = new Map<string, SourcePath>();
  readonly #problems: PlaybookProblem[] = [];
  readonly #seen = new Set<string>();
  #more = 0;
  #work = NEAREST_WORK;
  #hasErrors = false;

  get hasErrors(): boolean {
    return this.#hasErrors;
  }

  /** Further problems are counted only. */
  get isFull(): boolean {
    return this.#problems.length >= MAX_PROBLEMS;
  }

  has(code: ProblemCode): boolean {
    return this.#problems.some((problem) => problem.code === code);
  }

  /** In the order in which they were found. */
  get problems(): readonly PlaybookProblem[] {
    if (this.#more === 0) return this.#problems;
    const message = `${this.#more} more ${this.#more === 1 ? "problem" : "problems"}`;
    return [...this.#problems, { code: "too_large", severity: "error", path: [], offset: null, message }];
  }

  error(code: ProblemCode, path: SourcePath, message: string, offset: number | null = null): void {
    this.#hasErrors = true;
    this.add({ code, severity: "error", path, offset, message });
  }

  warn(code: ProblemCode, path: SourcePath, message: string, offset: number | null = null): void {
    this.add({ code, severity: "warning", path, offset, message });
  }

  /** The same problem at the same place is reported once: a tool of the workbook may be used by many steps. */
  add(problem: PlaybookProblem): void {
    if (problem.severity === "error") this.#hasErrors = true;
    if (this.isFull) {
      this.#more += 1;
      return;
    }
    const message = cutLine(problem.message);
    const key = JSON.stringify([problem.code, problem.path, problem.offset, message]);
    if (this.#seen.has(key)) return;
    this.#seen.add(key);
    this.#problems.push({ ...problem, message });
  }

  /** `; did you mean "process"?`, or nothing. Without a near name, a few known ones are listed with `list`. */
  hint(given: string, known: readonly string[], list = false): string {
    if (this.isFull) return "";
    const letters = known.reduce((sum, name) => sum + Math.min(name.length, 100), 0);
    this.#work -= letters * Math.min(given.length, 100);
    const near = this.#work > 0 && given.length <= 100 ? nearest(given, known) : null;
    if (near !== null) return `; did you mean "${near}"?`;
    if (!list || known.length === 0) return "";
    const shown = known.slice(0, MAX_SHOWN_NAMES).join(", ");
    return `; known: ${shown}${known.length > MAX_SHOWN_NAMES ? ", …" : ""}`;
  }

  /** The checked value; where `check` throws a `ConfigError`, its problem and the fallback. */
  check<T, F>(value: unknown, path: SourcePath, check: (value: unknown, path: string) => T, fallback: F): T | F {
    const field = String(path.at(-1) ?? "");
    try {
      return check(value, field);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      this.configError(error, path);
      return fallback;
    }
  }

  /** `path` is that of the checked value, whose last part names it in the error. */
  configError(error: ConfigError, path: SourcePath): void {
    const field = String(path.at(-1) ?? "");
    const below = partsOf((error.path ?? "").slice(field.length));
    const isUnknown = error.problem.startsWith("unknown field");
    const name = [field, ...below].filter((part) => typeof part === "string").at(-1) ?? field;
    const near = error.nearest === null ? "" : `; did you mean "${error.nearest}"?`;
    const unknown = near === "" ? error.problem : error.problem.split(";")[0];
    const message = isUnknown ? `${unknown}${near}` : `${name}: ${error.problem}${near}`;
    this.error(isUnknown ? "unknown_field" : "invalid_value", [...path, ...below], message);
  }

  /** Remembers where a compiled part comes from. */
  from(part: string, path: SourcePath): void {
    this.sources.set(part, path);
  }
}

/** Names of a document can be long, and have line breaks. */
function cutLine(text: string): string {
  const line = text.replace(/[\r\n\t]+/g, " ");
  return line.length > MAX_MESSAGE ? `${line.slice(0, MAX_MESSAGE - 3)}...` : line;
}

const PART = /^(?:\.([A-Za-z_$][\w$]*)|\[(\d{1,9})\]|\[("(?:[^"\\]|\\.)*")\])/;

/** The parts of a path as errors of checks have it: `.rules[2].if`, `["a b"]`. As far as it can be read. */
function partsOf(path: string): (string | number)[] {
  const parts: (string | number)[] = [];
  for (let rest = path; rest !== ""; ) {
    const match = PART.exec(rest);
    if (match === null) break;
    const [whole, name, index, quoted] = match;
    parts.push(name ?? (index === undefined ? unquoted(quoted as string) : Number(index)));
    rest = rest.slice(whole.length);
  }
  return parts;
}

function unquoted(text: string): string {
  try {
    return String(JSON.parse(text));
  } catch {
    return text; // cut, as a long name is
  }
}

/** Names that are refused with a sentence: what is not there yet, or is written otherwise. */
export type RefusedNames = Readonly<Record<string, string>>;

/** The same sentence for several names. */
export function forNames(names: readonly string[], sentence: string): Readonly<Record<string, string>> {
  return Object.fromEntries(names.map((name) => [name, sentence]));
}

/** An object of the document whose fields are read one by one. `end` reports the fields that nothing read. A field that is null
 *  counts as not given, as in `next:` without a value. */
export class ObjectReader {
  readonly path: SourcePath;
  readonly #reading: DocumentReading;
  readonly #fields: Readonly<Record<string, unknown>>;
  readonly #known: string[] = [];

  /** A value that is not an object is reported, and read as an empty one. `what` names it: `a step`. */
  constructor(reading: DocumentReading, value: unknown, path: SourcePath, what: string) {
    this.#reading = reading;
    this.path = path;
    const isObject = isPlain(value);
    if (!isObject) reading.error("invalid_value", path, `${what} must be an object; got ${show(value)}`);
    this.#fields = isObject ? asObject(value, "") : {};
  }

  at(name: string): SourcePath {
    return [...this.path, name];
  }

  /** Undefined where it is not given, or null. */
  value(name: string): unknown {
    this.#known.push(name);
    return this.#fields[name] ?? undefined;
  }

  /** Whether it is given; does not make it known. */
  has(name: string): boolean {
    return (this.#fields[name] ?? undefined) !== undefined;
  }

  get names(): readonly string[] {
    return Object.keys(this.#fields);
  }

  check<T, F>(name: string, check: (value: unknown, path: string) => T, fallback: F): T | F {
    const value = this.value(name);
    return value === undefined ? fallback : this.#reading.check(value, this.at(name), check, fallback);
  }

  /** Like `check`, of a field that must be given. */
  required<T, F>(name: string, check: (value: unknown, path: string) => T, fallback: F): T | F {
    return this.#reading.check(this.value(name), this.at(name), check, fallback);
  }

  /** Each entry of an object; undefined where it is not given or not an object. */
  object(name: string, most: number): Readonly<Record<string, unknown>> | undefined {
    const value = this.value(name);
    if (value === undefined) return undefined;
    if (!isPlain(value)) {
      this.#reading.error("invalid_value", this.at(name), `${name}: must be an object; got ${show(value)}`);
      return undefined;
    }
    const count = Object.keys(value).length;
    if (count <= most) return value as Readonly<Record<string, unknown>>;
    this.#reading.error("too_large", this.at(name), `${name}: has ${count} entries; at most ${most}`);
    return undefined;
  }

  /** Reports the fields that were not read. `of`: `an http step`. `elsewhere`: the ends of messages about some of
   *  them: `; write data`. */
  end(of: string, refused: RefusedNames = {}, elsewhere: Readonly<Record<string, string>> = {}): void {
    for (const name of Object.keys(this.#fields)) {
      if (this.#known.includes(name)) continue;
      const sentence = Object.hasOwn(refused, name) ? refused[name] : undefined;
      if (sentence !== undefined) {
        this.#reading.error("keyword_refused", this.at(name), `${name}: ${sentence}`);
        continue;
      }
      const hint = Object.hasOwn(elsewhere, name) ? elsewhere[name] : this.#reading.hint(name, this.#known, true);
      this.#reading.error("unknown_field", this.at(name), `unknown field ${show(name)} of ${of}${hint}`);
    }
  }
}
