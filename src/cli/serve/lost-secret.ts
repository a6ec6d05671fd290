/** A signing secret that is lost: the file gets a new one, and the store the fingerprint of it, or no server could start. The
 *  store is the one that the directory's server uses, whatever server the environment names for other commands. It is opened
 *  before the file is written: where it cannot be reached, nothing is changed. */
import { dirname } from "node:path";
import { thisUser } from "../../embedded/this-user.ts";
import { fingerprint } from "../../server/key-ring.ts";
import { isPostgres } from "../../store/open.ts";
import type { Context } from "../command.ts";
import type { Config } from "../config/config.ts";
import type { DataDir } from "../data.ts";
import { withEngine } from "../direct.ts";
import { CliError, EXIT } from "../exit.ts";
import { databaseTarget, dataTarget, type StoreTarget } from "../store-target.ts";
import { refusePassword } from "../target.ts";
import { databaseOf, refuseElsewhere } from "./elsewhere.ts";
import { type RotateWish, type Rotation, rotateSecret } from "./rotate-secret.ts";
import { liveServer } from "./server-file.ts";
import { SETTING, secretReplaced } from "./signing.ts";

/** Between the two writes a crash leaves a file that the store does not know: the same command again finishes it. */
export async function replaceLostSecret(context: Context, config: Config, wish: RotateWish): Promise<Rotation> {
  const target = storeOf(context, config, wish.dir);
  refuseServed(target);
  return withEngine(context, target, {}, async ({ store, clock }) => {
    const print = await store.setting(SETTING);
    const done = rotateSecret(config, wish);
    const prints = done.secrets.map(({ text }) => fingerprint(text));
    if (print !== null && !prints.includes(print)) {
      await store.replaceSetting(SETTING, print, prints[0] ?? null, secretReplaced(clock.now(), thisUser()));
    }
    return done;
  });
}

/** `--data` and `--db` may stand together: the one has the file, the other the jobs. */
function storeOf(context: Context, config: Config, dir: DataDir): StoreTarget {
  const db = config.text("db");
  const [data, from] = [config.sourceOf("data"), config.sourceOf("db")];
  const isDirMeant = data.startsWith("--") && !from.startsWith("--") && databaseOf(dir.path) === null;
  if (db !== undefined && !isDirMeant) {
    refusePassword(context, config);
    const { cwd } = context.io;
    return databaseTarget({ db, from, schema: config.text("schema"), dir, namespace: "", cwd });
  }
  refuseElsewhere(dir);
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
