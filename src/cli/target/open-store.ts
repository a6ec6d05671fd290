/** Opens a store without a server. A command that only reads creates and changes nothing, and its engine does no background
 *  work: it does not settle what a crashed process left, nor prune by a retention that may not be the owner's. A SQLite file
 *  of an older version is migrated when it is opened, also by readers; an older PostgreSQL schema is refused. */
import { randomBytes } from "node:crypto";
import { statSync } from "node:fs";
import type { Perdure } from "../../core/api.ts";
import { embeddedPerdure } from "../../embedded/embedded-perdure.ts";
import { type EngineSetup, hostEnvironmentOf, type OpenedEngine, openEngine } from "../../embedded/open-engine.ts";
import { thisUser } from "../../embedded/options.ts";
import type { Retention } from "../../engine/limits.ts";
import type { Log } from "../../engine/parts.ts";
import { withFields } from "../../lib/log.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { isPostgres, openStore, schemaVersion } from "../../store/open.ts";
import type { CommandContext } from "../command.ts";
import type { Config } from "../config/config.ts";
import type { SettingKey } from "../config/settings.ts";
import { upkeepConfig } from "../config/upkeep.ts";
import { CliError, EXIT, usageError } from "../exit.ts";
import { readableOutputs, workingOutputs } from "../serve/outputs.ts";
import { holdsData, makeDataDirectory, noData, stillClock } from "./data-directory.ts";
import type { StoreTarget } from "./store-target.ts";

const KEYS = [
  ...(["server.retention.succeeded", "server.retention.failed", "server.retention.cancelled"] as const),
  ...(["server.lease", "server.outputs", "server.outputLimit", "playbooks.tools"] as const),
] as const satisfies readonly SettingKey[];

/** The effective server settings here, from the environment and the settings file: commands have no options for them. */
export function upkeepSettings(context: Pick<CommandContext, "given" | "io">): Config {
  return upkeepConfig(context, KEYS);
}

export function retentionIn(config: Config): Retention {
  return {
    succeeded: config.durationMs("server.retention.succeeded"),
    failed: config.durationMs("server.retention.failed"),
    cancelled: config.durationMs("server.retention.cancelled"),
  };
}

/** Opens an existing store while `use` runs. */
export async function withStore<T>(
  context: CommandContext,
  target: StoreTarget,
  use: (perdure: Perdure) => Promise<T>,
): Promise<T> {
  await requireStore(target);
  const config = upkeepSettings(context);
  const { url, schema, namespace } = target;
  const log = verboseLog(context);
  const opened = await openEngine(
    {
      ...{ url, schema, connections: undefined, log, tools: config.labels("playbooks.tools") },
      outputs: readableOutputs(target, config.text("server.outputs"), context.io.cwd),
    },
    hostEnvironmentOf(stillClock),
  );
  return useEngine(opened, { namespace, log }, use);
}

/** Opens a store to run commands here, and creates it if it does not exist. Its engine does background work: it renews
 *  leases, settles lost jobs, and prunes a file by the retention in force. A PostgreSQL database is pruned only by its
 *  servers and `perdure prune`, as their retention is not known here. */
export async function withWorkingStore<T>(
  context: CommandContext,
  target: StoreTarget,
  log: Log,
  use: (perdure: Perdure) => Promise<T>,
): Promise<T> {
  await makeStore(target);
  makeDataDirectory(target.dir);
  const config = upkeepSettings(context);
  const { url, schema, namespace } = target;
  const keepAll: Retention = { succeeded: null, failed: null, cancelled: null };
  const opened = await openEngine({
    ...{ url, schema, connections: undefined, log, leaseMs: config.durationMs("server.lease") },
    tools: config.labels("playbooks.tools"),
    outputs: workingOutputs(target, config, context.io.cwd),
    retention: isPostgres(url) ? keepAll : retentionIn(config),
  });
  return useEngine(opened, { namespace, log }, use);
}

async function useEngine<T>(
  { engine, outputs, close }: OpenedEngine,
  { namespace, log }: { readonly namespace: string; readonly log: Log },
  use: (perdure: Perdure) => Promise<T>,
): Promise<T> {
  engine.start();
  const perdure = embeddedPerdure({ engine, namespace, log, blobs: outputs, by: thisUser() }, close);
  try {
    return await use(perdure);
  } finally {
    await perdure.close({ grace: 0 });
  }
}

/** An engine without background work, open while `use` runs. */
export async function withEngine<T>(
  context: CommandContext,
  target: StoreTarget,
  { outputs, retention }: Partial<Pick<EngineSetup, "outputs" | "retention">>,
  use: (engine: OpenedEngine["engine"], log: Log) => Promise<T>,
): Promise<T> {
  const { url, schema, dir, isData } = target;
  if (isData && !holdsData(dir)) throw noData(dir);
  const log = verboseLog(context);
  const opened = await openEngine({
    ...{ url, schema, connections: undefined, log },
    outputs: outputs ?? readableOutputs(target, undefined, context.io.cwd),
    ...(retention === undefined ? {} : { retention }),
  });
  try {
    return await use(opened.engine, log);
  } finally {
    await opened.close();
  }
}

function verboseLog({ given, out }: CommandContext): Log {
  return (level, message, fields) => {
    if (given.flag("verbose")) out.note(`perdure: ${level}: ${withFields(message, fields)}`);
  };
}

/** Throws if the store does not exist, or has a PostgreSQL schema of an older version. */
async function requireStore(target: StoreTarget): Promise<void> {
  const { dir, isData, shown, url } = target;
  if (isData && !holdsData(dir)) throw noData(dir);
  if (isData || (await exists(target))) return;
  const advice = isPostgres(url)
    ? "create its tables with `perdure migrate`, or submit a job"
    : "submit a job first, or pass another with --db";
  throw new CliError(EXIT.failed, `no Perdure data in ${shown}; ${advice}`);
}

/** Creates the store if it does not exist. */
export async function makeStore(target: StoreTarget): Promise<void> {
  const { url, schema, isData, dir } = target;
  if (isData) makeDataDirectory(dir);
  if (await storeExists(target)) return;
  await preparedStore(url, schema);
}

export async function storeExists(target: StoreTarget): Promise<boolean> {
  return target.isData ? holdsData(target.dir) : exists(target);
}

/** Whether the store has tables. A PostgreSQL database of an older version is refused: servers of that version may be
 *  running, and could not use a newer schema. */
async function exists({ url, schema, shown }: StoreTarget): Promise<boolean> {
  if (!isPostgres(url)) return fileExists(url);
  const { found, known } = await schemaVersion({ url, schema, clock: systemClock, random: Math.random });
  if (found === 0 || found === known) return found !== 0;
  throw new CliError(
    EXIT.failed,
    `${shown} has schema ${found}, and this version requires ${known}: stop its servers and run \`perdure migrate\``,
  );
}

/** An empty file is the remains of an interrupted start. */
function fileExists(file: string): boolean {
  try {
    const stat = statSync(file);
    if (stat.isDirectory())
      throw usageError(`${file} is a directory; pass it as --data, or pass the file of a database`);
    return stat.size > 0;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return false;
    if (code === undefined) throw error;
    throw new CliError(EXIT.failed, `cannot read ${file}: ${message}`);
  }
}

/** Opens and closes a store, to create or migrate it. */
export async function preparedStore(url: string, schema?: string): Promise<void> {
  const newSecret = () => randomBytes(24).toString("base64url");
  const store = await openStore({ url, schema, clock: systemClock, random: Math.random, newSecret });
  await store.close();
}
