/** Lease and heartbeat of a worker. Where OPAL's variables are given they say it in its words: the lease lives so many seconds,
 *  is renewed every so many, and a heartbeat comes every so many; one sign of life does for both here. What is said in our
 *  own words goes before. */
import type { Config } from "../config/config.ts";

export function workerTimes(config: Config): { readonly lease?: number; readonly heartbeat: number } {
  const inMs = (key: "opal.leaseTtlSecs" | "opal.leaseRenewSecs" | "opal.heartbeatIntervalSecs") =>
    config.isSet(key) ? [Math.round(config.number(key) * 1_000)] : [];
  const beats = config.isSet("worker.heartbeat")
    ? []
    : [...inMs("opal.leaseRenewSecs"), ...inMs("opal.heartbeatIntervalSecs")];
  const lease = config.durationMs("worker.lease") ?? inMs("opal.leaseTtlSecs")[0];
  return {
    heartbeat: beats.length === 0 ? config.durationMs("worker.heartbeat") : Math.min(...beats),
    ...(lease === undefined ? {} : { lease }),
  };
}
