/** OPAL's door as the settings have it. */
import { checkTogether, OPAL_DEFAULTS, type OpalSettings } from "../../dialects/opal/settings.ts";
import type { OpalOptions } from "../../server/opal/options.ts";
import type { Config } from "../config/config.ts";

/** OPAL's workers look for expired leases every so many turns of their loop. Ours have no loop; a turn is taken as this. */
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

/** More than a second changes nothing: the engine looks that often by itself. */
export function reapEveryMs({ settings }: OpalOptions): number {
  return settings.reclaimScanEveryLoops * LOOP_MS;
}
