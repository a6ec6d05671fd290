/** Searches the directories of the setting `attune.packs` for packs, and a pack for an action. Nothing is cached. A
 *  pack or an action that cannot be read only matters to commands that ask for it. */
import { existsSync, readdirSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { CliError, usageError } from "../../../cli/exit.ts";
import { readYamlFile, yamlUsageError } from "../../../cli/input/yaml-file.ts";
import { isPlain, nearest } from "../../../core/check.ts";
import { ConfigError, show } from "../../../core/errors.ts";
import type { YamlText } from "../../../yaml/read.ts";
import { actionRef, packRef } from "../action.ts";

export interface FoundPack {
  readonly ref: string;
  /** Absolute. */
  readonly dir: string;
  /** As given: `./packs/mypack`. */
  readonly given: string;
  readonly manifest: YamlText;
}

export interface FoundAction {
  readonly ref: string;
  /** Its folder, absolute. */
  readonly dir: string;
  readonly file: YamlText;
}

export interface PackPlaces {
  readonly dirs: readonly string[];
  readonly cwd: string;
  /** Set explicitly: then a missing directory is a mistake. */
  readonly areSet: boolean;
}

const MANIFEST = "pack.yaml";
const ACTIONS = "actions";

export interface PackSearch {
  readonly pack: FoundPack | null;
  /** All packs that can be read. */
  readonly packs: readonly FoundPack[];
  /** The names of all packs. A pack that cannot be read, or has no manifest yet, has the name of its folder. */
  readonly known: readonly string[];
}

/** The pack with the name, or null. */
export function findPack(name: string, places: PackPlaces): PackSearch {
  const packs: FoundPack[] = [];
  const known: string[] = [];
  const bare: Folder[] = [];
  for (const { dir, given } of places.dirs.flatMap((each) => foldersOf(each, places))) {
    const pack = packIn(dir, given, name);
    if (pack !== null) packs.push(pack);
    const isBare = pack === null && !existsSync(join(dir, MANIFEST)) && existsSync(join(dir, ACTIONS));
    if (isBare) bare.push({ dir, given });
    if (pack !== null || isBare || existsSync(join(dir, MANIFEST))) known.push(pack?.ref ?? basename(dir));
  }
  const found = packs.filter(({ ref }) => ref === name);
  const [pack = null, second] = found;
  if (pack !== null && second !== undefined) {
    throw usageError(
      `${second.manifest.where([])}: the pack ${show(name)} is in ${pack.given} too; remove one of them`,
    );
  }
  const meant = bare.find(({ dir }) => basename(dir) === name);
  if (pack === null && meant !== undefined) throw noManifest(name, meant);
  return { pack, packs, known };
}

/** Otherwise it would be skipped, and its actions would be ordinary kinds. */
function noManifest(name: string, { given }: Folder): CliError {
  const file = join(given, MANIFEST);
  return usageError(`${given} has actions but no ${MANIFEST}; create ${file} with the line \`ref: ${name}\``);
}

interface Folder {
  readonly dir: string;
  readonly given: string;
}

/** The directory itself if it is a pack, or only lacks its manifest; otherwise those in it. */
function foldersOf(given: string, { cwd, areSet }: PackPlaces): Folder[] {
  const dir = resolve(cwd, given);
  let names: string[];
  try {
    names = readdirSync(dir).sort();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if ((code === "ENOENT" || code === "ENOTDIR") && !areSet) return [];
    throw usageError(`attune.packs: ${show(given)} cannot be read: ${message}; must be a directory of packs`);
  }
  const isBare = names.includes(ACTIONS) && !names.some((name) => existsSync(join(dir, name, MANIFEST)));
  if (names.includes(MANIFEST) || isBare) return [{ dir, given }];
  return names.map((name) => ({ dir: join(dir, name), given: join(given, name) }));
}

function packIn(dir: string, given: string, wanted: string): FoundPack | null {
  return tolerant(basename(dir) === wanted, () => {
    const manifest = readYamlFile(join(dir, MANIFEST), join(given, MANIFEST));
    if (manifest === null) return null;
    try {
      const value = isPlain(manifest.value) ? manifest.value : {};
      return { ref: packRef(value, ""), dir, given, manifest };
    } catch (error) {
      if (error instanceof ConfigError) throw yamlUsageError(manifest, [], error.message);
      throw error;
    }
  });
}

/** The action with the name, prefixed with its pack's. Throws if it does not exist, and suggests the nearest. */
export function findAction(ref: string, pack: FoundPack): FoundAction {
  const [, ...rest] = ref.split(".");
  const all = actionsOf(pack, rest.join("."));
  const [action, second] = all.filter((each) => each.ref === ref);
  if (action === undefined) throw unknownAction(ref, namesOf(all), pack);
  if (second === undefined) return action;
  throw usageError(
    `${second.file.where([])}: the action ${show(ref)} is in ${action.file.file} too; rename one of them`,
  );
}

/** The names of all actions of a pack that can be read. */
export function actionNames(pack: FoundPack): string[] {
  return namesOf(actionsOf(pack, null));
}

function namesOf(actions: readonly FoundAction[]): string[] {
  return actions.map(({ ref }) => ref);
}

/** `wanted`, without the pack's name, is the action whose file must be readable. */
function actionsOf(pack: FoundPack, wanted: string | null): FoundAction[] {
  const dir = join(pack.dir, ACTIONS);
  return actionFiles(pack).flatMap((name) => {
    const isMeant = name.replace(/\.ya?ml$/, "") === wanted;
    const file = tolerant(isMeant, () => readYamlFile(join(dir, name), join(pack.given, ACTIONS, name)));
    const ref = file === null ? null : refOf(file, pack.ref);
    return file === null || ref === null ? [] : [{ ref, dir, file }];
  });
}

function actionFiles({ dir }: FoundPack): string[] {
  try {
    return readdirSync(join(dir, ACTIONS))
      .filter((name) => /\.ya?ml$/.test(name))
      .sort();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

/** Null if it has no usable name: a full read reports why. */
function refOf({ value }: YamlText, pack: string): string | null {
  if (!isPlain(value)) return null;
  const { ref, name } = value as { ref?: unknown; name?: unknown };
  try {
    return actionRef(ref ?? name, "name", pack);
  } catch {
    return null;
  }
}

function unknownAction(ref: string, known: readonly string[], pack: FoundPack): CliError {
  const near = nearest(ref, known);
  const hint = near === null ? "" : ` Did you mean ${show(near)}?`;
  const has = known.length === 0 ? "has no actions" : `has ${known.join(", ")}`;
  return usageError(`action ${show(ref)} does not exist: ${pack.given} ${has}.${hint}`);
}

/** A mistake in a file is reported only if it may be the wanted one. */
function tolerant<T>(isWanted: boolean, read: () => T | null): T | null {
  try {
    return read();
  } catch (error) {
    if (isWanted || !(error instanceof CliError)) throw error;
    return null;
  }
}
