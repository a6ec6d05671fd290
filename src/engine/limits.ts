/** Limits at the door. Beyond them a caller gets an error and nothing is stored. */

import { MAX_KEY, MAX_NAME } from "../core/names.ts";
import { MAX_WAITS_FOR } from "../core/task/task.ts";

export const LIMITS = {
  /** Payload and result, each. */
  payloadBytes: 1_048_576,
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
  /** Children of one job. Counted before they are stored, not under the lock: calls at the same time may go a little beyond. */
  children: 10_000,
  /** Children that an attempt may wait for at a time. */
  waitsFor: MAX_WAITS_FOR,
  /** Kinds, queues and labels of a session, as JSON: a claim reads them, and `workers` shows them. */
  sessionBytes: 32_768,
  /** The defaults of a session's tasks, as JSON. */
  defaultsBytes: 262_144,
  failureMessage: 2_048,
  stack: 8_192,
  progress: 4_096,
  /** Log text of one attempt that travels with one renewal or report. */
  logChunk: 65_536,
  /** A session's own lease, in milliseconds. */
  lease: { from: 300, to: 3_600_000 },
} as const;

/** How long things last and how often they are looked at, in milliseconds. */
export const DEFAULTS = {
  lease: 15_000,
  reapEvery: 1_000,
  /** A silence of all engines longer than this means that they slept. */
  maxBeatGap: 3_000,
  /** Blocked jobs and cancelled parents are looked at this often, should what was to wake them have been lost. */
  sweepEvery: 5_000,
  pruneEvery: 60_000,
  /** Lanes and policies that no job names are looked for this often: all jobs are looked through for it. */
  sweepNamesEvery: 3_600_000,
  /** They stay for so long after they were last used. Whoever stores a job has noted within a minute that it uses its names, so
   *  this is far longer than the storing of a job can take. */
  nameRetention: 3_600_000,
  keyWindow: 86_400_000,
  /** A waiting claim looks at the store at least this often. */
  poll: 1_000,
  /** A waiting result() asks the store itself only this often. */
  lookAgain: 30_000,
  retention: { succeeded: 7 * 86_400_000, cancelled: 30 * 86_400_000, failed: 90 * 86_400_000 },
  /** Ended sessions and events of no job. */
  sessionRetention: 7 * 86_400_000,
} as const;

/** How long jobs are kept after they ended, by state; null keeps them. */
export interface Retention {
  readonly succeeded: number | null;
  readonly failed: number | null;
  readonly cancelled: number | null;
}
