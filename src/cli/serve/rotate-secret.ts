/** `perdure token rotate-secret`: adds a new signing secret to the file, or with --force replaces a lost one. */
import { statSync } from "node:fs";
import { dirname } from "node:path";
import { thisUser } from "../../embedded/options.ts";
import { fingerprint, type Secret } from "../../server/key-ring.ts";
import { type FileOwner, isPostgres } from "../../store/open.ts";
import type { CommandContext } from "../command.ts";
import type { Config } from "../config/config.ts";
import { CliError, EXIT, usageError } from "../exit.ts";
import type { DataDir } from "../target/data-directory.ts";
import { withEngine } from "../target/open-store.ts";
import { databaseOf, liveServer, refuseOtherDatabase } from "../target/server-notes.ts";
import { databaseTarget, dataTarget, type StoreTarget } from "../target/store-target.ts";
import { refusePassword } from "../target/target.ts";
import { openSecretFile, rotated, writeSecretFile } from "./secret-file.ts";
import { GRACE_MS, givenSecrets, SETTING, secretFileOf, secretReplaced } from "./signing.ts";

// Replaces the signing secret of the servers that use a file: a new one is written before the old, and running
// servers read the file again by themselves. Only the file is changed, so it works with and without a server, and
// needs no database; the store learns of the new fingerprint from the server that signs with it.

/** Time to bring the file to all servers of a PostgreSQL database before the first of them signs with it. */
const SHARED_AFTER_MS = 600_000;

interface RotateSecretRequest {
  readonly dir: DataDir;
  readonly cwd: string;
  readonly now: number;
  /** When the new secret begins to sign; undefined: at once, or after ten minutes where several servers may share the old. */
  readonly afterMs: number | undefined;
  readonly graceMs: number | undefined;
  /** There may be no file. */
  readonly force: boolean;
}

export interface SecretRotation {
  readonly file: string;
  readonly signsFrom: number;
  /** Until when the one before is accepted; null: there was none. */
  readonly until: number | null;
  readonly isShared: boolean;
  /** What the file holds now, the newest first. */
  readonly secrets: readonly Secret[];
}

export function rotateSecret(config: Config, { dir, cwd, now, force, ...wish }: RotateSecretRequest): SecretRotation {
  if (givenSecrets(config).length > 0) {
    throw usageError(
      `the secret is set by ${config.sourceOf("server.secret")}: add a new one (\`openssl rand -hex 32\`) after the old, separated by a ` +
        "comma, and restart all servers; then put the new one first, and restart them again; a day later remove the old",
    );
  }
  const file = secretFileOf(config, dir.path, cwd);
  const found = openSecretFile(file);
  if (found === null && !force) {
    const advice = "start the server first, or pass its directory with --data or its file with --secret-file";
    throw new CliError(EXIT.failed, `no signing secret in ${file}: ${advice}; --force creates a new one`);
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

// A signing secret that is lost: the file gets a new one, and the store the fingerprint of it, or no server could
// start. The store is the one that the directory's server uses, whatever server the environment names for other
// commands. It is opened before the file is written: where it cannot be reached, nothing is changed.

/** Between the two writes a crash leaves a file that the store does not know: the same command again finishes it. */
export async function replaceLostSecret(
  context: CommandContext,
  config: Config,
  wish: RotateSecretRequest,
): Promise<SecretRotation> {
  const target = storeOf(context, config, wish.dir);
  refuseServed(target);
  return withEngine(context, target, {}, async ({ store, clock }) => {
    const print = await store.settings.get(SETTING);
    const done = rotateSecret(config, wish);
    const prints = done.secrets.map(({ text }) => fingerprint(text));
    if (print !== null && !prints.includes(print)) {
      await store.settings.replace(SETTING, print, prints[0] ?? null, secretReplaced(clock.now(), thisUser()));
    }
    return done;
  });
}

/** `--data` and `--db` may stand together: the one has the file, the other the jobs. */
function storeOf(context: CommandContext, config: Config, dir: DataDir): StoreTarget {
  const db = config.text("db");
  const [data, from] = [config.sourceOf("data"), config.sourceOf("db")];
  const isDirMeant = data.startsWith("--") && !from.startsWith("--") && databaseOf(dir.path) === null;
  if (db !== undefined && !isDirMeant) {
    refusePassword(context, config);
    const { cwd } = context.io;
    return databaseTarget({ db, from, schema: config.text("schema"), dir, namespace: "", cwd });
  }
  refuseOtherDatabase(dir);
  return dataTarget(dir, "");
}

/** It signs with what it has in memory, and would be out of service, or take the new secret for somebody else's. */
function refuseServed({ url, dir }: StoreTarget): void {
  const places = isPostgres(url) ? [dir.path] : [dir.path, dirname(url)];
  const live = places.map((path) => liveServer(path)).find((found) => found !== null);
  if (live == null) return;
  throw new CliError(
    EXIT.failed,
    `--force: the server with pid ${live.pid} is running on this data; stop it first (and all others of the database). ` +
      "To replace a secret that is not lost, leave --force out",
  );
}
