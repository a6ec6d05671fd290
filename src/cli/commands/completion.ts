/** `perdure completion`: shell completion scripts for commands and options, generated from the tables that the help uses.
 *  They contain names of those tables only, never data of a user. */
import { nearest } from "../../core/check.ts";
import { show } from "../../core/errors.ts";
import { type CliCommand, type CommandOption, HELP } from "../command.ts";
import { KEYS } from "../config/settings.ts";
import { EXIT, missingArgument, valueError } from "../exit.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;
const USAGE = "perdure completion bash|zsh|fish";
export type Shell = (typeof SHELLS)[number];

/** The command. Its argument is the list of all commands, itself included. */
export const completionOf = (list: readonly { load(): Promise<CliCommand> }[]): CliCommand => ({
  name: "completion",
  summary: "Print a completion script for your shell",
  usage: USAGE,
  options: [],
  examples: [
    'eval "$(perdure completion bash)"',
    "perdure completion zsh > ~/.zfunc/_perdure",
    "perdure completion fish > ~/.config/fish/completions/perdure.fish",
  ],

  async run({ given, out }) {
    given.atMost(1);
    const [shell] = given.positionals;
    if (shell === undefined) throw missingArgument("shell", USAGE);
    const commands = await Promise.all(list.map(({ load }) => load()));
    out.block(completionScript(shellOf(shell), commands));
    return EXIT.done;
  },
});

/** Only a name with the same first letter is suggested: `tcsh` is another shell, and not a misspelt `bash`. */
function shellOf(given: string): Shell {
  const shell = SHELLS.find((each) => each === given);
  if (shell !== undefined) return shell;
  const near = nearest(
    given,
    SHELLS.filter((each) => each[0] === given[0]),
  );
  throw valueError("shell", given, `one of ${SHELLS.join(", ")}`, near === null ? "" : `. Did you mean ${show(near)}?`);
}

export function completionScript(shell: Shell, commands: readonly CliCommand[]): string {
  return { bash, zsh, fish }[shell](commands);
}

/** Completions for words that are not options; none: files. */
function wordsOf({ name }: CliCommand): readonly string[] {
  if (name === "completion") return SHELLS;
  if (name === "schema") return ["playbook"];
  if (name === "playbook") return ["push", "list", "show", "delete"];
  return name === "config" ? KEYS : [];
}

/** After its words. */
function takesFiles({ name }: CliCommand): boolean {
  return name === "playbook";
}

function optionsOf({ options }: CliCommand): readonly CommandOption[] {
  return [...options, HELP];
}

/** `--limit`, and `-n` if it has one. */
function formsOf({ name, short }: CommandOption): string[] {
  return short === undefined ? [`--${name}`] : [`--${name}`, `-${short}`];
}

function optionsWithValue(command: CliCommand): string[] {
  return optionsOf(command)
    .filter(({ type }) => type === "string")
    .flatMap(formsOf);
}

/** The first word is the command. Where a word is not an option, and after an option with a value, bash completes files; also
 *  after the first word of another program's command line. */
function bash(commands: readonly CliCommand[]): string {
  const names = [...commands.map(({ name }) => name), "help"].join(" ");
  const cases = commands.map((command) => {
    const words = wordsOf(command).join(" ");
    return `    ${command.name})
      options="${optionsOf(command)
        .map(({ name }) => `--${name}`)
        .join(" ")}"
      valued="${optionsWithValue(command).join(" ")}"
      words="${words}"
      ends="${command.endsAtFirstWord ? "yes" : ""}" ;;`;
  });
  return `# Completion of perdure for bash: eval "$(perdure completion bash)"
_perdure() {
  local current="\${COMP_WORDS[COMP_CWORD]}" options="" valued="" words="" ends="" i word
  COMPREPLY=()
  if [ "$COMP_CWORD" -le 1 ]; then
    COMPREPLY=($(compgen -W "${names} --help --version" -- "$current"))
    return
  fi
  case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
    help) words="${names}" ;;
  esac
  for ((i = 2; i < COMP_CWORD; i++)); do
    word="\${COMP_WORDS[i]}"
    [ "$word" = "--" ] && return
    if [[ " $valued " == *" $word "* ]]; then
      ((i++))
      [ "$i" -ge "$COMP_CWORD" ] && return
    elif [[ -n "$ends" && "$word" != -* ]]; then
      return
    fi
  done
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
  esac
}
complete -o default -o bashdefault -F _perdure perdure`;
}

function zsh(commands: readonly CliCommand[]): string {
  const listed = [...commands.map(({ name, summary }) => `${name}:${summary}`), "help:Show the help of a command"];
  const cases = commands.map((command) => {
    const specs = optionsOf(command).flatMap(zshOption);
    const words = wordsOf(command);
    if (words.length > 0) specs.push(quote(`1:word:(${words.join(" ")})`));
    if (words.length === 0 || takesFiles(command)) specs.push(quote("*:file:_files"));
    return `    ${command.name})\n      _arguments -s ${specs.join(" \\\n        ")} ;;`;
  });
  return `#compdef perdure
# Completion of perdure for zsh: perdure completion zsh > a directory of $fpath, as _perdure
_perdure() {
  local -a commands
  commands=(
${listed.map((each) => `    ${quote(each)}`).join("\n")}
  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  local name="\${words[2]}"
  shift words
  ((CURRENT--))
  case "$name" in
${cases.join("\n")}
    help) _describe command commands ;;
  esac
}
if [ "\${funcstack[1]}" = "_perdure" ]; then _perdure "$@"; else compdef _perdure perdure; fi`;
}

function zshOption(option: CommandOption): string[] {
  const help = option.help.replaceAll(/[\\[\]:]/g, (char) => `\\${char}`);
  const value = option.type === "string" ? `:${(option.value ?? "VALUE").toLowerCase()}:_files` : "";
  return formsOf(option).map((name) => quote(`${option.multiple ? "*" : ""}${name}[${help}]${value}`));
}

function fish(commands: readonly CliCommand[]): string {
  const line = (parts: readonly string[]) => ["complete -c perdure", ...parts].join(" ");
  const top = "-n __fish_use_subcommand -f";
  const lines = [...commands, { name: "help", summary: "Show the help of a command" }].map(({ name, summary }) =>
    line([top, "-a", name, "-d", fishQuote(summary)]),
  );
  for (const command of commands) {
    const inside = `-n ${fishQuote(`__fish_seen_subcommand_from ${command.name}`)}`;
    for (const option of optionsOf(command)) {
      const short = option.short === undefined ? [] : ["-s", option.short];
      const value = option.type === "string" ? ["-r"] : [];
      lines.push(line([inside, "-l", option.name, ...short, ...value, "-d", fishQuote(option.help)]));
    }
    const words = wordsOf(command);
    const noFiles = takesFiles(command) ? [] : ["-f"];
    if (words.length > 0) lines.push(line([inside, ...noFiles, "-a", fishQuote(words.join(" "))]));
  }
  return ["# Completion of perdure for fish", ...lines].join("\n");
}

/** For POSIX shells: no character inside single quotes is special. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Fish reads \\ and \' inside single quotes. */
function fishQuote(text: string): string {
  return `'${text.replaceAll(/[\\']/g, (char) => `\\${char}`)}'`;
}
