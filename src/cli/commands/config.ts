/** `perdure config`: the settings in force, and where each of them came from. Secrets are never shown. */
import { nearest } from "../../core/check.ts";
import { show } from "../../core/errors.ts";
import { type Piece, painted } from "../colour.ts";
import type { Command, Context } from "../command.ts";
import { type Config, loadConfig } from "../config/config.ts";
import { optionsFor } from "../config/options.ts";
import { isKnownVariable, KEYS, type Key, settingOf, VARIABLES } from "../config/settings.ts";
import { shownValue } from "../config/show-value.ts";
import { EXIT, usageError } from "../exit.ts";

export const config: Command = {
  name: "config",
  summary: "Show the settings in force, and where they came from",
  usage: "perdure config [KEY|GROUP] [OPTIONS]",
  about:
    "An option wins over the environment, the environment over the file, the file over the default. The file is perdure.yaml, " +
    "perdure.yml or perdure.json in the working directory, or the one that --config or PERDURE_CONFIG names. Options of " +
    "other commands are taken here too, to show what they would do.",
  options: [
    { name: "json", type: "boolean", help: "Print one JSON document, and nothing else, to stdout." },
    ...optionsFor(KEYS),
  ],
  examples: [
    "perdure config",
    "perdure config server.port",
    "perdure config agent.retry",
    "PERDURE_PORT=8080 perdure config --json",
  ],

  async run({ given, io, out }) {
    given.atMost(1);
    const [name] = given.positionals;
    const key = keyOf(name);
    const keys = name === undefined ? KEYS : groupOf(name);
    const loaded = loadConfig({ given, io });
    for (const warning of unknownVariables(io.env)) out.note(`perdure config: ${warning}`);
    if (key !== null) return showOne(key, loaded, { given, io, out });
    if (given.flag("json")) out.json(keys.map((each) => fact(each, loaded)));
    else
      out.table(
        COLUMNS,
        keys.map((each) => row(each, loaded)),
      );
    return EXIT.done;
  },
};

/** `server` has `server.port` and others. */
function groupOf(name: string): readonly Key[] {
  return KEYS.filter((key) => key.startsWith(`${name}.`));
}

/** `agent.retry.legionary.maxAttempts` is in the groups `agent`, `agent.retry` and `agent.retry.legionary`. */
function groups(): string[] {
  const words = KEYS.map((key) => key.split("."));
  return [...new Set(words.flatMap((parts) => parts.slice(1).map((_, i) => parts.slice(0, i + 1).join("."))))];
}

/** Null for all of them, or for a group. */
function keyOf(given: string | undefined): Key | null {
  if (given === undefined || groupOf(given).length > 0) return null;
  const found = KEYS.find((key) => key === given);
  if (found !== undefined) return found;
  const near = nearest(given, [...groups(), ...KEYS]);
  const hint = near === null ? "`perdure config` lists them all" : `did you mean ${near}?`;
  throw usageError(`there is no setting ${show(given)}; ${hint}`);
}

function showOne(key: Key, loaded: Config, { given, out }: Context): number {
  const { value } = fact(key, loaded);
  if (given.flag("json")) out.json(fact(key, loaded));
  else if (value !== null) out.line(textOf(value));
  if (value !== null) return EXIT.done;
  out.note(`perdure config: ${key} is not set`);
  return EXIT.failed;
}

function fact(key: Key, loaded: Config) {
  return { key, value: shownValue(settingOf(key), loaded.value(key)), source: loaded.sourceOf(key) };
}

const COLUMNS = [{ head: "KEY" }, { head: "VALUE", flexible: true }, { head: "SOURCE" }] as const;

function row(key: Key, loaded: Config): Piece[] {
  const { value, source } = fact(key, loaded);
  const shown = value === null ? painted("dim", "-") : textOf(value);
  return [key, shown, loaded.isSet(key) ? source : painted("dim", source)];
}

/** A list in the form in which an option takes it. */
function textOf(value: NonNullable<ReturnType<typeof shownValue>>): string {
  return typeof value === "object" ? value.join(",") : String(value);
}

/** Other programs may have variables of such names, so they are no mistake. */
export function unknownVariables(env: Context["io"]["env"]): string[] {
  const names = Object.keys(env).filter((name) => name.startsWith("PERDURE_") && !isKnownVariable(name));
  return names.sort().map((name) => {
    const near = nearest(name, [...VARIABLES, "PERDURE_CONFIG"]);
    return `${name} is no setting, and ignored${near === null ? "" : `; did you mean ${near}?`}`;
  });
}
