/** What a command works on: a server, or a store that it opens itself. What is named by option wins over the environment, and
 *  that over the settings file; of a server and a database named in the same way, the server. `--data` wins over what is not an
 *  option. A data directory whose server is running is reached through that server, and so is the database of that
 *  server, unless `--db` names it: that always opens the database itself.
 *
 *  A token goes only to an address from the same source. One that a person names goes to an address that a person names, by option
 *  or environment; that of a data directory to the server of that directory; one in a settings file to the address in that file.
 *  No file that lies in a directory can have a token sent anywhere else, on this machine or another. The same holds for
 *  PGPASSWORD. */
import { fstatSync, statSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { basename, dirname, join } from "node:path";
import type { Perdure } from "../../core/api.ts";
import { PerdureError } from "../../core/errors.ts";
import { isPostgres } from "../../store/open.ts";
import type { CommandContext, CommandOption } from "../command.ts";
import { type Config, loadConfig, optionsFor } from "../config/config.ts";
import { type SettingKey, settingOf } from "../config/settings.ts";
import { CliError, conflictError, EXIT, missingFileError, usageError } from "../exit.ts";
import { requireClosed, requireOwned } from "../input/read-file.ts";
import { DATABASE, type DataDir, dataAt } from "./data-directory.ts";
import { databaseOf, liveServer, refuseOtherDatabase, SERVER_FILE } from "./server-notes.ts";
import { databaseTarget, dataTarget, type StoreTarget } from "./store-target.ts";
import { readTokenFile, TOKEN_FILE } from "./token-file.ts";

const KEYS = [
  "url",
  "token",
  "tokenFile",
  "namespace",
  "data",
  "db",
  "schema",
] as const satisfies readonly SettingKey[];

/** The options of every command that reads or changes jobs. */
export const TARGET: readonly CommandOption[] = optionsFor(KEYS);

export interface ServerTarget {
  readonly kind: "server";
  readonly url: string;
  readonly token: string;
  readonly namespace: string;
}

export type Target = ServerTarget | StoreTarget;

export function targetOf(context: Pick<CommandContext, "given" | "io">): Target {
  const config = loadConfig(context, KEYS);
  const isByOption = (key: SettingKey) => config.sourceOf(key).startsWith("--");
  const rival = (["url", "data"] as const).find((key) => isByOption("db") && isByOption(key));
  if (rival !== undefined) throw conflictError("--db", `--${settingOf(rival).flag}`);
  const dir = dataAt(config.text("data"), config.sourceOf("data"), context.io.cwd);
  const namespace = config.text("namespace");
  const through = (address: TargetAddress): Target => {
    return { kind: "server", ...accessTo(address, config, dir), namespace };
  };
  const [url, db] = [config.text("url"), config.text("db")];
  // Who names a directory on the command line means it, whatever the environment says of servers and databases.
  if (db !== undefined && rankOf(config, "db") > rankOf(config, "url") && !isByOption("data")) {
    const from = chosenBy(context, config, "db");
    const target = databaseTarget({
      ...{ db, from, schema: config.text("schema"), dir, namespace, cwd: context.io.cwd },
    });
    refusePassword(context, config);
    const live = isByOption("db") ? null : serverOn(target);
    return live === null ? target : through(live);
  }
  if (url !== undefined && (isByOption("url") || !isByOption("data"))) {
    return through({ url, from: chosenBy(context, config) });
  }
  const live = liveAddress(dir);
  if (live !== null) return through(live);
  refuseOtherDatabase(dir);
  return dataTarget(dir, namespace);
}

/** An option, the environment, the settings file, nothing. */
function rankOf(config: Config, key: SettingKey): number {
  const source = config.sourceOf(key);
  if (source.startsWith("--")) return 3;
  return fileIn(source) !== null ? 1 : config.isSet(key) ? 2 : 0;
}

/** The running server of this database: that of the data directory if it was given the database, or of the directory that the
 *  file lies in. */
function serverOn({ shown, url, dir }: StoreTarget): TargetAddress | null {
  if (databaseOf(dir.path) === shown) return liveAddress(dir);
  if (isPostgres(url) || basename(url) !== DATABASE || databaseOf(dirname(url)) !== null) return null;
  const around = dirname(url);
  return liveAddress(url === dir.file ? dir : { given: around, from: null, path: around, file: url });
}

/** A file that merely lies in a directory must not choose who is sent the password in the environment. For every command that
 *  opens the database of its settings, except `up`. */
export function refusePassword(context: Pick<CommandContext, "given" | "io">, config: Config): void {
  const url = config.text("db")?.trim() ?? "";
  const from = chosenBy(context, config, "db");
  if (!context.io.env.PGPASSWORD || !isPostgres(url) || fileIn(from) === null || !URL.canParse(url)) return;
  const host = hostIn(new URL(url));
  // Only a password before the host is sure to be used in place of that variable.
  if (host === null || new URL(url).password !== "") return;
  throw usageError(
    `the database on ${host} is from ${from}, and PGPASSWORD from the environment: name the database with --db or PERDURE_DB too, so that a file in a directory cannot collect passwords`,
  );
}

/** The host of a PostgreSQL address, or what takes its place in the query: the driver reads that first. A port alone leads to
 *  another program too. */
function hostIn({ hostname, searchParams }: URL): string | null {
  const [host] = ["host", "hostaddr", "port"].flatMap((name) =>
    searchParams.getAll(name).flatMap((value) => (value === "" ? [] : [name === "port" ? `port ${value}` : value])),
  );
  return host ?? (hostname === "" ? null : hostname);
}

/** Where an address came from: `--server`, `PERDURE_URL`, a file of settings, or the file that a server left in its data. */
export interface TargetAddress {
  readonly url: string;
  readonly from: string;
  /** The directory whose server it is, where that was found by its file. */
  readonly dir?: DataDir;
}

/** What named the server, or the database. A settings file that was itself named by a person counts as their choice. */
export function chosenBy(
  { given, io }: Pick<CommandContext, "given" | "io">,
  config: Config,
  key: SettingKey = "url",
): string {
  const source = config.sourceOf(key);
  if (fileIn(source) === null) return source;
  if (given.text("config") !== undefined) return "--config";
  return io.env.PERDURE_CONFIG ? "PERDURE_CONFIG" : source;
}

/** The server at work on a directory. Only one of this machine: whoever wrote the file may have written any address. */
export function liveAddress(dir: DataDir): TargetAddress | null {
  const from = join(dir.given, SERVER_FILE);
  const url = liveServer(dir.path, (descriptor, path) => requireOwnedData(descriptor, path, from, dir))?.url ?? null;
  return url !== null && isThisMachine(url) ? { url, from, dir } : null;
}

/** What to do about a file without a token, as a power cut may leave it. */
const EMPTY_OWN =
  "restart the server of this directory (`perdure up` or `perdure server`), which creates a new token there";
const EMPTY_NAMED =
  "create a new token with `perdure token create NAME --scope SCOPE > FILE` (if the file is in the data directory of a " +
  "server, restart that server: it creates a new one)";

/** A directory that a person names may be another user's, as root names that of a service: then its note of the server and
 *  its token must belong to one owner. */
function requireOwnedData(descriptor: number, path: string, shown: string, dir: DataDir): void {
  requireClosed(statSync(dir.path), dir.given);
  const ownerOf = (name: string) => statSync(join(dir.path, name), { throwIfNoEntry: false })?.uid;
  const owners = [TOKEN_FILE, SERVER_FILE].map(ownerOf);
  if (isChoice(dir.from ?? "") && owners.every((uid) => uid === fstatSync(descriptor).uid)) return;
  requireOwned(descriptor, path, shown, `if you trust it, name its directory with --data ${dir.given}`);
}

/** The address to call, and the token for it. */
export function accessTo(
  address: TargetAddress,
  config: Config,
  dir: DataDir,
): { readonly url: string; readonly token: string } {
  const { url, from } = address;
  const given = config.text("token");
  const named = config.text("tokenFile");
  // Who names a directory on the command line means its server, and its token too, whatever the environment has for others.
  const isOwn = address.dir?.from?.startsWith("--") && !config.sourceOf("tokenFile").startsWith("--");
  if (isOwn) return ownAccess(address, dir);
  if (given !== undefined && !config.sourceOf("tokenFile").startsWith("--")) {
    // A file may hold an address and the token for it; it may not choose who gets a token from elsewhere.
    const source = config.sourceOf("token");
    if (fileIn(source) === null || fileIn(source) !== fileIn(from)) refuseCollector(address, source);
    return { url, token: given };
  }
  if (named !== undefined) {
    refuseCollector(address, config.sourceOf("tokenFile"));
    const token = readTokenFile(named, EMPTY_NAMED);
    if (token === null) throw missingFileError(named, "pass another", config.sourceOf("tokenFile"));
    return { url, token };
  }
  return ownAccess(address, address.dir ?? dir);
}

/** The token of a data directory is for the server of that directory, and for nobody else that listens on this machine. */
function ownAccess(address: TargetAddress, dir: DataDir): { readonly url: string; readonly token: string } {
  const live = address.dir === undefined ? liveAddress(dir) : address;
  const path = join(dir.path, TOKEN_FILE);
  if (live !== null && isSameServer(address.url, live.url)) {
    const token = readTokenFile(path, EMPTY_OWN, (descriptor) => requireOwnedData(descriptor, path, path, dir));
    // By the address that the server wrote: of the two that `localhost` stands for, another program may have one.
    if (token !== null) return { url: live.url, token };
  }
  const { origin } = new URL(address.url);
  const other = live === null ? "" : ` (that in ${dir.given} is for ${live.url})`;
  throw usageError(`no token for ${origin}${other}: set PERDURE_TOKEN, or pass a file with it as --token-file`);
}

function isSameServer(url: string, live: string): boolean {
  const [a, b] = [new URL(url), new URL(live)];
  const isNamedSo = a.hostname === b.hostname || (a.hostname === "localhost" && b.hostname === "127.0.0.1");
  return isNamedSo && a.protocol === b.protocol && a.port === b.port && a.username === "" && a.password === "";
}

/** Named by a person: an option or a variable, and not a file. */
function isChoice(from: string): boolean {
  return from.startsWith("--") || /^[A-Z_]+$/.test(from);
}

/** A file that merely lies in a directory, as in one that was downloaded, must not be able to choose who gets a token. */
function refuseCollector({ url, from }: TargetAddress, token: string): void {
  if (isChoice(from)) return;
  throw usageError(
    `the address ${new URL(url).origin} is from ${from}, and the token from ${token}: name the server with --server or PERDURE_URL too, so that a file in a directory cannot collect tokens`,
  );
}

/** `perdure.yaml` of `perdure.yaml:3`; null for options and variables. */
function fileIn(source: string): string | null {
  return /^(.+):\d+$/.exec(source)?.[1] ?? null;
}

/** Its loopback, or an address that one of its interfaces has. What another name leads to is not known. */
export function isThisMachine(url: string): boolean {
  const { hostname } = new URL(url);
  if (/^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname)) return true;
  const address = hostname.replaceAll(/[[\]]/g, "");
  return Object.values(networkInterfaces()).some((each) => each?.some((own) => own.address === address));
}

/** Opens the target for as long as `use` takes. With `allNamespaces` a server is asked for all that the token may see. */
export async function withPerdure<T>(
  context: CommandContext,
  use: (perdure: Perdure) => Promise<T>,
  { allNamespaces = false } = {},
): Promise<T> {
  const target = targetOf(context);
  if (target.kind === "server") return withServer(allNamespaces ? { ...target, namespace: null } : target, use);
  // Loaded here: a client of a server does not need it.
  const { withStore } = await import("./open-store.ts");
  return withStore(context, target, use);
}

/** Long enough for a server that restarts, short enough for a person to wait for the error. */
const PATIENCE = "3s";

/** A client for as long as `use` takes. Errors about tokens, and an unreachable server, get messages with what to do. */
export async function withServer<T>(
  { url, token, namespace }: Pick<ServerTarget, "url" | "token"> & { readonly namespace: string | null },
  use: (perdure: Perdure) => Promise<T>,
): Promise<T> {
  const { Perdure: Client } = await import("../../client/connect.ts");
  await using perdure = await Client.connect(url, {
    ...{ token, patience: PATIENCE },
    ...(namespace === null ? {} : { namespace }),
  });
  try {
    return await use(perdure);
  } catch (error) {
    throw error instanceof PerdureError ? plainServerError(error, new URL(url).origin) : error;
  }
}

function plainServerError(error: PerdureError, origin: string): Error {
  switch (error.code) {
    case "server_unreachable":
      return new CliError(
        EXIT.failed,
        `${error.message}. Is it running? Start one with \`perdure up\`, or check --server`,
      );
    case "unauthorized":
      return new CliError(
        EXIT.failed,
        `${origin} refused the token: it is not known there; set PERDURE_TOKEN, or pass a file with another as --token-file`,
      );
    default:
      return error;
  }
}
