/** What a command speaks to: a server, or data on this machine. An option wins over the environment and the file of settings;
 *  data whose server is at work is reached through that server.
 *
 *  A token goes only where a person sends it: to an address that was given by option or environment, or to this machine. No
 *  file that lies in a directory can have it sent elsewhere. */
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { PerdureError } from "../core/errors.ts";
import type { Perdure } from "../core/face.ts";
import type { Context, Option } from "./command.ts";
import { type Config, loadConfig } from "./config/config.ts";
import { optionsFor } from "./config/options.ts";
import type { Key } from "./config/settings.ts";
import { type DataDir, dataAt, withDataAt } from "./data.ts";
import { CliError, EXIT, usageError } from "./exit.ts";
import { refuseElsewhere } from "./serve/elsewhere.ts";
import { TOKEN_FILE } from "./serve/first-token.ts";
import { liveServer } from "./serve/server-file.ts";
import { readTokenFile } from "./serve/token-file.ts";

const KEYS = ["url", "token", "tokenFile", "namespace", "data"] as const satisfies readonly Key[];

/** The options of every command that looks at jobs or changes them. */
export const TARGET: readonly Option[] = optionsFor(KEYS);

export type Target =
  | { readonly kind: "server"; readonly url: string; readonly token: string; readonly namespace: string }
  | { readonly kind: "data"; readonly dir: DataDir; readonly namespace: string };

export function targetOf(context: Pick<Context, "given" | "io">): Target {
  const config = loadConfig(context, KEYS);
  const dir = dataAt(config.text("data"), config.sourceOf("data"), context.io.cwd);
  const namespace = config.text("namespace");
  const url = config.text("url");
  const isByOption = (key: Key) => config.sourceOf(key).startsWith("--");
  // Who names a directory on the command line means it, whatever the environment says of servers.
  if (url !== undefined && (isByOption("url") || !isByOption("data"))) {
    return { kind: "server", url, token: tokenFor({ url, from: chosenBy(context, config) }, config, dir), namespace };
  }
  const live = liveAddress(dir);
  if (live === null) {
    refuseElsewhere(dir);
    return { kind: "data", dir, namespace };
  }
  return { kind: "server", url: live.url, token: tokenFor(live, config, dir), namespace };
}

/** Where an address came from: `--server`, `PERDURE_URL`, a file of settings, or the file that a server left in its data. */
export interface Address {
  readonly url: string;
  readonly from: string;
}

/** What named the server. A file of settings that was itself named by a person counts as their word. */
export function chosenBy({ given, io }: Pick<Context, "given" | "io">, config: Config): string {
  const source = config.sourceOf("url");
  if (fileIn(source) === null) return source;
  if (given.text("config") !== undefined) return "--config";
  return io.env.PERDURE_CONFIG ? "PERDURE_CONFIG" : source;
}

/** The server at work on a directory. Only one of this machine: whoever wrote the file may have written any address. */
export function liveAddress(dir: DataDir): Address | null {
  const url = liveServer(dir.path)?.url ?? null;
  return url !== null && isThisMachine(url) ? { url, from: join(dir.given, "server.json") } : null;
}

export function tokenFor(address: Address, config: Config, dir: DataDir): string {
  const { url, from } = address;
  const given = config.text("token");
  const named = config.text("tokenFile");
  if (given !== undefined && !config.sourceOf("tokenFile").startsWith("--")) {
    // A file may hold an address and the token for it; it may not choose who gets a token from elsewhere.
    const source = config.sourceOf("token");
    if (fileIn(source) === null || fileIn(source) !== fileIn(from)) refuseCollector(address, source);
    return given;
  }
  if (named !== undefined) {
    refuseCollector(address, config.sourceOf("tokenFile"));
    const token = readTokenFile(named);
    if (token === null) throw usageError(`${config.sourceOf("tokenFile")}: there is no file ${named}`);
    return token;
  }
  const own = isThisMachine(url) ? readTokenFile(join(dir.path, TOKEN_FILE)) : null;
  if (own !== null) return own;
  throw usageError(
    `no token for ${new URL(url).origin}: set PERDURE_TOKEN, or name a file that holds it with --token-file`,
  );
}

/** A file that merely lies in a directory, as in one that was downloaded, must not be able to choose who gets a token. */
function refuseCollector({ url, from }: Address, token: string): void {
  if (from.startsWith("--") || /^[A-Z_]+$/.test(from) || isThisMachine(url)) return;
  throw usageError(
    `the address ${new URL(url).origin} is from ${from}, and the token from ${token}: name the server with --server or PERDURE_URL too, so that a file that lies in a directory cannot collect tokens`,
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

/** Opens the target for as long as `use` takes. */
export async function withPerdure<T>(context: Context, use: (perdure: Perdure) => Promise<T>): Promise<T> {
  const target = targetOf(context);
  if (target.kind === "data") return withDataAt(context, target.dir, target.namespace, use);
  return withServer(target, use);
}

/** Somebody sits there: a server that is being started again is waited for, one that is not there is told of soon. */
const PATIENCE = "3s";

/** A client for as long as `use` takes. What the server says of tokens, and that it cannot be reached, is told in words for
 *  a person. */
export async function withServer<T>(
  { url, token, namespace }: Extract<Target, { kind: "server" }>,
  use: (perdure: Perdure) => Promise<T>,
): Promise<T> {
  const { Perdure: Client } = await import("../client/connect.ts");
  await using perdure = await Client.connect(url, { token, namespace, patience: PATIENCE });
  try {
    return await use(perdure);
  } catch (error) {
    throw error instanceof PerdureError ? inOurWords(error, new URL(url).origin) : error;
  }
}

function inOurWords(error: PerdureError, origin: string): Error {
  switch (error.code) {
    case "server_unreachable":
      return new CliError(
        EXIT.failed,
        `${error.message}. Is it running? Start one with \`perdure up\`, or check --server`,
      );
    case "unauthorized":
      return new CliError(
        EXIT.failed,
        `${origin} does not know this token: set PERDURE_TOKEN, or name a file that holds another with --token-file`,
      );
    default:
      return error;
  }
}
