/** `perdure token rotate-secret`: adds a new signing secret to the file before the old one, or with --force replaces a lost
 *  one. Only the file changes, so neither server nor database is needed: running servers reload it, and the server that
 *  first signs with the new secret stores its fingerprint. */
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

/** Time to copy the file to all servers of a PostgreSQL database before the first of them signs with it. */
const SHARED_AFTER_MS = 600_000;

interface RotateSecretRequest {
  readonly dir: DataDir;
  readonly cwd: string;
  readonly now: number;
  /** When the new secret starts to sign; undefined: now, or in ten minutes if several servers may share the old one. */
  readonly afterMs: number | undefined;
  readonly graceMs: number | undefined;
  /** The file may be missing. */
  readonly force: boolean;
}

export interface SecretRotation {
  readonly file: string;
  readonly signsFrom: number;
  /** Until when the previous secret is accepted; null: there was none. */
  readonly until: number | null;
  readonly isShared: boolean;
  /** The content of the file now, newest first. */
  readonly secrets: readonly Secret[];
}

export function rotateSecret(
  config: Config,
  { dir, cwd, now, force, ...request }: RotateSecretRequest,
): SecretRotation {
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
  const { afterMs = isShared && found !== null ? SHARED_AFTER_MS : 0, graceMs = GRACE_MS } = request;
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

/** The server must be able to read the new file; otherwise it keeps the old secret, and fails at its next start. */
function requireGivable(file: string, owner: FileOwner | undefined): void {
  const me = process.geteuid?.();
  if (owner === undefined || me === undefined || me === 0 || me === owner.uid) return;
  throw new CliError(
    EXIT.failed,
    `${file} is for the user with id ${owner.uid}: run \`sudo -u '#${owner.uid}' perdure token rotate-secret …\`, or the same as root`,
  );
}

// Replaces a lost signing secret: the file gets a new one, and the store its fingerprint, as otherwise no server could start.
// The store is the one that the directory's server uses, whatever the environment names. It is opened before the file is
// written, so if it is unreachable nothing changes.

/** After a crash between the two writes the store does not know the file: running the command again repairs it. */
export async function replaceLostSecret(
  context: CommandContext,
  config: Config,
  request: RotateSecretRequest,
): Promise<SecretRotation> {
  const target = storeOf(context, config, request.dir);
  refuseServed(target);
  return withEngine(context, target, {}, async ({ store, clock }) => {
    const print = await store.settings.get(SETTING);
    const done = rotateSecret(config, request);
    const prints = done.secrets.map(({ text }) => fingerprint(text));
    if (print !== null && !prints.includes(print)) {
      await store.settings.replace(SETTING, print, prints[0] ?? null, secretReplaced(clock.now(), thisUser()));
    }
    return done;
  });
}

/** `--data` and `--db` may be combined here: one has the file, the other the jobs. */
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

/** A running server signs with the secret in its memory; it would stop working, or take the new secret for that of another
 *  database. */
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
