/** Replaces the signing secret of the servers that use a file: a new one is written before the old, and running servers read
 *  the file again by themselves. Only the file is changed, so it works with and without a server, and needs no database; the
 *  store learns of the new fingerprint from the server that signs with it. */
import { statSync } from "node:fs";
import { dirname } from "node:path";
import type { Secret } from "../../server/key-ring.ts";
import { type FileOwner, isPostgres } from "../../store/open.ts";
import type { Config } from "../config/config.ts";
import type { DataDir } from "../data.ts";
import { CliError, EXIT, usageError } from "../exit.ts";
import { databaseOf } from "./elsewhere.ts";
import { openSecretFile, rotated, writeSecretFile } from "./secret-file.ts";
import { GRACE_MS, givenSecrets, secretFileOf } from "./signing.ts";

/** Time to bring the file to all servers of a PostgreSQL database before the first of them signs with it. */
const SHARED_AFTER_MS = 600_000;

export interface RotateWish {
  readonly dir: DataDir;
  readonly cwd: string;
  readonly now: number;
  /** When the new secret begins to sign; undefined: at once, or after ten minutes where several servers may share the old. */
  readonly afterMs: number | undefined;
  readonly graceMs: number | undefined;
  /** There may be no file. */
  readonly force: boolean;
}

export interface Rotation {
  readonly file: string;
  readonly signsFrom: number;
  /** Until when the one before is accepted; null: there was none. */
  readonly until: number | null;
  readonly isShared: boolean;
  /** What the file holds now, the newest first. */
  readonly secrets: readonly Secret[];
}

export function rotateSecret(config: Config, { dir, cwd, now, force, ...wish }: RotateWish): Rotation {
  if (givenSecrets(config).length > 0) {
    throw usageError(
      `the secret comes from ${config.sourceOf("server.secret")}: put a new one (\`openssl rand -hex 32\`) behind the old, with a comma ` +
        "between them, and restart all servers; then the new one first, and restart them again; a day later remove the old",
    );
  }
  const file = secretFileOf(config, dir.path, cwd);
  const found = openSecretFile(file);
  if (found === null && !force) {
    const advice = "start the server first, or name its directory with --data or its file with --secret-file";
    throw new CliError(EXIT.failed, `there is no signing secret in ${file}: ${advice}; --force makes a new one`);
  }
  const isShared = isPostgres(config.text("db") ?? databaseOf(dir.path) ?? "");
  const { afterMs = isShared && found !== null ? SHARED_AFTER_MS : 0, graceMs = GRACE_MS } = wish;
  const signsFrom = now + afterMs;
  const secrets = rotated(found?.secrets ?? [], { now, signsFrom, graceMs });
  const owner = found?.owner ?? ownerAround(file);
  requireGivable(file, owner);
  writeSecretFile(file, secrets, { replace: true, owner });
  return { file, signsFrom, until: secrets[1]?.until ?? null, isShared, secrets };
}

function ownerAround(file: string): FileOwner | undefined {
  return statSync(dirname(file), { throwIfNoEntry: false });
}

/** Its server must be able to read it: a file of this user would keep the old secret in use, and the server from its next start. */
function requireGivable(file: string, owner: FileOwner | undefined): void {
  const me = process.geteuid?.();
  if (owner === undefined || me === undefined || me === 0 || me === owner.uid) return;
  throw new CliError(
    EXIT.failed,
    `${file} is for the user with id ${owner.uid}: run \`sudo -u '#${owner.uid}' perdure token rotate-secret …\`, or the same as root`,
  );
}
