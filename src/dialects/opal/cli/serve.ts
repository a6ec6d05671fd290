/** OPAL in a server: its options from the settings, its routes, the runtime directory and the log of reclaims. */
import { realpathSync } from "node:fs";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import type { Config } from "../../../cli/config/config.ts";
import { usageError } from "../../../cli/exit.ts";
import { holdLock, MirrorFolder, MirrorRefused } from "../../../store/open.ts";
import type { DialectServing, ServerStart } from "../../cli/dialect-cli.ts";
import { ReclaimLog } from "../server/reclaim.ts";
import { opalRoutes } from "../server/routes.ts";
import { RUNTIME_FOLDERS } from "../server/runtime-files.ts";
import { RuntimeFolder } from "../server/runtime-folder.ts";
import type { OpalOptions } from "../server/submit.ts";
import { checkTogether, OPAL_DEFAULTS, type OpalSettings } from "../settings.ts";

export async function serveOpal({ config, cwd, log, folders }: ServerStart): Promise<DialectServing> {
  const options = opalOptions(config);
  const routes = opalRoutes(options, config.text("server.host"));
  const files = await openRuntimeFolder(config, cwd, folders);
  const reclaims = new ReclaimLog(log);
  return {
    routes,
    reapEveryMs: reapEveryMs(options),
    reaped: (attempts) => reclaims.reaped(attempts),
    start({ engine, blobs }) {
      reclaims.start(engine.store);
      const runtime = files === null ? null : new RuntimeFolder({ engine, blobs, files, log });
      runtime?.start();
      return async () => runtime?.stop();
    },
    close: () => files?.close(),
  };
}

// Opens the folder of `opal.runtime`, or refuses it, before the server makes or opens anything else.

const MARK = {
  name: ".perdure-opal-runtime",
  text: "A copy of OPAL's jobs, written by a Perdure server and never read by it. It can be deleted at any time.\n",
};

/** Null if it is not configured. `others` are directories of the server, which it must not share. */
export async function openRuntimeFolder(
  config: Config,
  cwd: string,
  others: readonly { readonly what: string; readonly path: string }[],
): Promise<MirrorFolder | null> {
  const given = config.text("opal.runtime");
  if (given === undefined) return null;
  const blame = config.blameOf("opal.runtime");
  if (given.trim() === "" || given.includes("\0")) throw usageError(`${blame}: must be a directory; got an empty text`);
  const path = resolve(cwd, given);
  for (const { what, path: other } of others) {
    const [ours, theirs] = [real(path), real(resolve(cwd, other))];
    const where = isWithin(ours, theirs) ? "lies within" : isWithin(theirs, ours) ? "contains" : null;
    if (where !== null) throw usageError(`${blame}: ${given} ${where} the ${what} ${other}; name another directory`);
  }
  try {
    return await MirrorFolder.open(path, { folders: RUNTIME_FOLDERS, mark: MARK, lock: holdLock });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (error instanceof MirrorRefused) throw usageError(`${blame}: ${message}`);
    throw usageError(`${blame}: ${given} cannot be used (${code ?? message}); name another directory`);
  }
}

/** Its real path, even if its last parts do not exist yet. */
function real(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return dirname(path) === path ? path : join(real(dirname(path)), basename(path));
  }
}

function isWithin(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === "" || (way !== ".." && !way.startsWith(`..${sep}`));
}

// OPAL's routes, as configured.

/** OPAL's workers scan for expired leases every N turns of their loop. Ours have no loop; a turn counts as this many
 *  milliseconds. */
const LOOP_MS = 100;

export function opalOptions(config: Config): OpalOptions {
  const engine = config.list("opal.engine");
  const settings: OpalSettings = {
    maxRetries: config.integer("opal.maxRetries"),
    backoffs: config.numbers("opal.retryBackoffs") ?? OPAL_DEFAULTS.backoffs,
    leaseTtlSecs: config.number("opal.leaseTtlSecs"),
    leaseRenewSecs: config.number("opal.leaseRenewSecs"),
    reclaimScanEveryLoops: config.integer("opal.reclaimScanEveryLoops"),
    heartbeatIntervalSecs: config.number("opal.heartbeatIntervalSecs"),
    workerTtlSecs: config.number("opal.workerTtlSecs"),
  };
  checkTogether(settings);
  return { engine: engine.length === 0 ? null : engine, anonymous: config.flag("opal.anonymous"), settings };
}

/** More than a second has no effect: the engine scans that often anyway. */
export function reapEveryMs({ settings }: OpalOptions): number {
  return settings.reclaimScanEveryLoops * LOOP_MS;
}
