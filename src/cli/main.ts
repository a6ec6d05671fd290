#!/usr/bin/env node
/** The command line: finds the command, parses its arguments, runs it, and turns the result into an exit code and, for an
 *  error, one line on stderr. A stack is shown only for bugs of Perdure itself. */
import { realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type CliCommand, type ListedCommand, readArguments } from "./command.ts";
import { COMMANDS } from "./command-list.ts";
import { EXIT, exitCodeOf, usageError } from "./exit.ts";
import { commandNamed, helpOn, overview, shortHelp } from "./help.ts";
import { hideEnvironment } from "./hide-environment.ts";
import { type Io, processIo } from "./io.ts";
import { Printer } from "./output/print.ts";
import { safeText } from "./output/terminal-text.ts";
import { version } from "./version.ts";

/** Runs one command line; `argv` is without the program's name. Never throws. */
export async function main(
  argv: readonly string[],
  io: Io,
  commands: readonly (CliCommand | ListedCommand)[] = COMMANDS,
): Promise<number> {
  const out = new Printer(io);
  const [first] = argv;
  const name = commands.some((command) => command.name === first) ? `perdure ${first}` : "perdure";
  try {
    const code = await dispatch(argv, io, out, commands);
    await out.flush();
    return code;
  } catch (error) {
    // The reader has closed the output.
    if (out.gone.aborted) return EXIT.done;
    const code = exitCodeOf(error);
    if (code === EXIT.bug) {
      out.note(`${name}: this is a bug in Perdure; please report it with the lines below`);
      io.stderr.write(`${safeText(stackOf(error))}\n`);
    } else {
      const message = (error as Error).message.replace(/^open\.url:/, "--db:").replace(/\.$/, ""); // as the option is called
      // The problems of a playbook are one a line.
      const lines = (error as { code?: unknown }).code === "invalid_playbook" ? message.split("\n") : [message];
      for (const [i, line] of lines.entries()) out.note(i === 0 ? `${name}: ${line}` : line);
    }
    return code;
  }
}

async function dispatch(
  argv: readonly string[],
  io: Io,
  out: Printer,
  commands: readonly (CliCommand | ListedCommand)[],
): Promise<number> {
  const [first, ...rest] = argv;
  switch (first) {
    case undefined:
      io.stderr.write(`${shortHelp(commands)}\n`);
      return EXIT.usage;
    case "--version":
    case "-V":
      out.line(version());
      return EXIT.done;
    case "help":
    case "--help":
    case "-h": {
      const [about] = rest;
      out.block(about === undefined ? overview(commands) : await helpOn(await loaded(commandNamed(commands, about))));
      return EXIT.done;
    }
  }
  if (first.startsWith("-")) {
    throw usageError(`unknown option ${first}: options come after the command, as in \`perdure ps --json\``);
  }
  const command = await loaded(commandNamed(commands, first));
  const given = readArguments(command, rest);
  if (given !== null) return command.run({ io, out, given });
  out.block(await helpOn(command));
  return EXIT.done;
}

async function loaded(command: CliCommand | ListedCommand): Promise<CliCommand> {
  return "load" in command ? command.load() : command;
}

function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? String(error)) : String(error);
}

/** Whether this file was started as a program, perhaps by a link in `node_modules/.bin`, and not imported. */
function isProgram(): boolean {
  const [, script] = process.argv;
  try {
    return script !== undefined && realpathSync(script) === fileURLToPath(import.meta.url);
  } catch {
    return false;
  }
}

// Sets the exit code instead of exiting, so that pending output to a pipe is written.
if (isProgram()) {
  hideEnvironment();
  try {
    process.exitCode = await main(process.argv.slice(2), processIo());
  } catch (error) {
    process.stderr.write(`perdure: ${(error as Error).message}\n`);
    process.exitCode = exitCodeOf(error);
  }
}
