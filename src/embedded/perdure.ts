/** `Perdure.open()`: an engine in this process, or a server elsewhere, and the library's API on it. */

import type * as api from "../core/api.ts";
import { ConfigError } from "../core/errors.ts";
import { DEFAULTS } from "../engine/limits.ts";
import type { Log } from "../engine/parts.ts";
import { withFields } from "../lib/log.ts";
import { directoryBlobs } from "../store/directory-blobs.ts";
import { type EmbeddedPerdure, embeddedPerdure } from "./embedded-perdure.ts";
import { artifactsDir } from "./job-outputs.ts";
import { type HostEnvironment, openEngine } from "./open-engine.ts";
import { checkOpen, checkRetention, type OpenOptions, thisUser } from "./options.ts";

/** One name for the value and the type: `const perdure: Perdure = await Perdure.open()`.
 *  @example
 *  await using perdure = await Perdure.open("data/jobs.db");
 *  await perdure.work([resize]);
 *  const { width } = await (await perdure.submit(resize, { url })).result(); */
export type Perdure = api.Perdure;
export const Perdure = { open };

/** Opens a store and starts an engine on it, or connects to a server. `Perdure.open()` uses the file `.perdure/perdure.db`. */
async function open(urlOrOptions: string | OpenOptions = {}, ambient?: HostEnvironment): Promise<Perdure> {
  const options = typeof urlOrOptions === "string" ? { url: urlOrOptions } : urlOrOptions;
  if (ambient !== undefined && typeof (ambient as Partial<HostEnvironment>).clock?.now !== "function") {
    const allowed = "one argument: an address, or an object as in { url, token }";
    throw new ConfigError({ path: "open", given: "a second argument", problem: "got a second argument", allowed });
  }
  // The address alone decides: a server, or an engine in this process.
  const url = options?.url;
  if (isServer(url)) {
    const { openServer } = await import("./open-server.ts");
    return openServer(url.trim(), options, guarded(options.logger ?? errorsToStderr));
  }
  return openEmbedded(options, ambient);
}

function isServer(url: string | undefined): url is string {
  return /^\s*https?:\/\//i.test(url ?? "");
}

async function openEmbedded(options: OpenOptions, ambient: HostEnvironment | undefined): Promise<EmbeddedPerdure> {
  const {
    leaseMs,
    namespace,
    retention,
    keyWindowMs,
    schema,
    connections,
    dialects,
    by = thisUser(),
  } = checkOpen(options);
  const kept = checkRetention(retention, DEFAULTS.retention);
  const log = guarded(options.logger ?? errorsToStderr);
  const artifacts = artifactsDir(options);
  const blobs = directoryBlobs(artifacts.dir);
  const setup = {
    ...{ url: options.url, schema, connections, log, retention: kept, outputs: () => blobs },
    ...(leaseMs === undefined ? {} : { leaseMs }),
    ...(keyWindowMs === undefined ? {} : { keyWindowMs }),
  };
  const { engine, close } = await openEngine(setup, ambient);
  engine.start();
  return embeddedPerdure({ engine, namespace, log, blobs, by, dialects }, async () => {
    await close();
    await artifacts.remove();
  });
}

/** A logger that throws must not break the operation it logs. */
function guarded(logger: Log): Log {
  return (level, message, fields) => {
    try {
      logger(level, withFields(message, fields));
    } catch {
      // There is nowhere else to report it.
    }
  };
}

const errorsToStderr: Log = (level, message) => {
  if (level === "error") console.error(`perdure: ${message}`);
};
