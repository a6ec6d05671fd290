/** A store that a command opens itself, where no server stands in front of it: the data directory, or the database that
 *  `--db` names. Data whose server is at work is reached through that server, as everywhere. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { type EngineWish, type OpenedEngine, openEngine } from "../embedded/open-engine.ts";
import { systemClock } from "../engine/clock.ts";
import type { Log } from "../engine/engine.ts";
import type { Retention } from "../engine/pruner.ts";
import { directoryBlobs } from "../store/directory-blobs.ts";
import { isPostgres, openStore } from "../store/open.ts";
import type { Context, Option } from "./command.ts";
import { loadConfig } from "./config/config.ts";
import { optionsFor } from "./config/options.ts";
import type { Key } from "./config/settings.ts";
import { withoutPassword } from "./config/show-value.ts";
import { type DataDir, dataAt, holdsData, noData } from "./data.ts";
import { usageError } from "./exit.ts";
import { madeDir } from "./run/data-dir.ts";
import { liveServer } from "./serve/server-file.ts";
import { type Target, targetOf } from "./target.ts";

const KEYS = [
  ...(["url", "token", "tokenFile", "namespace", "data", "db", "schema"] as const),
] as const satisfies readonly Key[];

/** The options of a command that needs no server. */
export const PLACE: readonly Option[] = optionsFor(KEYS);

export interface StorePlace {
  readonly kind: "store";
  readonly url: string;
  readonly schema: string | undefined;
  /** For people, without a password. */
  readonly shown: string;
  readonly dir: DataDir;
  /** The database is the one in the data directory. */
  readonly isData: boolean;
  readonly namespace: string;
}

export type Place = Extract<Target, { kind: "server" }> | StorePlace;

export function placeOf(context: Pick<Context, "given" | "io">): Place {
  const config = loadConfig(context, KEYS);
  const isByOption = (key: Key) => config.sourceOf(key).startsWith("--");
  if (isByOption("db") && isByOption("url")) throw usageError("--db and --server: give one of them");
  const dir = dataAt(config.text("data"), config.sourceOf("data"), context.io.cwd);
  const isServed = config.isSet("url") || liveServer(dir.path)?.url != null;
  if (!isByOption("db") && (isServed || !config.isSet("db") || isByOption("data"))) {
    const target = targetOf(context);
    return target.kind === "server" ? target : dataPlace(dir, target.namespace);
  }
  return dbPlace(config.text("db") as string, config.text("schema"), dir, config.text("namespace"));
}

export function dataPlace(dir: DataDir, namespace: string): StorePlace {
  return { kind: "store", url: dir.file, schema: undefined, shown: dir.given, dir, isData: true, namespace };
}

export function dbPlace(url: string, schema: string | undefined, dir: DataDir, namespace: string): StorePlace {
  const rest = { shown: withoutPassword(url), dir, isData: false, namespace };
  return { kind: "store", url, schema: isPostgres(url) ? schema : undefined, ...rest };
}

export interface EngineSettings {
  /** Where files of attempts lie. Left out: beside the data, for who does nothing with them. */
  readonly outputs?: EngineWish["outputs"];
  readonly retention?: Retention;
}

/** An engine that is not started, for as long as `use` takes: it does what it is told, and none of its upkeep. */
export async function withEngine<T>(
  { given, out }: Pick<Context, "given" | "out">,
  { url, schema, dir, isData }: StorePlace,
  { outputs, retention }: EngineSettings,
  use: (engine: OpenedEngine["engine"], log: Log) => Promise<T>,
): Promise<T> {
  if (isData && !holdsData(dir)) throw noData(dir);
  const log: Log = (level, message) => {
    if (given.flag("verbose")) out.note(`perdure: ${level}: ${message}`);
  };
  const opened = await openEngine({
    ...{ url, schema, connections: undefined, log },
    outputs: outputs ?? (() => directoryBlobs(join(dir.path, "artifacts"))),
    ...(retention === undefined ? {} : { retention }),
  });
  try {
    return await use(opened.engine, log);
  } finally {
    await opened.close();
  }
}

/** Opens a store and closes it: what is not there yet is made, what is older is brought forward. */
export async function preparedStore(url: string, schema?: string): Promise<void> {
  const newSecret = () => randomBytes(24).toString("base64url");
  const store = await openStore({ url, schema, clock: systemClock, random: Math.random, newSecret });
  await store.close();
}

/** Makes the data that is not there yet. */
export async function madeData(dir: DataDir): Promise<void> {
  if (!holdsData(dir)) await preparedStore(madeDir(dir).file);
}
