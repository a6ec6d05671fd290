/** Selects the server or store of a command. Options override the environment, which overrides the settings file; at the
 *  same level a server overrides a database. A data directory or database with a running server is reached through that
 *  server, except with `--db`. A token (or PGPASSWORD) is sent only to an address from an equally trusted source: no file in
 *  a directory can have it sent elsewhere. */
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
  // `--data` overrides servers and databases of the environment.
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

/** Option, environment, settings file, none. */
function rankOf(config: Config, key: SettingKey): number {
  const source = config.sourceOf(key);
  if (source.startsWith("--")) return 3;
  return fileIn(source) !== null ? 1 : config.isSet(key) ? 2 : 0;
}

/** The running server of this database: that of the data directory if it uses the database, or of the directory that
 *  contains the file. */
function serverOn({ shown, url, dir }: StoreTarget): TargetAddress | null {
  if (databaseOf(dir.path) === shown) return liveAddress(dir);
  if (isPostgres(url) || basename(url) !== DATABASE || databaseOf(dirname(url)) !== null) return null;
  const around = dirname(url);
  return liveAddress(url === dir.file ? dir : { given: around, from: null, path: around, file: url });
}

/** A settings file found in a directory must not choose who receives the password of the environment. Called by every
 *  command that opens the database of its settings, except `up`. */
export function refusePassword(context: Pick<CommandContext, "given" | "io">, config: Config): void {
  const url = config.text("db")?.trim() ?? "";
  const from = chosenBy(context, config, "db");
  if (!context.io.env.PGPASSWORD || !isPostgres(url) || fileIn(from) === null || !URL.canParse(url)) return;
  const host = hostIn(new URL(url));
  // Only a password before the host is certain to replace that variable.
  if (host === null || new URL(url).password !== "") return;
  throw usageError(
    `the database on ${host} is from ${from}, and PGPASSWORD from the environment: name the database with --db or PERDURE_DB too, so that a file in a directory cannot collect passwords`,
  );
}

/** The host of a PostgreSQL address, or the query parameter that overrides it. A port alone may also select another program. */
function hostIn({ hostname, searchParams }: URL): string | null {
  const [host] = ["host", "hostaddr", "port"].flatMap((name) =>
    searchParams.getAll(name).flatMap((value) => (value === "" ? [] : [name === "port" ? `port ${value}` : value])),
  );
  return host ?? (hostname === "" ? null : hostname);
}

/** An address and its source: `--server`, `PERDURE_URL`, a settings file, or the note of a running server in its data
 *  directory. */
export interface TargetAddress {
  readonly url: string;
  readonly from: string;
  /** The data directory of the server, if the address came from its note. */
  readonly dir?: DataDir;
}

/** The source of the server or database. A settings file that a person named counts as their choice. */
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

/** The running server of a directory; only on this machine, as the note could contain any address. */
export function liveAddress(dir: DataDir): TargetAddress | null {
  const from = join(dir.given, SERVER_FILE);
  const url = liveServer(dir.path, (descriptor, path) => requireOwnedData(descriptor, path, from, dir))?.url ?? null;
  return url !== null && isThisMachine(url) ? { url, from, dir } : null;
}

/** Advice for an empty token file, as a power cut may leave it. */
const EMPTY_OWN =
  "restart the server of this directory (`perdure up` or `perdure server`), which creates a new token there";
const EMPTY_NAMED =
  "create a new token with `perdure token create NAME --scope SCOPE > FILE` (if the file is in the data directory of a " +
  "server, restart that server: it creates a new one)";

/** A directory that a person names may belong to another user, as when root names that of a service: then its server note
 *  and its token must have the same owner. */
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
  // `--data` selects its server and its token, even if the environment has others.
  const isOwn = address.dir?.from?.startsWith("--") && !config.sourceOf("tokenFile").startsWith("--");
  if (isOwn) return ownAccess(address, dir);
  if (given !== undefined && !config.sourceOf("tokenFile").startsWith("--")) {
    // A file may contain an address and its token; it must not choose who receives a token from elsewhere.
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

/** The token of a data directory is sent only to the server of that directory, not to other programs listening on this
 *  machine. */
function ownAccess(address: TargetAddress, dir: DataDir): { readonly url: string; readonly token: string } {
  const live = address.dir === undefined ? liveAddress(dir) : address;
  const path = join(dir.path, TOKEN_FILE);
  if (live !== null && isSameServer(address.url, live.url)) {
    const token = readTokenFile(path, EMPTY_OWN, (descriptor) => requireOwnedData(descriptor, path, path, dir));
    // Uses the address from the server's note: `localhost` has two addresses, and another program may listen on one.
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

/** Named by a person: by an option or variable, not by a file. */
function isChoice(from: string): boolean {
  return from.startsWith("--") || /^[A-Z_]+$/.test(from);
}

/** A settings file found in a directory, as in a download, must not choose who receives a token. */
function refuseCollector({ url, from }: TargetAddress, token: string): void {
  if (isChoice(from)) return;
  throw usageError(
    `the address ${new URL(url).origin} is from ${from}, and the token from ${token}: name the server with --server or PERDURE_URL too, so that a file in a directory cannot collect tokens`,
  );
}

/** `perdure.yaml` from `perdure.yaml:3`; null for options and variables. */
function fileIn(source: string): string | null {
  return /^(.+):\d+$/.exec(source)?.[1] ?? null;
}

/** A loopback address, or an address of one of its interfaces. Other names are not resolved. */
export function isThisMachine(url: string): boolean {
  const { hostname } = new URL(url);
  if (/^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname)) return true;
  const address = hostname.replaceAll(/[[\]]/g, "");
  return Object.values(networkInterfaces()).some((each) => each?.some((own) => own.address === address));
}

/** Opens the target while `use` runs. With `allNamespaces` a server returns everything that the token may read. */
export async function withPerdure<T>(
  context: CommandContext,
  use: (perdure: Perdure) => Promise<T>,
  { allNamespaces = false } = {},
): Promise<T> {
  const target = targetOf(context);
  if (target.kind === "server") return withServer(allNamespaces ? { ...target, namespace: null } : target, use);
  // Loaded on demand: a client of a server does not need it.
  const { withStore } = await import("./open-store.ts");
  return withStore(context, target, use);
}

/** Long enough for a restarting server, short enough for a person to wait for the error. */
const PATIENCE = "3s";

/** A client while `use` runs. Errors about tokens and unreachable servers get messages with advice. */
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
