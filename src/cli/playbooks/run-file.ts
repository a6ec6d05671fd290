/** `perdure run -f`: the playbook of a file, instead of a command. */
import type { CommandContext, CommandOption } from "../command.ts";
import { conflictError, requirementError, usageError } from "../exit.ts";
import type { Target } from "../target/target.ts";
import { definitionOf, givenPlaybook } from "./given-playbooks.ts";
import { checkedInput, givenInput, RUN_INPUT, RUN_OPTIONS, runOptionsOf } from "./run-options.ts";
import { runPlaybook } from "./run-playbook.ts";

/** Beside the options that commands have too. */
export const FILE_OPTIONS: readonly CommandOption[] = [
  {
    ...{ name: "file", short: "f", type: "string", value: "FILE" },
    help: "A playbook to run instead of a command, YAML or JSON; - reads standard input.",
  },
  ...RUN_INPUT.map((option) => ({ ...option, help: `With --file: ${lowered(option.help)}` })),
  ...RUN_OPTIONS.filter(({ name }) => name === "tag").map((option) => ({
    ...option,
    help: `With --file: ${lowered(option.help)}`,
  })),
];

function lowered(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

const FOR_BOTH = ["name", "key", "queue", "timeout", "tag"];

/** `commandOnly`: options that have no meaning for a playbook. */
export function checkFileOptions({ given }: CommandContext, commandOnly: readonly string[]): void {
  if (!given.flag("file")) {
    const extra = FILE_OPTIONS.find(({ name }) => given.flag(name));
    if (extra !== undefined) throw requirementError(`--${extra.name}`, "--file");
    return;
  }
  if (given.positionals.length > 0) throw conflictError("--file", "a command");
  const other = commandOnly.find((name) => given.flag(name));
  if (other !== undefined) throw conflictError("--file", `--${other}`, "steps have their own options");
}

export async function runFile(context: CommandContext, target: Target): Promise<number> {
  const { given } = context;
  const options = runOptionsOf(given, FOR_BOTH);
  const name = given.text("file") as string;
  if (name === "-" && given.text("input-file") === "-") {
    throw usageError("--file and --input-file: standard input can be read only once");
  }
  const input = await givenInput(context);
  const playbook = await givenPlaybook(context, target, name);
  const read = playbook.readings[0]?.playbook;
  if (read != null) checkedInput(given, input, read.inputs);
  return runPlaybook(context, target, {
    find: (perdure) => definitionOf(perdure, playbook),
    input,
    options,
  });
}
