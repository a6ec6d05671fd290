/** Fills the command of a postgres step. A value never becomes part of the SQL, but a parameter: a bare template becomes `$n`, and a literal
 *  with templates becomes one `$n` with the filled text. Parameters have no types, so PostgreSQL infers them as for a literal. */
import type { EvaluationBudget } from "../expression/values.ts";
import {
  checkSize,
  expressionText,
  expressionValue,
  FillError,
  type FillOptions,
  parsedText,
  type TemplateScope,
  workForCommand,
} from "./fill.ts";
import { SQL_TEMPLATE, type SqlPieces, SqlRefusal, splitSql } from "./sql-statements.ts";
import { parseTemplate, type Template, type TemplateExpression } from "./template.ts";

export interface FilledStatement {
  readonly text: string;
  /** Texts, numbers, true, false and null, in the order of `$1`, `$2`. */
  readonly values: readonly unknown[];
}

/** A template, or a part of a command, that is refused. */
export class SqlPlaceError extends Error {
  /** In the command. */
  readonly offset: number;

  constructor(offset: number, message: string) {
    super(message);
    this.name = "SqlPlaceError";
    this.offset = offset;
  }
}

/** Throws a `SqlPlaceError`, and a `TemplateError`. */
export function checkSql(command: string): void {
  const statements = statementsOf(parseTemplate(command));
  if (statements.length === 0) throw new SqlPlaceError(0, "the command has no statement");
}

/** The statements with their parameters; lists and objects are JSON. Throws a `FillError`. */
export function fillSql(command: string, scope: TemplateScope, options: FillOptions): readonly FilledStatement[] {
  const work = workForCommand(command, options);
  const template = parsedText(command);
  const statements = statementsToFill(template);
  const filler = new SqlFiller(template, scope, work);
  return checkSize(statements.map((statement) => filler.fill(statement)));
}

class SqlFiller {
  readonly #source: string;
  readonly #expressions: readonly TemplateExpression[];
  readonly #scope: TemplateScope;
  readonly #work: EvaluationBudget;
  #next = 0;

  constructor(template: Template, scope: TemplateScope, work: EvaluationBudget) {
    this.#source = template.source;
    this.#expressions = expressionsOf(template);
    this.#scope = scope;
    this.#work = work;
  }

  fill({ pieces }: SqlPieces): FilledStatement {
    const values: unknown[] = [];
    const texts = pieces.map((piece) => {
      if (typeof piece === "string" && piece !== SQL_TEMPLATE) return piece;
      values.push(withoutNull(typeof piece === "string" ? this.#bare() : this.#literal(piece.literal)));
      return `$${values.length}`;
    });
    return { text: texts.join("").trim(), values };
  }

  #expression(): TemplateExpression {
    return this.#expressions[this.#next++] as TemplateExpression;
  }

  #bare(): unknown {
    const value = expressionValue(this.#expression(), this.#source, this.#scope, this.#work) ?? null;
    return typeof value === "object" && value !== null ? JSON.stringify(value) : value;
  }

  #literal(literal: string): string {
    const [first = "", ...rest] = literal.split(SQL_TEMPLATE);
    const filled = rest.map((text) => expressionText(this.#expression(), this.#source, this.#scope, this.#work) + text);
    return first + filled.join("");
  }
}

function withoutNull(value: unknown): unknown {
  if (typeof value !== "string" || !value.includes("\0")) return value;
  throw new FillError("template", "a text of PostgreSQL cannot have the character U+0000");
}

function statementsToFill(template: Template): readonly SqlPieces[] {
  try {
    return statementsOf(template);
  } catch (error) {
    if (!(error instanceof SqlPlaceError)) throw error;
    throw new FillError("template", `${error.message} (at character ${error.offset + 1})`);
  }
}

function statementsOf(template: Template): readonly SqlPieces[] {
  const raw = expressionsOf(template).find((expression) => expression.isRaw);
  if (raw !== undefined) throw new SqlPlaceError(raw.at, "raw is not allowed in SQL; write a statement for each case");
  const pieces = template.parts.map((part) =>
    typeof part === "string" ? part.replaceAll(SQL_TEMPLATE, "\ufffd") : SQL_TEMPLATE,
  );
  try {
    return splitSql(pieces.join(""));
  } catch (error) {
    if (!(error instanceof SqlRefusal)) throw error;
    throw new SqlPlaceError(positionOf(template, error.index), error.message);
  }
}

function expressionsOf({ parts }: Template): readonly TemplateExpression[] {
  return parts.filter((part) => typeof part !== "string");
}

/** The position in the source of one in the text in which each template is one character. */
function positionOf({ source, parts }: Template, index: number): number {
  let [at, left] = [0, index];
  for (const part of parts) {
    if (typeof part !== "string") {
      if (left === 0) return part.at;
      at = part.end;
      left -= 1;
    } else {
      // `-}}` removes spaces before a text.
      at = source.indexOf(part, at);
      if (left < part.length) return at + left;
      at += part.length;
      left -= part.length;
    }
  }
  return at;
}
