/** The help texts, generated from the tables of the commands, within 80 columns. */
import { nearest } from "../core/check.ts";
import { show } from "../core/errors.ts";
import { type CliCommand, type CommandOption, HELP } from "./command.ts";
import { usageError } from "./exit.ts";
import { referenceHelp } from "./jobs/job-reference.ts";

type NamedCommand = Pick<CliCommand, "name" | "summary">;

const WIDTH = 80;

export function overview(commands: readonly NamedCommand[]): string {
  return [
    "Perdure runs work until it has truly succeeded or truly failed, and records why.",
    "",
    "Usage: perdure COMMAND [OPTIONS]",
    "",
    "Commands:",
    ...rows(commands.map(({ name, summary }) => [name, summary])),
    "",
    "Run `perdure help COMMAND` for details, `perdure --version` for the version.",
    "",
    "Exit codes:",
    ...rows([
      ["0", "done"],
      ["1", "the job failed, was cancelled or does not exist"],
      ["2", "wrong options or configuration"],
      ["70", "a bug in Perdure itself"],
    ]),
  ].join("\n");
}

/** Printed when no command was given. */
export function shortHelp(commands: readonly NamedCommand[]): string {
  const names = commands.map(({ name }) => name).join(", ");
  return ["Usage: perdure COMMAND [OPTIONS]", ...wrapped(`Commands: ${names}. See \`perdure --help\`.`, 0)].join("\n");
}

export async function helpOn({ summary, usage, about, options, examples }: CliCommand): Promise<string> {
  const sections = [wrapped(summary, 0), [`Usage: ${usage}`]];
  if (about !== undefined) sections.push(wrapped(about, 0));
  if (/^perdure \w+ \[?ID\b/.test(usage)) sections.push(wrapped(await referenceHelp(), 0));
  sections.push(["Options:", ...rows([...options, HELP].map((option) => [optionSyntax(option), optionHelp(option)]))]);
  if (examples.length > 0) sections.push(["Examples:", ...examples.map((line) => `  ${line}`)]);
  return sections.map((lines) => lines.join("\n")).join("\n\n");
}

export function commandNamed<T extends NamedCommand>(commands: readonly T[], name: string): T {
  const found = commands.find((command) => command.name === name);
  if (found !== undefined) return found;
  const names = commands.map((command) => command.name);
  const near = nearest(name, [...names, "help"]);
  const hint = near === null ? `Commands: ${names.join(", ")}` : `Did you mean \`perdure ${near}\`?`;
  throw usageError(`unknown command ${show(name)}. ${hint}`);
}

function optionSyntax({ name, short, type, value = "VALUE" }: CommandOption): string {
  const long = type === "string" ? `--${name} ${value}` : `--${name}`;
  return short === undefined ? long : `-${short}, ${long}`;
}

function optionHelp({ help, multiple }: CommandOption): string {
  return multiple ? `${help} May be repeated.` : help;
}

/** Two columns; a left side that is too long has a line of its own. */
function rows(pairs: readonly (readonly [string, string])[]): string[] {
  const left = Math.min(24, Math.max(...pairs.map(([name]) => name.length))) + 4;
  return pairs.flatMap(([name, text]) => {
    const lines = wrapped(text, left);
    const start = `  ${name}`;
    if (start.length > left - 2) return [start, ...lines];
    return [start.padEnd(left) + (lines[0] as string).slice(left), ...lines.slice(1)];
  });
}

/** Broken into lines at spaces and at newlines; each line is indented by `indent` spaces. */
function wrapped(text: string, indent: number): string[] {
  return text.split("\n").flatMap((paragraph) => wrappedParagraph(paragraph, indent));
}

function wrappedParagraph(text: string, indent: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && indent + line.length + 1 + word.length > WIDTH) {
      lines.push(line);
      line = "";
    }
    line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line].map((each) => " ".repeat(indent) + each);
}
