/** Settings of OPAL's dialect, under the names that OPAL reads. Their limits are those of `dialects/opal/settings.ts`,
 *  which reads them from an OPAL file. */
import type { Setting } from "../../../cli/config/setting.ts";

const DAY_SECS = 86_400;
/** A lease is at most an hour, and a worker must report within it. */
const SECS = { type: "number", min: 0.1, max: 3_600 } as const;

export const OPAL_SETTINGS = [
  {
    key: "opal.engine",
    env: "PERDURE_OPAL_ENGINE",
    type: "argv",
    help: "The program that runs OPAL's jobs, with its arguments.",
  },
  {
    key: "opal.anonymous",
    flag: "opal-anonymous",
    env: "PERDURE_OPAL_ANONYMOUS",
    type: "boolean",
    default: false,
    help: "Serve OPAL's clients without a token.",
  },
  {
    key: "opal.runtime",
    flag: "opal-runtime",
    env: "PERDURE_OPAL_RUNTIME",
    type: "text",
    value: "DIR",
    help: "Keep a copy of OPAL's jobs, attempts, outputs and worker logs in this directory. Made if it does not exist.",
  },
  {
    key: "opal.maxRetries",
    env: "OPAL_MAX_RETRIES",
    type: "integer",
    min: 0,
    max: 1_000_000,
    default: 2,
    help: "Attempts in total, the first included.",
  },
  {
    key: "opal.retryBackoffs",
    env: "OPAL_RETRY_BACKOFFS",
    type: "numbers",
    max: DAY_SECS,
    help: "Seconds to wait, by the number of the attempt that ended; the first number is never used. Default: 3,8,15.",
  },
  {
    ...{ ...SECS, min: 0.3 },
    key: "opal.leaseTtlSecs",
    env: "OPAL_LEASE_TTL_SECS",
    default: 15,
    secondsOf: ["server.lease", "worker.lease"],
    help: "Seconds that a lease lasts.",
  },
  {
    ...SECS,
    key: "opal.leaseRenewSecs",
    env: "OPAL_LEASE_RENEW_SECS",
    default: 5,
    secondsOf: ["worker.heartbeat"],
    help: "Seconds between renewals of a lease.",
  },
  {
    key: "opal.reclaimScanEveryLoops",
    env: "OPAL_RECLAIM_SCAN_EVERY_LOOPS",
    type: "integer",
    default: 10,
    min: 1,
    max: 1_000_000,
    help: "Tenths of a second between scans for lost jobs. They run at least every second: more than 10 has no effect.",
  },
  {
    ...SECS,
    key: "opal.heartbeatIntervalSecs",
    env: "OPAL_HEARTBEAT_INTERVAL_SECS",
    default: 2,
    secondsOf: ["worker.heartbeat"],
    help: "Seconds between heartbeats of a worker.",
  },
  {
    ...{ ...SECS, max: DAY_SECS },
    key: "opal.workerTtlSecs",
    env: "OPAL_WORKER_TTL_SECS",
    default: 10,
    help: "Seconds without a heartbeat after which a worker is lost.",
  },
] as const satisfies readonly Setting[];
