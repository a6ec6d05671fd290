import { describe, expect, it } from "vitest";
import type { RuleInput } from "../../core/policy/policy.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import { flusterPolicy } from "../../dialects/fluster/retry.ts";
import { noetlPolicy, readNoetlRetry } from "../../dialects/noetl/retry.ts";
import { DIALECT_DEFAULTS } from "../../dialects/settings.ts";
import { toJobFile } from "./to-job-file.ts";

const RULES =
  '[{ "if": { "exitCode": 60 }, "then": "retry", "maxRetries": 60, "backoff": { "type": "fixed", "delay": 60000 } }]';
const retryOf = (retry: object) => toJobFile({ task: "k", options: { retry } }).retry as object;

describe("the times of a policy", () => {
  it("have units, whichever system they came from, and the same value", () => {
    const fluster = flusterPolicy({ max_retries_failure: 2 }, "retry", DIALECT_DEFAULTS.fluster);
    const noetl = noetlPolicy(readNoetlRetry({ initial_delay: 0.5, max_delay: 90 }, "retry"), "s", "retry");
    expect(retryOf(fluster)).toMatchObject({ backoff: { initial: "1s", max: "1m", factor: 2 } });
    expect(retryOf(noetl)).toMatchObject({ backoff: { initial: "500ms", max: "90s" } });
    for (const policy of [fluster, noetl]) expect(resolvePolicy(retryOf(policy))).toEqual(resolvePolicy(policy));
  });

  it("have them at every level; values that are not durations or whole numbers stay", () => {
    const policy = {
      ...{ maxAttempts: 3_000, maxElapsed: 86_400_000, retryAfterMax: 0 },
      backoff: { type: "schedule" as const, delays: [0, 1_500, "3s", 0.5] as const, offset: 1 },
      rules: JSON.parse(RULES) as RuleInput[],
      workerLost: { charge: "own" as const, maxRetries: 60_000, poison: { losses: 3, within: 3_600_000 } },
    };
    expect(retryOf(policy)).toEqual({
      ...{ maxAttempts: 3_000, maxElapsed: "1d", retryAfterMax: "0ms" },
      backoff: { type: "schedule", delays: ["0ms", "1500ms", "3s", 0.5], offset: 1 },
      rules: JSON.parse(RULES.replace("60000", '"1m"')),
      workerLost: { charge: "own", maxRetries: 60_000, poison: { losses: 3, within: "1h" } },
    });
    expect(resolvePolicy(retryOf(policy))).toEqual(resolvePolicy(policy));
  });
});
