/** What is collected while a NoETL playbook is translated: problems with their places, notes, the code of Python steps, and where
 *  each part of the compiled playbook comes from. Nothing is thrown for bad content, so that all problems are reported at once. */
import { isPlain, nearest } from "../../../core/check.ts";
import { ConfigError, show } from "../../../core/errors.ts";
import type { Playbook } from "../../../core/playbook/playbook.ts";
import type { PlaybookProblem, ProblemCode, SourceMap, SourcePath } from "../../../core/playbook/problem.ts";

export type Raw = Readonly<Record<string, unknown>>;

/** What a reader of playbooks is given. */
export interface DraftContext {
  readonly sha256: (text: string) => string;
  /** Task kinds by the name of a tool (setting `playbooks.tools`). */
  readonly tools: Readonly<Record<string, string>>;
}

const MAX_PROBLEMS = 500;
const MAX_MESSAGE = 1_000;

export class Draft {
  readonly context: DraftContext;
  /** The whole document, to find where a field stands. */
  document: unknown = null;
  readonly problems: PlaybookProblem[] = [];
  readonly notes: string[] = [];
  readonly assets = new Map<string, string>();
  readonly sources = new Map<string, SourcePath>();
  /** Aliases beside those that every playbook has: iterators and results of queries. */
  readonly aliases: Record<string, string> = Object.create(null) as Record<string, string>;

  /** The names of the tools in steps with several. */
  readonly pipelines = new Map<string, readonly string[]>();
  /** Where the parts of those playbooks within steps come from. */
  readonly inner = new Map<Playbook, SourceMap>();

  constructor(context: DraftContext) {
    this.context = context;
  }

  problem(code: ProblemCode, path: SourcePath, message: string, severity: "error" | "warning" = "error"): void {
    if (this.problems.length >= MAX_PROBLEMS) return;
    // One line, also where it has a name of the document.
    const line = message.replace(/\s*\n\s*/g, " ");
    const shown = line.length > MAX_MESSAGE ? `${line.slice(0, MAX_MESSAGE - 1)}…` : line;
    this.problems.push({ code, severity, path, offset: null, message: shown });
  }

  invalid(path: SourcePath, given: unknown, allowed: string): void {
    this.problem("invalid_value", path, `must be ${allowed}; got ${show(given)}`);
  }

  /** A note, once. */
  note(text: string): void {
    if (!this.notes.includes(text) && this.notes.length < MAX_PROBLEMS) this.notes.push(text);
  }

  asset(code: string): string {
    const hash = this.context.sha256(code);
    this.assets.set(hash, code);
    return hash;
  }

  /** An object, or null with a problem. */
  object(value: unknown, path: SourcePath, what = "an object"): Raw | null {
    if (isPlain(value)) return Object.assign(Object.create(null), value) as Raw;
    this.invalid(path, value, what);
    return null;
  }

  list(value: unknown, path: SourcePath, max: number): readonly unknown[] {
    if (Array.isArray(value) && value.length <= max) return Array.from(value as readonly unknown[]);
    if (Array.isArray(value)) this.problem("too_large", path, `has ${value.length} items; at most ${max} are allowed`);
    else this.invalid(path, value, "a list");
    return [];
  }

  text(value: unknown, path: SourcePath, max: number): string | null {
    if (typeof value === "string" && value.trim() !== "" && value.length <= max && !value.includes("\0")) return value;
    if (typeof value === "string" && value.length > max) {
      this.problem("too_large", path, `has ${value.length} characters; at most ${max} are allowed`);
    } else this.invalid(path, value, "text, not only spaces, without NUL");
    return null;
  }

  number(value: unknown, path: SourcePath, min: number, max: number): number | null {
    if (typeof value === "number" && Number.isFinite(value) && value >= min && value <= max) return value;
    this.invalid(path, value, `a number from ${min} to ${max}`);
    return null;
  }

  whole(value: unknown, path: SourcePath, min: number, max: number): number | null {
    if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max) return value as number;
    this.invalid(path, value, `a whole number from ${min} to ${max}`);
    return null;
  }

  /** Refuses fields that are not known. `refused`: those with a reason of their own. */
  known(
    fields: Raw,
    path: SourcePath,
    known: readonly string[],
    refused: Readonly<Record<string, Refusal>> = {},
  ): void {
    for (const key of Object.keys(fields)) {
      if (known.includes(key) || fields[key] === undefined) continue;
      const refusal = Object.hasOwn(refused, key) ? refused[key] : undefined;
      if (refusal !== undefined) {
        this.problem(refusal[0], [...path, key], refusal[1]);
        continue;
      }
      const near = nearest(key, known);
      const hint = near === null ? `known fields: ${known.join(", ")}` : `did you mean "${near}"?`;
      this.problem("unknown_field", [...path, key], `unknown field ${show(key)}; ${hint}`);
    }
  }

  /** The one field that is given of several spellings; a second one is a problem. */
  one(
    fields: Raw,
    path: SourcePath,
    names: readonly string[],
  ): { readonly name: string; readonly value: unknown } | null {
    const given = names.filter((name) => fields[name] !== undefined && fields[name] !== null);
    const [first, second] = given;
    if (first === undefined) return null;
    if (second !== undefined) {
      this.problem("invalid_value", [...path, second], `${first} and ${second} mean the same; remove one of them`);
    }
    return { name: first, value: fields[first] };
  }

  /** Runs a check that throws, and turns its error into a problem. `path` is the place of the value that is checked. */
  checked<T>(path: SourcePath, check: () => T): T | null {
    try {
      return check();
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      const hint = error.nearest === null ? "" : `; did you mean "${error.nearest}"?`;
      this.problem("invalid_value", path, `${error.problem}${hint}`);
      return null;
    }
  }
}

export type Refusal = readonly [code: ProblemCode, message: string];

/** `sources` gets the place of a part of the compiled playbook. */
export function from(draft: Draft, key: string, path: SourcePath): void {
  draft.sources.set(key, path);
}
