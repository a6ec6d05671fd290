/** Words of a command line, read by a command's table of options. Nothing is ignored: an unknown option, a missing
 *  value and an argument too many are errors that say what was meant, as far as it can be guessed. */
import { parseArgs } from "node:util";
import { nearest } from "../core/check.ts";
import { show } from "../core/errors.ts";
import { type Command, HELP, type Option } from "./command.ts";
import { usageError } from "./exit.ts";
import { asReference } from "./job-reference.ts";

/** What was given. Options are asked for by their names in the command's table. */
export class Given {
  /** What is no option, and everything after `--`. */
  readonly positionals: readonly string[];
  /** Of these, what stood after `--`; null if there was none. */
  readonly afterDashes: readonly string[] | null;
  readonly #command: Command;
  readonly #values: ReadonlyMap<string, readonly string[]>;

  constructor(
    command: Command,
    positionals: readonly string[],
    values: ReadonlyMap<string, readonly string[]>,
    afterDashes: readonly string[] | null = null,
  ) {
    this.#command = command;
    this.positionals = positionals;
    this.afterDashes = afterDashes;
    this.#values = values;
  }

  flag(name: string): boolean {
    return this.#of(name).length > 0;
  }

  text(name: string): string | undefined {
    return this.#of(name)[0];
  }

  texts(name: string): readonly string[] {
    return this.#of(name);
  }

  /** A whole number within bounds, both inclusive. */
  integer(name: string, { min, max }: { min: number; max: number }): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw usageError(`--${name}: got ${show(text)}; give a whole number from ${min} to ${max}`);
  }

  /** The one argument of a command about one job; it may be short (`fullId`). */
  jobId(): string {
    const id = this.optionalJobId();
    if (id === undefined) throw usageError(`which job? Usage: ${this.#command.usage}`);
    return id;
  }

  optionalJobId(): string | undefined {
    this.atMost(1);
    const [id] = this.positionals;
    return id === undefined ? id : asReference(id);
  }

  atMost(count: number): void {
    const extra = this.positionals[count];
    if (extra === undefined) return;
    throw usageError(`unexpected argument ${show(extra)}. Usage: ${this.#command.usage}`);
  }

  #of(name: string): readonly string[] {
    if (!this.#command.options.some((option) => option.name === name)) {
      throw new Error(`the command ${this.#command.name} has no option ${name} in its table`);
    }
    return this.#values.get(name) ?? [];
  }
}

/** Null when help is asked for, whatever else is right or wrong. */
export function readArguments(command: Command, args: readonly string[]): Given | null {
  const known = [...command.options, HELP];
  const options = Object.fromEntries(
    known.map(({ name, short, type }) => [name, { type, multiple: true, ...(short === undefined ? {} : { short }) }]),
  );
  // Not strict: its own errors have several lines, and no nearest name.
  const { tokens: found } = parseArgs({
    args: [...args],
    options,
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const first = command.endsAtFirstWord ? found.find((token) => token.kind === "positional") : undefined;
  const tokens = first === undefined ? found : found.filter((token) => token.index < first.index);
  if (tokens.some((token) => token.kind === "option" && token.name === HELP.name)) return null;
  const positionals: string[] = [];
  const values = new Map<string, string[]>();
  for (const token of tokens) {
    if (token.kind === "positional") positionals.push(token.value);
    if (token.kind !== "option") continue;
    const option = known.find(({ name }) => name === token.name);
    if (option === undefined) throw unknownOption(command, known, token.rawName);
    const list = values.get(option.name) ?? [];
    if (list.length > 0 && option.type === "string" && !option.multiple) {
      throw usageError(`${token.rawName}: given twice; give it once`);
    }
    values.set(option.name, [...list, valueFrom(option, token)]);
  }
  const dashes = tokens.find((token) => token.kind === "option-terminator");
  const after = dashes === undefined ? null : args.slice(dashes.index + 1);
  return new Given(command, first === undefined ? positionals : args.slice(first.index), values, after);
}

interface OptionToken {
  readonly rawName: string;
  readonly value: string | undefined;
  readonly inlineValue: boolean | undefined;
}

function valueFrom(option: Option, { rawName, value, inlineValue }: OptionToken): string {
  if (option.type === "boolean") {
    if (value === undefined) return "";
    throw usageError(`${rawName}: got ${show(value)}; it takes no value`);
  }
  // `--queue --json` is a value forgotten more often than a queue of that name.
  const forgotten = value === undefined || (inlineValue !== true && /^-./.test(value));
  if (!forgotten) return value;
  const placeholder = option.value ?? "VALUE";
  const dashed = value === undefined ? "" : `; one that begins with a dash is written --${option.name}=${value}`;
  throw usageError(`${rawName}: the value is missing; write --${option.name} ${placeholder}${dashed}`);
}

function unknownOption(command: Command, known: readonly Option[], given: string): Error {
  const names = known.map(({ name }) => `--${name}`);
  const near = given.startsWith("--") ? nearest(given, names) : null;
  const hint = near === null ? "" : ` Did you mean ${near}?`;
  return usageError(`unknown option ${given}.${hint} See \`perdure ${command.name} --help\``);
}
