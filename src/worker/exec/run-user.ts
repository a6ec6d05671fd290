/** The user that commands run as, if not the worker's own: a worker run by root makes that user the owner of each attempt's
 *  directory and of nothing else. For systems with user ids; changing the user requires root. */
import { execFile, execFileSync } from "node:child_process";
import { type Stats, statSync } from "node:fs";
import { chown, lchown, lstat, readdir, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ConfigError } from "../../core/errors.ts";

export interface RunUser {
  readonly uid: number;
  readonly gid: number;
  readonly name: string;
  /** Null if it has none, or it does not exist. */
  readonly home: string | null;
}

/** `given` is a name, `uid` or `uid:gid`. Throws if the user does not exist, or if this process cannot change the user. */
export function findUser(given: string, path = "runAs"): RunUser {
  if (process.geteuid?.() !== 0) {
    throw new ConfigError({ path, given, allowed: "left out, unless the worker runs as root" });
  }
  const found = lookUp(given);
  if (found === null) throw new ConfigError({ path, given, allowed: "the name of a user, a uid, or uid:gid" });
  return found;
}

/** Null if there is no such user. */
export function lookUp(given: string): RunUser | null {
  const [, uid, gid] = /^(\d{1,10})(?::(\d{1,10}))?$/.exec(given) ?? [];
  const entry = passwdEntry(uid ?? given);
  if (entry === null && (uid === undefined || gid === undefined)) return null;
  const [name = given, , foundUid = uid, foundGid = gid, , home = ""] = entry ?? [];
  const hasHome = home !== "" && statSync(home, { throwIfNoEntry: false })?.isDirectory() === true;
  return { uid: Number(uid ?? foundUid), gid: Number(gid ?? foundGid), name, home: hasHome ? home : null };
}

/** Its entry in the user database (passwd, LDAP, …). */
function passwdEntry(key: string): string[] | null {
  if (!/^[\w][\w.-]*$/.test(key)) return null;
  try {
    const text = execFileSync("getent", ["passwd", key], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
    const fields = text.trim().split("\n")[0]?.split(":") ?? [];
    return fields.length >= 6 ? fields : null;
  } catch {
    return null;
  }
}

/** The first directory on the path, from the root, that a user cannot enter; null if there is none. By file modes; access
 *  control lists are not read. */
export function closedTo(user: Pick<RunUser, "uid" | "gid">, path: string): string | null {
  const chain: string[] = [];
  for (let at = path; ; at = dirname(at)) {
    chain.unshift(at);
    if (dirname(at) === at) break;
  }
  for (const each of chain) {
    const found = statSync(each, { throwIfNoEntry: false });
    if (found === undefined) return null; // it is created when it is needed
    if (!mayPass(user, found)) return each;
  }
  return null;
}

function mayPass({ uid, gid }: Pick<RunUser, "uid" | "gid">, found: Stats): boolean {
  const bit = found.uid === uid ? 0o100 : found.gid === gid ? 0o010 : 0o001;
  return uid === 0 || (found.mode & bit) !== 0;
}

/** Changes the owner of the files that the worker created for an attempt, and of the directory last: until then the user cannot
 *  put links in it. */
export async function chownDirectory(dir: string, { uid, gid }: Pick<RunUser, "uid" | "gid">): Promise<void> {
  for (const entry of await readdir(dir, { withFileTypes: true })) {
    const path = join(dir, entry.name);
    if (entry.isDirectory()) await chownDirectory(path, { uid, gid });
    else await lchown(path, uid, gid);
  }
  await chown(dir, uid, gid);
}

/** Changes the owner of the previous attempt's files if commands ran as the worker's own user then. A directory that already
 *  belongs to the user is left alone: it may contain anything, such as links to other users' files. */
export async function chownPrevious(dir: string, user: RunUser): Promise<void> {
  const found = await lstat(dir).catch(() => null);
  if (found === null || !found.isDirectory() || found.uid !== process.geteuid?.()) return;
  await chownOwned(dir, user);
}

async function chownOwned(path: string, user: RunUser): Promise<void> {
  const found = await lstat(path);
  if (found.isDirectory()) {
    for (const name of await readdir(path)) await chownOwned(join(path, name), user);
  } else if (!found.isFile() || found.nlink > 1) return;
  await lchown(path, user.uid, user.gid);
}

/** Time limit of one step of a removal: long enough for a million files. */
const REMOVE_MS = 60_000;

/** Removes directories that belong to another user, as that user: one of its processes could replace what is being removed by a
 *  link to files that only root may remove. Since another command of that user may keep filling a directory, each step has a
 *  time limit. Returns false if something is left; a later call continues. */
export async function removeAsOwner(
  parent: string,
  names: readonly string[],
  limitMs: number = REMOVE_MS,
): Promise<boolean> {
  const me = process.geteuid?.();
  let isGone = true;
  for (const name of names) {
    const path = join(parent, name);
    const found = me === 0 ? await lstat(path).catch(() => null) : null;
    if (found === null || !found.isDirectory() || found.uid === me) continue;
    const as = { uid: found.uid, gid: found.gid, cwd: "/", env: { PATH: "/usr/bin:/bin" } };
    for (const [program, ...args] of [
      ["chmod", "-R", "u+rwX"],
      ["rm", "-rf"],
    ] as const) {
      await new Promise<void>((resolve) => {
        const options = { ...as, timeout: limitMs, killSignal: "SIGKILL" } as const;
        execFile(program, [...args, "--", path], options, () => resolve());
      });
    }
    // Its own entry is in our directory: the user cannot remove that.
    await rmdir(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") isGone = false;
    });
  }
  return isGone;
}
