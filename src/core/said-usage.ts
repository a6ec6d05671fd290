/** What a command says that it has used, as read from JSON. */
import { isPlain } from "./check.ts";
import { show } from "./errors.ts";
import type { Usage } from "./job.ts";

const MAX_USAGE = 1e15;

const NAMES = {
  tokensIn: ["tokensIn", "tokens_in", "input_tokens"],
  tokensOut: ["tokensOut", "tokens_out", "output_tokens"],
  costUsd: ["costUsd", "cost_usd"],
} as const;
const ALL_NAMES: readonly string[] = Object.values(NAMES).flat();

/** Why something in what was said of usage is not counted; null where all is. A budget that is never used up because of it
 *  should not go unnoticed. */
export function troubleIn(said: unknown): string | null {
  if (!isPlain(said)) return `got ${show(said)}; give an object`;
  const known = Object.entries(said).filter(([name]) => ALL_NAMES.includes(name));
  if (known.length === 0)
    return `nothing in it is counted; give ${NAMES.tokensIn[1]}, ${NAMES.tokensOut[1]} or ${NAMES.costUsd[1]}`;
  const wrong = known.find(([, number]) => !isCounted(number));
  return wrong === undefined ? null : `${wrong[0]}: got ${show(wrong[1])}; give a number, 0 or more`;
}

export function usageIn(value: unknown): Usage | null {
  const given = isPlain(value) && Object.hasOwn(value, "usage") ? (value as { usage: unknown }).usage : null;
  if (!isPlain(given)) return null;
  const read = (names: readonly string[]) => {
    const name = names.find((each) => Object.hasOwn(given, each));
    const number = name === undefined ? 0 : (given as Record<string, unknown>)[name];
    return isCounted(number) ? Math.min(number, MAX_USAGE) : 0;
  };
  const tokens = (names: readonly string[]) => Math.round(read(names));
  const usage = {
    tokensIn: tokens(NAMES.tokensIn),
    tokensOut: tokens(NAMES.tokensOut),
    costUsd: read(NAMES.costUsd),
  };
  return usage.tokensIn + usage.tokensOut + usage.costUsd === 0 ? null : usage;
}

/** So that sums stay numbers, whatever it says. */
function isCounted(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}
