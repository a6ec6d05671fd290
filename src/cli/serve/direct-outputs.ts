/** Where files of attempts lie, for a command that opens the store itself: beside a SQLite file; with PostgreSQL where its
 *  servers keep them, in the database or in a directory that they share. */
import { join, resolve } from "node:path";
import { copiedOutputs } from "../../embedded/copied-outputs.ts";
import { artifactsDir } from "../../embedded/job-outputs.ts";
import { systemClock } from "../../engine/clock.ts";
import type { AttemptPlaces, Blobs } from "../../store/blobs.ts";
import { directoryBlobs } from "../../store/directory-blobs.ts";
import { isPostgres } from "../../store/open.ts";
import type { Store } from "../../store/store.ts";
import type { AttemptPlaces as WorkPlaces } from "../../worker/exec/exec-executor.ts";
import type { Config } from "../config/config.ts";
import { CliError, EXIT } from "../exit.ts";
import { readNote } from "../read-file.ts";
import type { StoreTarget } from "../store-target.ts";
import { MARK, outputsOf, SETTING } from "./outputs.ts";

/** For those who only read: nothing is agreed on or created, and files that are out of reach are an error only to whoever
 *  asks for them. */
export function readableOutputs(target: StoreTarget, given: string | undefined, cwd: string) {
  return async (store: Store): Promise<Blobs> => {
    const here = directoryOf(target, given, cwd);
    if (store.blobs === undefined) return here;
    const agreed = (await store.setting(SETTING)) ?? "database";
    if (agreed === "database") return both(here, store.blobs(), Number.POSITIVE_INFINITY);
    const shared = given === undefined ? null : resolve(cwd, given);
    return shared !== null && agreed === `directory ${markIn(shared)}` ? directoryBlobs(shared) : outOfReach;
  };
}

/** For `perdure run`, whose attempts write here. */
export function workingOutputs(target: StoreTarget, config: Config, cwd: string) {
  const given = config.text("server.outputs");
  return async (store: Store): Promise<Blobs & WorkPlaces> => {
    if (store.blobs === undefined) return directoryOf(target, given, cwd);
    const kept = await outputsOf(given, cwd, target.url)(store);
    if (given !== undefined && given !== "database") return directoryBlobs(resolve(cwd, given));
    return both(directoryOf(target, undefined, cwd), kept, config.bytes("server.outputLimit"));
  };
}

function both(local: Blobs & AttemptPlaces, kept: Blobs, maxBytes: number): Blobs & WorkPlaces {
  return copiedOutputs({ local, kept, clock: systemClock, maxBytes });
}

/** Of SQLite, where a server has them too; beside PostgreSQL, where attempts work before their files are kept. */
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
