/** A server in this process: store, engine, tokens and HTTP, opened in this order and closed in reverse. */

import { randomBytes } from "node:crypto";
import { dirname, resolve } from "node:path";
import type { DialectServing } from "../../dialects/cli/dialect-cli.ts";
import { DIALECT_CLIS, dialectSettingsOf } from "../../dialects/cli/registry.ts";
import { type OpenedEngine, openEngine } from "../../embedded/open-engine.ts";
import { checkHost } from "../../server/http-server.ts";
import type { ServerLog } from "../../server/log.ts";
import { createServer } from "../../server/server.ts";
import { TokenBook } from "../../server/tokens.ts";
import { holdLock, isPostgres as isPostgresUrl, makeFolderDurablySync } from "../../store/open.ts";
import type { CommandContext } from "../command.ts";
import { type Config, factsOf } from "../config/config.ts";
import { CliError, EXIT, requirementError, usageError } from "../exit.ts";
import { readBounded } from "../input/read-file.ts";
import { type DataDir, dataAt, makeDataDirectory } from "../target/data-directory.ts";
import { rememberDatabase, ServerClaim } from "../target/server-notes.ts";
import { databaseTarget, dataTarget, type StoreTarget } from "../target/store-target.ts";
import { type OwnTokens, ownTokens } from "../target/token-file.ts";
import { version } from "../version.ts";
import { outputsOf } from "./outputs.ts";
import { givenSecrets, Signing, secretFileOf } from "./signing.ts";

export interface RunningServer {
  readonly url: string;
  /** The address for processes on this machine. */
  readonly localUrl: string;
  readonly dir: string;
  /** The database, without a password. */
  readonly store: string;
  readonly tokens: OwnTokens;
  readonly engine: OpenedEngine["engine"];
  /** Accepts no more requests, answers those in progress, and closes everything. */
  stop(graceMs: number): Promise<void>;
}

export async function startServing(
  { io }: CommandContext,
  config: Config,
  log: ServerLog,
  { hasWorkers }: { readonly hasWorkers: boolean },
): Promise<RunningServer> {
  // Before anything is written, such as a signing secret.
  const listen = {
    ...{ host: config.text("server.host"), port: config.integer("server.port") },
    ...{ tls: tlsOf(config, io.cwd), insecure: config.flag("server.insecure") },
  };
  checkHost(listen);
  const dir = makeDataDirectory(dataAt(config.text("data"), config.sourceOf("data"), io.cwd));
  const target = storeOf(config, dir, io.cwd);
  const isPostgres = isPostgresUrl(target.url);
  const store = target.isData ? dir.file : target.shown;
  const dialects = dialectSettingsOf(config, io.cwd);
  const closing: (() => unknown)[] = [];
  const close = async () => {
    for (const step of closing.reverse()) await step();
  };
  try {
    const servings: DialectServing[] = [];
    for (const { serve } of DIALECT_CLIS) {
      const serving = await serve?.({ config, cwd: io.cwd, log, folders: ownFolders(config, dir) });
      if (serving === undefined) continue;
      servings.push(serving);
      closing.push(() => serving.close?.());
    }
    const claim = await claimed(dir.path, isPostgres);
    closing.push(() => claim?.release());
    if (claim !== null) rememberDatabase(dir.path, target.isData ? null : store);
    if (!target.isData && !isPostgres) closing.push(await fileLock(target.url));
    const opened: OpenedEngine = await openEngine({
      url: target.url,
      schema: config.text("schema"),
      connections: undefined,
      log,
      outputs: outputsOf(config.text("server.outputs"), io.cwd, target.url),
      leaseMs: config.durationMs("server.lease"),
      tools: config.labels("playbooks.tools"),
      reapEveryMs: Math.min(...servings.flatMap(({ reapEveryMs }) => reapEveryMs ?? [])),
      observer: {
        reaped(attempts) {
          for (const serving of servings) serving.reaped?.(attempts);
        },
      },
      retention: {
        succeeded: config.durationMs("server.retention.succeeded"),
        failed: config.durationMs("server.retention.failed"),
        cancelled: config.durationMs("server.retention.cancelled"),
      },
    });
    const { engine, outputs } = opened;
    closing.push(() => opened.close());
    const signing = await Signing.open({
      ...{ store: engine.store, clock: engine.clock, log, shown: store },
      ...{ file: secretFileOf(config, dir.path, io.cwd), given: givenSecrets(config) },
    });
    closing.push(() => signing.close());
    const request = { dir: dir.path, now: engine.clock.now, isShared: isPostgres, hasWorkers, log };
    const own = await ownTokens(engine.store, request);
    const tokens = await TokenBook.open({ store: engine.store, clock: engine.clock, randomBytes, log });
    closing.push(() => tokens.close());
    const storeKind = isPostgres ? "postgres" : "sqlite";
    const server = createServer(
      { engine, blobs: outputs, tokens, keys: signing.keys, log, version: version(), storeKind },
      {
        ...listen,
        allowHosts: config.list("server.allowHosts"),
        maxConnections: config.integer("server.maxConnections"),
        maxPerAddress: config.integer("server.maxConnectionsPerAddress"),
        bodyLimit: config.bytes("server.bodyLimit"),
        outputLimit: config.bytes("server.outputLimit"),
        limits: {
          lanesPerToken: config.integer("server.laneQuota"),
          sessionsPerToken: config.integer("server.sessionQuota"),
        },
        dialects,
        settings: factsOf(config),
        routes: (parts) => servings.flatMap((serving) => serving.routes?.(parts) ?? []),
      },
    );
    engine.start();
    for (const serving of servings) {
      const stop = serving.start?.({ engine, blobs: outputs });
      if (stop !== undefined) closing.push(stop);
    }
    const { url, localUrl } = await server.listen().catch((error: unknown) => {
      throw listenError(error, config);
    });
    claim?.listening(localUrl);
    return {
      ...{ url, localUrl, dir: dir.given, tokens: own, engine },
      store,
      async stop(graceMs) {
        await server.stop(graceMs);
        await close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The directories of the server itself. */
function ownFolders(config: Config, dir: DataDir): { readonly what: string; readonly path: string }[] {
  const outputs = config.text("server.outputs");
  const isFolder = outputs !== undefined && outputs !== "database";
  const data = { what: "data directory", path: dir.path };
  return isFolder ? [data, { what: "directory of outputs", path: outputs }] : [data];
}

function storeOf(config: Config, dir: DataDir, cwd: string): StoreTarget {
  const db = config.text("db");
  if (db === undefined) return dataTarget(dir, "");
  return databaseTarget({ db, from: config.sourceOf("db"), schema: config.text("schema"), dir, namespace: "", cwd });
}

/** Claims the directory. A SQLite file has one server; of a PostgreSQL database there may be many, and only one can claim
 *  the directory. */
async function claimed(dir: string, isPostgres: boolean): Promise<ServerClaim | null> {
  try {
    return await ServerClaim.take(dir);
  } catch (error) {
    if (isPostgres && error instanceof CliError) return null;
    throw error;
  }
}

/** Locks a database file outside the data directory, so that two directories cannot both serve it. */
async function fileLock(file: string): Promise<() => void> {
  makeFolderDurablySync(dirname(file));
  const release = await holdLock(`${file}.server-lock`);
  if (release !== null) return release;
  throw new CliError(EXIT.failed, `${file} is in use by another server; stop it first, or pass another with --db`);
}

function tlsOf(config: Config, cwd: string): { readonly cert: string; readonly key: string } | null {
  const cert = config.text("server.tls.cert");
  const key = config.text("server.tls.key");
  if (cert === undefined && key === undefined) return null;
  if (cert === undefined) throw requirementError("--tls-key", "--tls-cert");
  if (key === undefined) throw requirementError("--tls-cert", "--tls-key");
  return { cert: pem(cert, "--tls-cert", cwd), key: pem(key, "--tls-key", cwd) };
}

/** A chain of certificates has a few kilobytes. */
const MAX_PEM_BYTES = 1_048_576;

function pem(path: string, option: string, cwd: string): string {
  try {
    return readBounded(resolve(cwd, path), MAX_PEM_BYTES, path).toString("utf8");
  } catch (error) {
    throw usageError(`${option}: cannot read ${path}: ${(error as Error).message}`);
  }
}

function listenError(error: unknown, config: Config): unknown {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  const where = `${config.text("server.host")}, port ${config.integer("server.port")}`;
  if (code === "EADDRINUSE") return new CliError(EXIT.failed, `${where} is in use; choose another with --port, or 0`);
  if (code === "EACCES") return usageError(`${where}: not allowed (EACCES); choose a port from 1024 on with --port`);
  if (code === "EADDRNOTAVAIL" || code === "ENOTFOUND") {
    return usageError(`--host: this machine has no address ${config.text("server.host")} (${code})`);
  }
  return error;
}
