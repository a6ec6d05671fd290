/** `perdure submit mypack.action -p key=value`: the job of an action, by its name. */

import { FileContext } from "../../../cli/apply/file-context.ts";
import type { CommandContext } from "../../../cli/command.ts";
import { loadConfig } from "../../../cli/config/config.ts";
import { type CliError, usageError } from "../../../cli/exit.ts";
import { POLICY_OPTIONS } from "../../../cli/input/shared-options.ts";
import { givenOptions, inputOf } from "../../../cli/submit/entry-from-options.ts";
import { isPlain, nearest } from "../../../core/check.ts";
import { ConfigError, show } from "../../../core/errors.ts";
import type { ReadEntry, Reading } from "../../dialect.ts";
import type { DialectSettings } from "../../settings.ts";
import { attune } from "../dialect.ts";
import { actionNames, type FoundAction, type FoundPack, findAction, findPack, type PackSearch } from "./find-pack.ts";

// An action of a pack, read by its dialect as `perdure apply` reads its file. Whatever is wrong is told with file,
// line and column, also where it is the pack's manifest that is wrong.

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

// `perdure submit mypack.action -p key=value`: the job of an action, by its name. What has no dot is an ordinary
// kind. Where there are packs, or a setting names their directories, or parameters are given with -p, every name with
// a dot is taken for an action: a job of a misspelt pack would wait for ever. Without all that it is an ordinary kind
// too.

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
    if (given.flag(option)) throw usageError(`--${option}: not for an action; what holds is in ${action.file.file}`);
  }
  const parameters = (await inputOf(context)) ?? {};
  if (!isPlain(parameters)) throw usageError(`--input: got ${show(parameters)}; an action has an object of parameters`);
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
    `there is no pack ${show(wanted)} in ${dirs.join(", ")}${source}.${hintFor(name, wanted, search)} ` +
      `A job of the ordinary kind ${name} is submitted by a job file that says \`kind: ${name}\``,
  );
}

/** Parameters are for actions; an ordinary kind with a dot has its input otherwise. */
function noPacks(name: string, dirs: readonly string[]): CliError {
  return usageError(
    `${show(name)} would be an action, but there are no packs in ${dirs.join(", ")} (attune.packs): a pack is a folder there ` +
      `with a pack.yaml. A job of the ordinary kind ${name} is submitted with --input instead of -p`,
  );
}

/** The nearest action of all packs; else the nearest pack. */
function hintFor(name: string, pack: string, { packs, known }: PackSearch): string {
  const near = nearest(name, packs.flatMap(actionNames)) ?? nearest(pack, known);
  return near === null ? "" : ` Did you mean ${show(near)}?`;
}

type Options = NonNullable<ReadEntry["options"]>;

/** What is wished for on the command line wins; labels that the action needs stay, and tags add up. */
function withWishes(own: Options, wished: Options): Options {
  const tags = [...new Set([...(own.tags ?? []), ...(wished.tags ?? [])])];
  return {
    ...own,
    ...wished,
    labels: { ...wished.labels, ...own.labels },
    ...(tags.length === 0 ? {} : { tags }),
  };
}
