/** The folder of `opal.runtime`: opened, or refused, before the server makes or opens anything else. */
import { realpathSync } from "node:fs";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { RUNTIME_FOLDERS } from "../../dialects/opal/runtime-files.ts";
import { holdLock, MirrorFolder, MirrorRefused } from "../../store/open.ts";
import type { Config } from "../config/config.ts";
import { usageError } from "../exit.ts";

const MARK = {
  name: ".perdure-opal-runtime",
  text: "A copy of OPAL's jobs, written by a Perdure server and never read by it. It can be deleted at any time.\n",
};

/** Null where none is wanted. `others` are directories of the server, which it must not share. */
export async function openRuntimeFolder(
  config: Config,
  cwd: string,
  others: readonly { readonly what: string; readonly path: string }[],
): Promise<MirrorFolder | null> {
  const given = config.text("opal.runtime");
  if (given === undefined) return null;
  const blame = config.blameOf("opal.runtime");
  if (given.trim() === "" || given.includes("\0")) throw usageError(`${blame}: got an empty text; name a directory`);
  const path = resolve(cwd, given);
  for (const { what, path: other } of others) {
    const [ours, theirs] = [real(path), real(resolve(cwd, other))];
    const where = isWithin(ours, theirs) ? "lies within" : isWithin(theirs, ours) ? "contains" : null;
    if (where !== null) throw usageError(`${blame}: ${given} ${where} the ${what} ${other}; name another directory`);
  }
  try {
    return await MirrorFolder.open(path, { folders: RUNTIME_FOLDERS, mark: MARK, lock: holdLock });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (error instanceof MirrorRefused) throw usageError(`${blame}: ${message}`);
    throw usageError(`${blame}: ${given} cannot be used (${code ?? message}); name another directory`);
  }
}

/** Where it really is, also if the last parts of it do not exist yet. */
function real(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return dirname(path) === path ? path : join(real(dirname(path)), basename(path));
  }
}

function isWithin(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === "" || (way !== ".." && !way.startsWith(`..${sep}`));
}
