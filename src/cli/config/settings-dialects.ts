/** Settings of the other dialects, under the names that their own systems use. They hold where a file says nothing: for a
 *  server, its own; for data without one, those of the command. */
import type { Setting } from "./setting.ts";

const DAY_SECS = 86_400;
const COUNT = { type: "integer", min: 0, max: 1_000_000 } as const;
const SECS = { type: "number", min: 0, max: DAY_SECS } as const;

const FLUSTER_SETTINGS = [
  {
    // One less than runs may be: the first run is none of them.
    ...{ type: "integer", min: 0, max: 999_999 },
    key: "fluster.default_max_retries_failure",
    default: 0,
    help: "Retries of a fluster job after failures of its own.",
  },
  {
    ...COUNT,
    key: "fluster.default_max_retries_preemption",
    default: 100,
    help: "Retries of a fluster job after failures of its workers.",
  },
  {
    ...{ type: "integer", min: 0, max: DAY_SECS * 1_000 },
    key: "fluster.default_retry_delay_ms",
    default: 1_000,
    help: "Milliseconds before the first retry of a fluster job.",
  },
] as const satisfies readonly Setting[];

const ATTUNE_SETTINGS = [
  {
    key: "attune.ttl",
    env: "PERDURE_ATTUNE_TTL",
    type: "duration",
    default: 300_000,
    min: 1_000,
    help: "How long an action may wait, and run, that has no timeout_seconds.",
  },
  { key: "attune.retry.enabled", type: "boolean", default: true, help: "Whether actions are retried at all." },
  {
    ...SECS,
    key: "attune.retry.base_backoff_secs",
    default: 1,
    help: "Seconds before the first retry of an action.",
  },
  {
    ...SECS,
    key: "attune.retry.max_backoff_secs",
    default: 300,
    help: "Seconds that no wait for a retry exceeds, but for jitter.",
  },
  {
    ...{ type: "number", min: 1, max: 1_000 },
    key: "attune.retry.backoff_multiplier",
    default: 2,
    help: "By how much each wait is longer than the one before.",
  },
  {
    ...{ type: "number", min: 0, max: 0.999 },
    key: "attune.retry.jitter_factor",
    default: 0.2,
    help: "Waits differ by up to this part of themselves.",
  },
  {
    key: "attune.packs",
    env: "PERDURE_ATTUNE_PACKS",
    type: "list",
    default: ["./packs"],
    help: "Directories that hold packs of actions.",
  },
] as const satisfies readonly Setting[];

const MAX_ATTEMPTS_HELP = "Runs in all of a task of this tier; 0 and 1 are one.";
const BACKOFF_HELP = "Seconds before the first retry of a task of this tier.";
const MAX_BACKOFF_HELP = "Seconds that no wait of this tier exceeds, but for jitter.";

const AGENT_SETTINGS = [
  {
    key: "agent.command",
    env: "PERDURE_AGENT_COMMAND",
    type: "argv",
    help: "The program that runs agent tasks which name none, with its arguments.",
  },
  { ...COUNT, key: "agent.retry.legionary.maxAttempts", default: 3, help: MAX_ATTEMPTS_HELP },
  { ...SECS, key: "agent.retry.legionary.backoffSeconds", default: 15, help: BACKOFF_HELP },
  { ...SECS, key: "agent.retry.legionary.maxBackoffSeconds", help: MAX_BACKOFF_HELP },
  { ...COUNT, key: "agent.retry.centurion.maxAttempts", default: 1, help: MAX_ATTEMPTS_HELP },
  { ...SECS, key: "agent.retry.centurion.backoffSeconds", default: 30, help: BACKOFF_HELP },
  { ...SECS, key: "agent.retry.centurion.maxBackoffSeconds", help: MAX_BACKOFF_HELP },
  { ...COUNT, key: "agent.retry.tribune.maxAttempts", default: 0, help: MAX_ATTEMPTS_HELP },
  { ...SECS, key: "agent.retry.tribune.backoffSeconds", help: BACKOFF_HELP },
  { ...SECS, key: "agent.retry.tribune.maxBackoffSeconds", help: MAX_BACKOFF_HELP },
  {
    key: "agent.roles",
    env: "PERDURE_AGENT_ROLES",
    type: "list",
    help: "Files with ClusterAgentRole documents, or directories of such.",
  },
] as const satisfies readonly Setting[];

export const DIALECT_SETTINGS = [...FLUSTER_SETTINGS, ...ATTUNE_SETTINGS, ...AGENT_SETTINGS] as const;
