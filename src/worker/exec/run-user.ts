/** The user that commands run as, where that is not the worker's own: a worker of root gives each attempt its directory and
 *  nothing else. Linux and other systems with user ids; changing the user takes root. */
import { execFile, execFileSync } from "node:child_process";
import { type Stats, statSync } from "node:fs";
import { chown, lchown, lstat, readdir, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ConfigError } from "../../core/errors.ts";

export interface RunUser {
  readonly uid: number;
  readonly gid: number;
  readonly name: string;
  /** Null where it has none that exists. */
  readonly home: string | null;
}

/** A name, `uid` or `uid:gid`. Throws where there is no such user, or where the user cannot be changed. */
export function findUser(given: string, path = "runAs"): RunUser {
  if (process.geteuid?.() !== 0) {
    throw new ConfigError({ path, given, allowed: "nothing, unless the worker is started as root" });
  }
  const found = lookUp(given);
  if (found === null) throw new ConfigError({ path, given, allowed: "the name of a user, a uid, or uid:gid" });
  return found;
}

/** Null if there is no such user. */
export function lookUp(given: string): RunUser | null {
  const [, uid, gid] = /^(\d{1,10})(?::(\d{1,10}))?$/.exec(given) ?? [];
  const entry = entryOf(uid ?? given);
  if (entry === null && (uid === undefined || gid === undefined)) return null;
  const [name = given, , foundUid = uid, foundGid = gid, , home = ""] = entry ?? [];
  const isThere = home !== "" && statSync(home, { throwIfNoEntry: false })?.isDirectory() === true;
  return { uid: Number(uid ?? foundUid), gid: Number(gid ?? foundGid), name, home: isThere ? home : null };
}

/** Its line in the list of users, wherever that is kept. */
function entryOf(key: string): string[] | null {
  if (!/^[\w][\w.-]*$/.test(key)) return null;
  try {
    const text = execFileSync("getent", ["passwd", key], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
    const fields = text.trim().split("\n")[0]?.split(":") ?? [];
    return fields.length >= 6 ? fields : null;
  } catch {
    return null;
  }
}

/** The first directory on the way that a user may not pass, up to the root; null if there is none. By modes: access lists are
 *  not read. */
export function closedTo(user: Pick<RunUser, "uid" | "gid">, path: string): string | null {
  const chain: string[] = [];
  for (let at = path; ; at = dirname(at)) {
    chain.unshift(at);
    if (dirname(at) === at) break;
  }
  for (const each of chain) {
    const found = statSync(each, { throwIfNoEntry: false });
    if (found === undefined) return null; // it is made by whoever needs it
    if (!mayPass(user, found)) return each;
  }
  return null;
}

function mayPass({ uid, gid }: Pick<RunUser, "uid" | "gid">, found: Stats): boolean {
  const bit = found.uid === uid ? 0o100 : found.gid === gid ? 0o010 : 0o001;
  return uid === 0 || (found.mode & bit) !== 0;
}

/** The files that a worker has made for an attempt, and last of all the directory: until then nobody but the worker can
 *  change anything in it, so that nothing is followed to somewhere else. */
export async function giveDirectory(dir: string, { uid, gid }: Pick<RunUser, "uid" | "gid">): Promise<void> {
  for (const entry of await readdir(dir, { withFileTypes: true })) {
    const path = join(dir, entry.name);
    if (entry.isDirectory()) await giveDirectory(path, { uid, gid });
    else await lchown(path, uid, gid);
  }
  await chown(dir, uid, gid);
}

/** What an earlier attempt left as the worker's own user, from a time when commands ran as that. One that is the command's
 *  already is left alone: it may hold anything, links to files of others too. */
export async function giveEarlier(dir: string, user: RunUser): Promise<void> {
  const found = await lstat(dir).catch(() => null);
  if (found === null || !found.isDirectory() || found.uid !== process.geteuid?.()) return;
  await giveOwn(dir, user);
}

async function giveOwn(path: string, user: RunUser): Promise<void> {
  const found = await lstat(path);
  if (found.isDirectory()) {
    for (const name of await readdir(path)) await giveOwn(join(path, name), user);
  } else if (!found.isFile() || found.nlink > 1) return;
  await lchown(path, user.uid, user.gid);
}

/** Of one step of a removal: long enough for a million files. */
const REMOVE_MS = 60_000;

/** Removes directories that were given to another user, as that user: one of its processes could turn what is being removed
 *  into a link to something that only root may remove. Another command of that user may go on filling a directory, so each step
 *  has a time limit. False: something of it is left; a later call continues. */
export async function removeGiven(
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
