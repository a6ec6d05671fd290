/** Limits of what a caller passes, beyond which it gets an error and nothing is stored; default durations and intervals. */

import { MAX_KEY, MAX_NAME } from "../core/names.ts";
import { MAX_WAITS_FOR } from "../core/task/task.ts";
import { MAX_JOB_BODY_BYTES } from "../core/worker-protocol.ts";

export const LIMITS = {
  /** Payload and result, each. */
  payloadBytes: MAX_JOB_BODY_BYTES,
  /** Nesting of a payload. */
  jsonDepth: 64,
  /** Names of namespaces, queues, kinds, tags and labels. */
  name: MAX_NAME,
  key: MAX_KEY,
  tags: 20,
  labels: 20,
  annotations: 32,
  /** All annotations of a job together, as JSON. */
  annotationBytes: 16_384,
  /** Parents above a job. */
  depth: 16,
  /** Children of one job. Counted before they are stored, not under the lock: concurrent calls may exceed it a little. */
  children: 10_000,
  /** Children that one `waitFor` may name. */
  waitsFor: MAX_WAITS_FOR,
  /** Kinds, queues and labels of a session, as JSON: a claim reads them, and `workers` shows them. */
  sessionBytes: 32_768,
  /** The defaults of a session's tasks, as JSON. */
  defaultsBytes: 262_144,
  failureMessage: 2_048,
  stack: 8_192,
  progress: 4_096,
  /** Log text of one attempt in one renewal or report. */
  logChunk: 65_536,
  /** A session's own lease, in milliseconds. */
  lease: { from: 300, to: 3_600_000 },
} as const;

/** Durations and intervals, in milliseconds. */
export const DEFAULTS = {
  lease: 15_000,
  reapEvery: 1_000,
  /** A silence of all engines longer than this means that they slept. */
  maxBeatGap: 3_000,
  /** How often blocked jobs and cancelled parents are checked, in case their wake-up was lost. */
  sweepEvery: 5_000,
  pruneEvery: 60_000,
  /** How often unused lanes and policies are searched for, which scans all jobs. */
  sweepNamesEvery: 3_600_000,
  /** How long they are kept after their last use. Storing a job renews its names once a minute, so this is far longer than
   *  storing a job can take. */
  nameRetention: 3_600_000,
  keyWindow: 86_400_000,
  /** A waiting claim polls the store at least this often. */
  poll: 1_000,
  /** A waiting result() reads the store itself only this often. */
  recheckEvery: 30_000,
  retention: { succeeded: 7 * 86_400_000, cancelled: 30 * 86_400_000, failed: 90 * 86_400_000 },
  /** Ended sessions, and events without a job. */
  sessionRetention: 7 * 86_400_000,
} as const;

/** How long jobs are kept after they ended, by state; null keeps them. */
export interface Retention {
  readonly succeeded: number | null;
  readonly failed: number | null;
  readonly cancelled: number | null;
}
