/** Copies a directory that may be in use, and gives the copy to another user. Node's own copying fails when a file
 *  disappears during the copy, as a running server's files do, and keeps the current user as owner. */
import { chown, copyFile, mkdir, readdir, readlink, symlink } from "node:fs/promises";
import { join } from "node:path";
import type { User } from "./binaries.ts";

/** Directories directly in `from` that are in `hollow` are created but not filled. */
export async function copyTree(
  from: string,
  to: string,
  user: User | undefined,
  hollow: readonly string[] = [],
): Promise<void> {
  await mkdir(to, { mode: 0o700 });
  await give(to, user);
  for (const entry of await unlessGone(() => readdir(from, { withFileTypes: true }), [])) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory() && hollow.includes(entry.name)) {
      await mkdir(target, { mode: 0o700 });
      await give(target, user);
    } else if (entry.isDirectory()) {
      await copyTree(source, target, user);
    } else if (entry.isSymbolicLink()) {
      await symlink(await readlink(source), target);
    } else if (entry.isFile()) {
      const copied = await unlessGone(async () => {
        await copyFile(source, target);
        return true;
      }, false);
      if (copied) await give(target, user);
    }
  }
}

async function give(path: string, user: User | undefined): Promise<void> {
  if (user !== undefined) await chown(path, user.uid, user.gid);
}

async function unlessGone<T>(action: () => Promise<T>, otherwise: T): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return otherwise;
    throw error;
  }
}
