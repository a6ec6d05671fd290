/** Files that a document names by a relative path. Only files within given folders are read, also through links: a downloaded
 *  document must not be able to send other files of this machine. */
import { realpathSync, statSync } from "node:fs";
import { isAbsolute, resolve, sep } from "node:path";
import { readSmallFile } from "./yaml-file.ts";

/** `outside`: the path leads out of the folders. */
export type FileBeside = { readonly bytes: Buffer } | "missing" | "outside";

export interface BesideRequest {
  /** The folder that the path starts from. */
  readonly dir: string;
  /** The folders that it may lead to. */
  readonly roots: readonly string[];
  /** The path for messages. */
  readonly shown: string;
  /** At most this many bytes are read. */
  readonly limit: number;
}

export function readBeside(path: string, { dir, roots, shown, limit }: BesideRequest): FileBeside {
  if (path.includes("\0") || isAbsolute(path)) return "outside";
  let real: string;
  try {
    real = realpathSync(resolve(dir, path));
  } catch {
    return "missing";
  }
  const within = roots.map((root) => realpathSync(root));
  if (!within.some((root) => real.startsWith(root.endsWith(sep) ? root : root + sep))) return "outside";
  // Reading a pipe or a device might never end.
  const bytes = statSync(real).isFile() ? readSmallFile(real, shown, limit) : null;
  return bytes === null ? "missing" : { bytes };
}
