/** `perdure submit mypack.action -p key=value`: the job of an action, by its name. */

import { FileContext } from "../../../cli/apply/file-context.ts";
import type { CommandContext } from "../../../cli/command.ts";
import { loadConfig } from "../../../cli/config/config.ts";
import { type CliError, usageError, valueError } from "../../../cli/exit.ts";
import { POLICY_OPTIONS } from "../../../cli/input/shared-options.ts";
import { givenOptions, inputOf } from "../../../cli/submit/entry-from-options.ts";
import { isPlain, nearest } from "../../../core/check.ts";
import { ConfigError, show } from "../../../core/errors.ts";
import type { ReadEntry, Reading } from "../../dialect.ts";
import type { DialectSettings } from "../../settings.ts";
import { attune } from "../dialect.ts";
import { actionNames, type FoundAction, type FoundPack, findAction, findPack, type PackSearch } from "./find-pack.ts";

// Reads an action of a pack as `perdure apply` reads its file. Mistakes are reported with file, line and column, also
// those in the pack's manifest.

export interface ActionRequest {
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly settings: DialectSettings;
}

export function readAction({ file, dir }: FoundAction, { parameters, settings }: ActionRequest): Reading {
  const document = { yaml: file, dir, dialect: attune };
  const reader = new FileContext(document, { settings, parameters, documents: [document], onParameters: () => {} });
  try {
    const { jobs, notes } = attune.read(file.value, reader.context);
    return { jobs, notes: notes.map((note) => reader.noteAt(note)) };
  } catch (error) {
    throw error instanceof ConfigError ? reader.errorAt(error) : error;
  }
}

// A name without a dot is an ordinary kind. If there are packs, or a setting names their directories, or parameters are
// given with -p, every name with a dot is an action: otherwise a job of a misspelt pack would wait forever. Without any
// of these, a name with a dot is an ordinary kind too.

/** Null for an ordinary kind. */
export async function actionEntry(
  context: CommandContext,
  settingsOf: () => Promise<DialectSettings>,
): Promise<ReadEntry | null> {
  const { given, out } = context;
  const [name = ""] = given.positionals;
  const pack = packOf(name, context);
  if (pack === null) return null;
  given.atMost(1);
  const action = findAction(name, pack);
  for (const option of ["env", "cwd", "retry", ...POLICY_OPTIONS.map((each) => each.name)]) {
    if (given.flag(option))
      throw usageError(`--${option} cannot be used with an action; its options are in ${action.file.file}`);
  }
  const parameters = (await inputOf(context)) ?? {};
  if (!isPlain(parameters)) throw valueError("--input", parameters, "an object of parameters");
  const settings = await settingsOf();
  const { jobs, notes } = readAction(action, { parameters: parameters as Record<string, unknown>, settings });
  const [entry] = jobs as readonly [ReadEntry];
  const options = withWishes(entry.options ?? {}, givenOptions(given));
  for (const note of notes) out.note(`note: ${note}`);
  return { ...entry, options };
}

function packOf(name: string, context: CommandContext): FoundPack | null {
  const dot = name.indexOf(".");
  if (dot < 0) return null;
  const config = loadConfig(context, ["attune.packs"]);
  const dirs = config.list("attune.packs");
  const areSet = config.isSet("attune.packs");
  const wanted = name.slice(0, dot);
  const search = findPack(wanted, { dirs, areSet, cwd: context.io.cwd });
  if (search.pack !== null) return search.pack;
  if (!areSet && search.known.length === 0) {
    if (context.given.flag("param")) throw noPacks(name, dirs);
    return null;
  }
  const source = areSet ? ` (${config.sourceOf("attune.packs")})` : "";
  throw usageError(
    `pack ${show(wanted)} does not exist in ${dirs.join(", ")}${source}.${hintFor(name, wanted, search)} ` +
      `To submit a job of kind ${name}, use a job file with \`kind: ${name}\``,
  );
}

/** Parameters are for actions; other kinds with a dot use --input. */
function noPacks(name: string, dirs: readonly string[]): CliError {
  return usageError(
    `${show(name)} would be an action, but ${dirs.join(", ")} (attune.packs) has no packs: a pack is a folder ` +
      `with a pack.yaml. To submit a job of kind ${name}, use --input instead of -p`,
  );
}

/** The nearest action of all packs, or the nearest pack. */
function hintFor(name: string, pack: string, { packs, known }: PackSearch): string {
  const near = nearest(name, packs.flatMap(actionNames)) ?? nearest(pack, known);
  return near === null ? "" : ` Did you mean ${show(near)}?`;
}

type Options = NonNullable<ReadEntry["options"]>;

/** Options of the command line take precedence; labels that the action needs stay, and tags add up. */
function withWishes(own: Options, wished: Options): Options {
  const tags = [...new Set([...(own.tags ?? []), ...(wished.tags ?? [])])];
  return {
    ...own,
    ...wished,
    labels: { ...wished.labels, ...own.labels },
    ...(tags.length === 0 ? {} : { tags }),
  };
}
