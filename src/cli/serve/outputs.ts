/** Where files of attempts are stored, for a server and for a command that opens the store itself. SQLite: in a directory
 *  beside the file. PostgreSQL: in the database, or in a directory that all servers share, which a marker file in it proves
 *  at the start. */
import { randomBytes } from "node:crypto";
import { join, resolve } from "node:path";
import { artifactsDir, copiedOutputs } from "../../embedded/job-outputs.ts";
import { systemClock } from "../../lib/system-clock.ts";
import type { AttemptPlaces, Blobs } from "../../store/blobs.ts";
import { directoryBlobs } from "../../store/directory-blobs.ts";
import { isPostgres, makeFolderDurablySync, writeDurably } from "../../store/open.ts";
import type { Store } from "../../store/store.ts";
import type { AttemptDirectories } from "../../worker/exec/exec-executor.ts";
import type { Config } from "../config/config.ts";
import { CliError, EXIT, usageError } from "../exit.ts";
import { NOTE_BYTES, readBounded, readNote } from "../input/read-file.ts";
import type { StoreTarget } from "../target/store-target.ts";

const MARK = ".perdure-outputs";
/** The setting in the store that all its servers agree on. */
const SETTING = "outputs";

export function outputsOf(given: string | undefined, cwd: string, db: string) {
  return async (store: Store): Promise<Blobs> => {
    if (store.blobs === undefined) {
      if (given === "database") {
        throw usageError("--outputs: SQLite does not store files; pass a directory, or use PostgreSQL");
      }
      // Beside the database, as in the embedded engine.
      return directoryBlobs(given === undefined ? artifactsDir({ url: db }).dir : resolve(cwd, given));
    }
    const isDatabase = given === undefined || given === "database";
    const dir = isDatabase ? null : resolve(cwd, given);
    const mine = dir === null ? "database" : `directory ${markOf(dir)}`;
    const agreed = await store.settings.setIfAbsent(SETTING, mine);
    if (agreed !== mine) throw new CliError(EXIT.usage, disagreement(agreed, given));
    return dir === null ? store.blobs() : directoryBlobs(dir);
  };
}

/** The id of the directory, the same for all that share it. */
function markOf(dir: string): string {
  const path = join(dir, MARK);
  try {
    makeFolderDurablySync(dir);
    // All servers depend on it from now on, so it must survive a power cut.
    writeDurably(path, randomBytes(16).toString("hex"), { replace: false });
  } catch (error) {
    throw usageError(`--outputs: cannot write to ${dir}: ${(error as Error).message}`);
  }
  return readBounded(path, NOTE_BYTES, path).toString("utf8").trim();
}

function disagreement(agreed: string, given: string | undefined): string {
  const others = agreed === "database" ? "in the database" : "in another directory";
  const advice =
    agreed === "database"
      ? "Start this one with --outputs database"
      : "Pass the same directory, shared by all hosts, with --outputs";
  return `--outputs: the servers of this database keep files of attempts ${others}; got ${given ?? "nothing"}. ${advice}`;
}

/** For commands that only read: nothing is agreed on or created, and unreachable files are an error only when they are read. */
export function readableOutputs(target: StoreTarget, given: string | undefined, cwd: string) {
  return async (store: Store): Promise<Blobs> => {
    const here = directoryOf(target, given, cwd);
    if (store.blobs === undefined) return here;
    const agreed = (await store.settings.get(SETTING)) ?? "database";
    if (agreed === "database") return both(here, store.blobs(), Number.POSITIVE_INFINITY);
    const shared = given === undefined ? null : resolve(cwd, given);
    return shared !== null && agreed === `directory ${markIn(shared)}` ? directoryBlobs(shared) : outOfReach;
  };
}

/** For `perdure run`, whose attempts write files here. */
export function workingOutputs(target: StoreTarget, config: Config, cwd: string) {
  const given = config.text("server.outputs");
  return async (store: Store): Promise<Blobs & AttemptDirectories> => {
    if (store.blobs === undefined) return directoryOf(target, given, cwd);
    const kept = await outputsOf(given, cwd, target.url)(store);
    if (given !== undefined && given !== "database") return directoryBlobs(resolve(cwd, given));
    return both(directoryOf(target, undefined, cwd), kept, config.bytes("server.outputLimit"));
  };
}

function both(local: Blobs & AttemptPlaces, kept: Blobs, maxBytes: number): Blobs & AttemptDirectories {
  return copiedOutputs({ local, kept, clock: systemClock, maxBytes });
}

/** With SQLite the same directory as a server; with PostgreSQL, where attempts work before their files are stored. */
function directoryOf({ url, dir }: StoreTarget, given: string | undefined, cwd: string): Blobs & AttemptPlaces {
  if (isPostgres(url)) return directoryBlobs(join(dir.path, "artifacts"));
  const isNamed = given !== undefined && given !== "database";
  return directoryBlobs(isNamed ? resolve(cwd, given) : artifactsDir({ url }).dir);
}

function markIn(dir: string): string | null {
  return readNote(join(dir, MARK))?.trim() ?? null;
}

async function refuse(): Promise<never> {
  throw new CliError(
    EXIT.failed,
    "the servers of this database keep files of attempts in a directory: name it with PERDURE_OUTPUTS or server.outputs",
  );
}

const outOfReach: Blobs = {
  ...{ attempts: refuse, list: refuse, get: refuse, write: refuse, remove: refuse, inputs: refuse, delete: refuse },
  tidy: async () => {},
};
