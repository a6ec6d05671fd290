/** `spec.retry`, and where its numbers come from: the task, else its role, else its tier, else the preset, field by field.
 *
 *  `maxAttempts` counts runs, the first included: 0 and 1 are both one run. The backoff is
 *  `min(maxBackoffSeconds, backoffSeconds · 2^(r-1))`, capped from the first retry on, then ±25 %, and at least 1 s. */
import { asInteger, fieldPath } from "../../core/check.ts";
import type { Backoff, PolicyFields } from "../../core/policy.ts";
import { presets } from "../../core/presets.ts";
import { MAX_COUNT } from "../../core/resolve-backoff.ts";
import { noteCap } from "../cap-note.ts";
import type { AgentRetrySettings } from "../settings.ts";
import { type AgentBudget, asSeconds, fieldsOf } from "./check.ts";

const FIELDS = ["maxAttempts", "backoffSeconds", "maxBackoffSeconds"] as const;

export function readRetry(value: unknown, path: string): AgentRetrySettings {
  const fields = fieldsOf(value, path, FIELDS);
  const given = FIELDS.filter((name) => fields[name] !== undefined);
  return Object.fromEntries(
    given.map((name) => {
      const at = fieldPath(path, name);
      if (name !== "maxAttempts") return [name, asSeconds(fields[name], at)];
      return [name, asInteger(fields[name], at, { min: 0, max: MAX_COUNT })];
    }),
  );
}

/** Each field from the first that has it. */
export function layered<T extends object>(...layers: readonly (T | null | undefined)[]): Partial<T> {
  return Object.assign({}, ...layers.map((layer) => layer ?? {}).reverse()) as Partial<T>;
}

const PRESET = presets.agent.backoff as Extract<Backoff, { type: "exponential" }>;

/** The numbers that hold, whatever was left out. */
export function retryNumbers(retry: AgentRetrySettings): Required<AgentRetrySettings> {
  const { maxAttempts = 0, backoffSeconds, maxBackoffSeconds } = retry;
  return {
    maxAttempts: Math.max(1, maxAttempts),
    backoffSeconds: (ms(backoffSeconds) ?? PRESET.initialMs) / 1_000,
    // The floor holds whatever the cap says.
    maxBackoffSeconds: Math.max(ms(maxBackoffSeconds) ?? PRESET.maxMs, PRESET.minMs) / 1_000,
  };
}

/** The policy, and what of it may surprise whoever wrote it. */
export function agentPolicy(retry: AgentRetrySettings, budget: AgentBudget, notes: string[]): PolicyFields {
  const { maxAttempts, backoffSeconds: initial, maxBackoffSeconds: cap } = retryNumbers(retry);
  const said = `backoffSeconds is ${initial}`;
  noteCap({ path: "spec.retry", said, initialMs: initial * 1_000, capMs: cap * 1_000, runs: maxAttempts }, notes);
  const { maxCostUsd, maxTokens } = budget;
  return {
    preset: "agent",
    maxAttempts,
    backoff: { type: "exponential", initial: `${initial}s`, max: `${cap}s` },
    onTimeout: "retry",
    ...(maxCostUsd === undefined && maxTokens === undefined
      ? {}
      : {
          budget: {
            ...(maxTokens === undefined ? {} : { tokens: maxTokens }),
            ...(maxCostUsd === undefined ? {} : { costUsd: maxCostUsd }),
          },
        }),
  };
}

function ms(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : Math.round(seconds * 1_000);
}
