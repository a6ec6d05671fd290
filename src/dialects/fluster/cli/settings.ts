/** Settings of fluster's dialect, under the names that fluster uses. */
import type { Setting } from "../../../cli/config/setting.ts";

const DAY_SECS = 86_400;
const COUNT = { type: "integer", min: 0, max: 1_000_000 } as const;

export const FLUSTER_SETTINGS = [
  {
    // One less than the limit of attempts: the first is not a retry.
    ...{ type: "integer", min: 0, max: 999_999 },
    key: "fluster.default_max_retries_failure",
    default: 0,
    help: "Retries of a fluster job after its own failures.",
  },
  {
    ...COUNT,
    key: "fluster.default_max_retries_preemption",
    default: 100,
    help: "Retries of a fluster job after lost workers.",
  },
  {
    ...{ type: "integer", min: 0, max: DAY_SECS * 1_000 },
    key: "fluster.default_retry_delay_ms",
    default: 1_000,
    help: "Milliseconds before the first retry of a fluster job.",
  },
] as const satisfies readonly Setting[];
