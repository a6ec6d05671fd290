/** Settings of Attune's dialect, under the names that Attune uses. */
import type { Setting } from "../../../cli/config/setting.ts";

const DAY_SECS = 86_400;
const SECS = { type: "number", min: 0, max: DAY_SECS } as const;

export const ATTUNE_SETTINGS = [
  {
    key: "attune.ttl",
    env: "PERDURE_ATTUNE_TTL",
    type: "duration",
    default: 300_000,
    min: 1_000,
    help: "How long an action without timeout_seconds may wait, and run.",
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
    help: "Maximum seconds before a retry, before jitter.",
  },
  {
    ...{ type: "number", min: 1, max: 1_000 },
    key: "attune.retry.backoff_multiplier",
    default: 2,
    help: "The factor by which each wait is longer than the previous one.",
  },
  {
    ...{ type: "number", min: 0, max: 0.999 },
    key: "attune.retry.jitter_factor",
    default: 0.2,
    help: "Jitter: waits vary by up to this fraction.",
  },
  {
    key: "attune.packs",
    env: "PERDURE_ATTUNE_PACKS",
    type: "list",
    default: ["./packs"],
    help: "Directories with packs of actions.",
  },
] as const satisfies readonly Setting[];
