/** `perdure config`: the settings in force and their sources. Secrets are never shown. */
import type { PerdureClient } from "../../client/client.ts";
import { nearest } from "../../core/check.ts";
import { show } from "../../core/errors.ts";
import type { ServerSettings, SettingFact } from "../../core/job/views.ts";
import type { CliCommand, CommandContext } from "../command.ts";
import { type Config, factOf, loadConfig, optionsFor } from "../config/config.ts";
import { isKnownVariable, KEYS, type SettingKey, VARIABLES } from "../config/settings.ts";
import { EXIT, usageError } from "../exit.ts";
import { painted, type TextPiece } from "../output/terminal-text.ts";
import { dataAt } from "../target/data-directory.ts";
import { liveAddress, targetOf, withServer } from "../target/target.ts";

export const config: CliCommand = {
  name: "config",
  summary: "Show the settings in force and their sources",
  usage: "perdure config [KEY|GROUP] [OPTIONS]",
  about:
    "Precedence: option, environment, settings file, default. The file is perdure.yaml, perdure.yml or perdure.json in the " +
    "working directory, or the one that --config or PERDURE_CONFIG names. Options of other commands can be passed to see " +
    "their effect. If a server is running on the data, or is named, its own settings are shown where they apply, which " +
    "requires an admin token; PROCESS shows which those are.",
  options: [
    { name: "json", type: "boolean", help: "Print one JSON document, and nothing else, to stdout." },
    { name: "local", type: "boolean", help: "Use no server: show the settings of a process started here." },
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
    const theirs = given.flag("local") ? null : await serverSettings({ given, io, out }, loaded);
    const facts = new ShownSettings(loaded, theirs);
    const shown = (key === null ? keys : [key]).map((each) => facts.of(each));
    if (theirs !== null && !given.flag("json") && shown.some(({ process }) => process === "server")) {
      const { host, pid, url } = theirs;
      out.note(
        `PROCESS server is pid ${pid} on ${host}, at ${new URL(url).origin}; --local shows only the settings here`,
      );
    }
    if (key !== null) return showOne(facts.of(key), { given, io, out });
    if (given.flag("json")) out.json(shown);
    else if (theirs === null) out.table(COLUMNS, shown.map(row));
    else {
      out.table(
        [...COLUMNS, { head: "PROCESS" }],
        shown.map((fact) => [...row(fact), fact.process === "here" ? painted("dim", fact.process) : fact.process]),
      );
    }
    return EXIT.done;
  },
};

interface ShownSettingFact extends SettingFact {
  readonly process: "server" | "here";
}

/** A setting of the server has precedence, unless an option here sets it. */
class ShownSettings {
  readonly #own: Config;
  readonly #theirs: ReadonlyMap<string, SettingFact>;

  constructor(own: Config, theirs: ServerSettings | null) {
    this.#own = own;
    this.#theirs = new Map(theirs?.settings.map((fact) => [fact.key, fact]));
  }

  of(key: SettingKey): ShownSettingFact {
    const own = factOf(this.#own, key);
    const theirs = this.#theirs.get(key);
    if (theirs === undefined || own.source.startsWith("--")) return { ...own, process: "here" };
    return { ...theirs, process: "server" };
  }
}

/** Null without a server. One that does not answer is an error only if --server names it. */
async function serverSettings(
  context: CommandContext,
  config: Config,
): Promise<(ServerSettings & { readonly url: string }) | null> {
  const { io, out } = context;
  const isByOption = (key: SettingKey) => config.sourceOf(key).startsWith("--");
  if (isByOption("db")) return null;
  const dir = dataAt(config.text("data"), config.sourceOf("data"), io.cwd);
  if (!config.isSet("url") && liveAddress(dir) === null) return null;
  try {
    const target = targetOf(context);
    if (target.kind === "store") return null;
    const { url } = target;
    return { url, ...(await withServer(target, (perdure) => (perdure as PerdureClient).admin.settings())) };
  } catch (error) {
    if (isByOption("url")) throw error;
    out.note(`perdure config: cannot read the settings of the server, showing those here: ${(error as Error).message}`);
    return null;
  }
}

/** `server` has `server.port` and others. */
function groupOf(name: string): readonly SettingKey[] {
  return KEYS.filter((key) => key.startsWith(`${name}.`));
}

/** `agent.retry.legionary.maxAttempts` is in the groups `agent`, `agent.retry` and `agent.retry.legionary`. */
function groups(): string[] {
  const words = KEYS.map((key) => key.split("."));
  return [...new Set(words.flatMap((parts) => parts.slice(1).map((_, i) => parts.slice(0, i + 1).join("."))))];
}

/** Null for all of them, or for a group. */
function keyOf(given: string | undefined): SettingKey | null {
  if (given === undefined || groupOf(given).length > 0) return null;
  const found = KEYS.find((key) => key === given);
  if (found !== undefined) return found;
  const near = nearest(given, [...groups(), ...KEYS]);
  const hint = near === null ? "see `perdure config`" : `did you mean ${near}?`;
  throw usageError(`setting ${show(given)} does not exist; ${hint}`);
}

function showOne(fact: ShownSettingFact, { given, out }: CommandContext): number {
  const { key, value } = fact;
  if (given.flag("json")) out.json(fact);
  else if (value !== null) out.line(textOf(value));
  if (value !== null) return EXIT.done;
  out.note(`perdure config: ${key} is not set`);
  return EXIT.failed;
}

const COLUMNS = [{ head: "KEY" }, { head: "VALUE", flexible: true }, { head: "SOURCE" }] as const;

function row({ key, value, source }: SettingFact): TextPiece[] {
  const shown = value === null ? painted("dim", "-") : textOf(value);
  return [key, shown, source === "default" ? painted("dim", source) : source];
}

/** A list in the form that an option takes. */
function textOf(value: NonNullable<SettingFact["value"]>): string {
  return typeof value === "object" ? value.join(",") : String(value);
}

/** Not an error: other programs may use variables with such names. */
export function unknownVariables(env: CommandContext["io"]["env"]): string[] {
  const names = Object.keys(env).filter((name) => name.startsWith("PERDURE_") && !isKnownVariable(name));
  return names.sort().map((name) => {
    const near = nearest(name, [...VARIABLES, "PERDURE_CONFIG"]);
    return `${name} is not a setting and is ignored${near === null ? "" : `; did you mean ${near}?`}`;
  });
}
