/** The data directory, opened for reading. Looking must change nothing: a directory that is not there is not made, and
 *  the engine does none of its upkeep. It neither settles what a crashed process left behind nor deletes by retentions
 *  that may not be those of the data's owner. */
import { statSync } from "node:fs";
import { join, resolve } from "node:path";
import { show } from "../core/errors.ts";
import { Perdure } from "../embedded/perdure.ts";
import { systemClock } from "../engine/clock.ts";
import type { Clock } from "../lib/clock.ts";
import type { Context } from "./command.ts";
import { CliError, EXIT, usageError } from "./exit.ts";

const DEFAULT_DIR = "./.perdure";

/** The directory as it was given, for messages, and its full path. */
export interface DataDir {
  readonly given: string;
  /** What named it: `--data`, `PERDURE_DATA`, or nothing. */
  readonly from: string | null;
  readonly path: string;
  /** The database in it. */
  readonly file: string;
}

export function dataDir({ given, io }: Pick<Context, "given" | "io">): DataDir {
  const option = given.text("data");
  const named = io.env.PERDURE_DATA ? "PERDURE_DATA" : null;
  const [from, dir] = option === undefined ? [named, io.env.PERDURE_DATA || DEFAULT_DIR] : ["--data", option];
  // Not shown: there may be a password in it.
  if (/^[a-z][a-z0-9+.-]+:\/\//i.test(dir)) throw usageError(`${from}: got an address; give a directory`);
  if (dir.trim() === "" || dir.includes("\0")) throw usageError(`${from}: got ${show(dir)}; give a directory`);
  const path = resolve(io.cwd, dir);
  return { given: dir, from, path, file: join(path, "perdure.db") };
}

/** Opens the data for as long as `use` takes. */
export async function withData<T>(context: Context, use: (perdure: Perdure) => Promise<T>): Promise<T> {
  const dir = dataDir(context);
  if (!holdsData(dir)) {
    const advice = "run `perdure run -- COMMAND` first, or name another with --data";
    throw new CliError(EXIT.failed, `there is no Perdure data in ${dir.given}; ${advice}`);
  }
  const verbose = context.given.flag("verbose");
  const logger = (level: string, message: string) => {
    if (verbose) context.out.note(`perdure: ${level}: ${message}`);
  };
  const perdure = await Perdure.open({ url: dir.file, logger }, { clock: stillClock, random: Math.random });
  try {
    return await use(perdure);
  } finally {
    await perdure.close();
  }
}

/** An empty file is what is left of a start that was cut short. */
function holdsData({ given, file }: DataDir): boolean {
  try {
    return statSync(file).size > 0;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return false;
    throw new CliError(EXIT.failed, `cannot look into ${given}: ${message}`);
  }
}

/** Beats, reaping and pruning are what an engine does in the background, and by this clock their time never comes. Waits
 *  of a reader, as for the next event, pass as usual. */
const stillClock: Clock = {
  ...systemClock,
  after: (ms, call, options) => (options?.background ? () => {} : systemClock.after(ms, call, options)),
};
