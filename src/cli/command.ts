/** What a command of the command line is. One file in `commands/` exports one, and `main.ts` lists them. */
import type { Given } from "./arguments.ts";
import type { Io } from "./io.ts";
import type { Printer } from "./print.ts";

export interface Option {
  /** Without its dashes: `limit`. */
  readonly name: string;
  /** One letter: `n` for `-n`. */
  readonly short?: string;
  readonly type: "string" | "boolean";
  /** May be given more than once. */
  readonly multiple?: boolean;
  /** Stands for the value in the help: `N`. */
  readonly value?: string;
  readonly help: string;
}

export interface Command {
  readonly name: string;
  /** A few words, for the list of commands. */
  readonly summary: string;
  /** As in `perdure get ID [OPTIONS]`. */
  readonly usage: string;
  /** The first word that is no option, and all after it, are somebody else's command line. */
  readonly endsAtFirstWord?: boolean;
  /** What the options do not say, for its own help. */
  readonly about?: string;
  /** All but `--help`, which every command has. */
  readonly options: readonly Option[];
  readonly examples: readonly string[];
  /** The answer is the exit code. What it throws is told by `main`: a `CliError` or an error of the library as one line. */
  run(context: Context): Promise<number>;
}

/** A command that is loaded when it is wanted: a command line needs one of them, and loading all takes longer than most take. */
export interface Listed extends Pick<Command, "name" | "summary"> {
  load(): Promise<Command>;
}

export interface Context {
  readonly io: Io;
  readonly out: Printer;
  readonly given: Given;
}

export const HELP: Option = { name: "help", short: "h", type: "boolean", help: "Show this text." };

/** The options that all reading commands share. */
export const READING: readonly Option[] = [
  { name: "json", type: "boolean", help: "Print one JSON document, and nothing else, to stdout." },
  { name: "verbose", short: "v", type: "boolean", help: "Show warnings of the engine on stderr." },
];
