/** What can be checked of a redrive's changes without a policy: a client checks as much before it asks a server, and loads no
 *  parser for it. */
import { type Amount, MAX_BUDGET } from "./budget.ts";
import { asInteger, asNumber, asObject } from "./check.ts";
import { ConfigError } from "./errors.ts";

export const REDRIVE_KEYS = ["retry", "timeout", "priority", "expireIn", "deadline", "budget"];

/** At least one of tokens and money, and more than nothing. */
export function asGrant(value: unknown, path: string): Partial<Amount> {
  const { tokens, costUsd } = asObject(value, path, ["tokens", "costUsd"]);
  if (tokens === undefined && costUsd === undefined) {
    throw new ConfigError({ path, given: value, allowed: "tokens, costUsd, or both" });
  }
  const asCost = (given: unknown, at: string) => {
    const cost = asNumber(given, at, { min: 0, max: MAX_BUDGET.costUsd });
    if (cost > 0) return cost;
    throw new ConfigError({ path: at, given, allowed: "a number above 0" });
  };
  return {
    ...(tokens === undefined
      ? {}
      : { tokens: asInteger(tokens, `${path}.tokens`, { min: 1, max: MAX_BUDGET.tokens }) }),
    ...(costUsd === undefined ? {} : { costUsd: asCost(costUsd, `${path}.costUsd`) }),
  };
}
