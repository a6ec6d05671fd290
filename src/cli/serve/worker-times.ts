/** Lease and heartbeat of a worker. Where OPAL's variables are given they say it in its words: the lease lives so many seconds,
 *  is renewed every so many, and a heartbeat comes every so many; one sign of life does for both here. */
import type { Config } from "../config/config.ts";

export function workerTimes(config: Config): { readonly lease?: number; readonly heartbeat: number } {
  const heartbeat = config.durationMs("worker.heartbeat");
  const lease = config.durationMs("worker.lease");
  const renewals = (["opal.leaseRenewSecs", "opal.heartbeatIntervalSecs"] as const).filter((key) => config.isSet(key));
  const beats = config.isSet("worker.heartbeat") ? [] : renewals.map((key) => config.integer(key) * 1_000);
  const ttl =
    lease === undefined && config.isSet("opal.leaseTtlSecs") ? config.integer("opal.leaseTtlSecs") * 1_000 : lease;
  return {
    heartbeat: beats.length === 0 ? heartbeat : Math.min(...beats),
    ...(ttl === undefined ? {} : { lease: ttl }),
  };
}
