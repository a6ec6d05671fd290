/** The interface of a command, and how its arguments are parsed by its table of options. Nothing is ignored: an unknown
 *  option, a missing value and an extra argument are errors that suggest what was probably meant. */
import { parseArgs } from "node:util";
import { nearest } from "../core/check.ts";
import { show } from "../core/errors.ts";
import { missingArgument, usageError, valueError } from "./exit.ts";
import type { Io } from "./io.ts";
import { asReference } from "./jobs/job-reference.ts";
import type { Printer } from "./output/print.ts";

export interface CommandOption {
  /** Without its dashes: `limit`. */
  readonly name: string;
  /** One letter: `n` for `-n`. */
  readonly short?: string;
  readonly type: "string" | "boolean";
  /** May be given more than once. */
  readonly multiple?: boolean;
  /** The placeholder for the value in the help: `N`. */
  readonly value?: string;
  readonly help: string;
}

export interface CliCommand {
  readonly name: string;
  /** A few words, for the list of commands. */
  readonly summary: string;
  /** As in `perdure get ID [OPTIONS]`. */
  readonly usage: string;
  /** The first word that is not an option, and everything after it, is another program's command line. */
  readonly endsAtFirstWord?: boolean;
  /** For its help: what the options do not explain. */
  readonly about?: string;
  /** All but `--help`, which every command has. */
  readonly options: readonly CommandOption[];
  readonly examples: readonly string[];
  /** Returns the exit code. `main` prints what it throws: a `CliError` or an error of the library as one line. */
  run(context: CommandContext): Promise<number>;
}

/** A command that is loaded on demand: loading all of them takes longer than most of them run. */
export interface ListedCommand extends Pick<CliCommand, "name" | "summary"> {
  load(): Promise<CliCommand>;
}

export interface CommandContext {
  readonly io: Io;
  readonly out: Printer;
  readonly given: Arguments;
}

export const HELP: CommandOption = { name: "help", short: "h", type: "boolean", help: "Show this text." };

/** For processes that print where they run before they start to work. */
export const JSON_START: CommandOption = {
  ...{ name: "json", type: "boolean", help: "Print the startup information as one JSON object." },
};

/** The options that all reading commands share. */
export const READING: readonly CommandOption[] = [
  { name: "json", type: "boolean", help: "Print one JSON document, and nothing else, to stdout." },
  { name: "verbose", short: "v", type: "boolean", help: "Print warnings of the engine on stderr." },
];

/** The parsed arguments. Options are read by their names in the command's table. */
export class Arguments {
  /** What is not an option, and everything after `--`. */
  readonly positionals: readonly string[];
  /** Of these, what follows `--`; null without `--`. */
  readonly afterDashes: readonly string[] | null;
  readonly #command: CliCommand;
  readonly #values: ReadonlyMap<string, readonly string[]>;

  constructor(
    command: CliCommand,
    positionals: readonly string[],
    values: ReadonlyMap<string, readonly string[]>,
    afterDashes: readonly string[] | null = null,
  ) {
    this.#command = command;
    this.positionals = positionals;
    this.afterDashes = afterDashes;
    this.#values = values;
  }

  /** `perdure get`, which begins every message of the command. */
  get program(): string {
    return `perdure ${this.#command.name}`;
  }

  /** Whether the command has this option, for code that several commands share. */
  offers(name: string): boolean {
    return this.#command.options.some((option) => option.name === name);
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
    throw valueError(`--${name}`, text, `a whole number from ${min} to ${max}`);
  }

  /** The one argument of a command about one job; it may be short (`fullId`). */
  jobId(): string {
    const id = this.optionalJobId();
    if (id === undefined) throw missingArgument("ID", this.#command.usage);
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
    if (!this.offers(name)) {
      throw new Error(`the command ${this.#command.name} has no option ${name} in its table`);
    }
    return this.#values.get(name) ?? [];
  }
}

/** Null when help is requested, whatever else is right or wrong. */
export function readArguments(command: CliCommand, args: readonly string[]): Arguments | null {
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
      throw usageError(`${token.rawName} can be used only once`);
    }
    values.set(option.name, [...list, valueFrom(option, token)]);
  }
  const dashes = tokens.find((token) => token.kind === "option-terminator");
  const after = dashes === undefined ? null : args.slice(dashes.index + 1);
  return new Arguments(command, first === undefined ? positionals : args.slice(first.index), values, after);
}

interface OptionToken {
  readonly rawName: string;
  readonly value: string | undefined;
  readonly inlineValue: boolean | undefined;
}

function valueFrom(option: CommandOption, { rawName, value, inlineValue }: OptionToken): string {
  if (option.type === "boolean") {
    if (value === undefined) return "";
    throw usageError(`${rawName} takes no value; got ${show(value)}`);
  }
  // `--queue --json` is a value forgotten more often than a queue of that name.
  const forgotten = value === undefined || (inlineValue !== true && /^-./.test(value));
  if (!forgotten) return value;
  const placeholder = option.value ?? "VALUE";
  const dashed = value === undefined ? "" : `; for a value that begins with a dash, write --${option.name}=${value}`;
  throw usageError(`${rawName} requires a value: --${option.name} ${placeholder}${dashed}`);
}

function unknownOption(command: CliCommand, known: readonly CommandOption[], given: string): Error {
  const names = known.map(({ name }) => `--${name}`);
  const near = given.startsWith("--") ? nearest(given, names) : null;
  const hint = near === null ? "" : ` Did you mean ${near}?`;
  return usageError(`unknown option ${given}.${hint} See \`perdure ${command.name} --help\``);
}
