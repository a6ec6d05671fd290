/** A preset has the numbers of its system's document. Whoever has set others, for files of that system, is told that they are
 *  not in what is simulated. */
import type { Context } from "../command.ts";
import { loadConfig } from "../config/config.ts";
import { DIALECT_KEYS } from "../config/dialects.ts";

/** Of the settings for files, those that change a policy. */
const OF_POLICIES = /^(opal\.(maxRetries|retryBackoffs)$|fluster\.|attune\.retry\.|agent\.retry\.)/;

export function unusedSettings(context: Pick<Context, "given" | "io">): string[] {
  const preset = context.given.text("preset");
  const keys = DIALECT_KEYS.filter((key) => OF_POLICIES.test(key) && key.startsWith(`${preset}.`));
  if (keys.length === 0) return [];
  const config = loadConfig(context, keys);
  const set = keys.filter((key) => config.isSet(key));
  const why = `--preset ${preset} has the numbers of its document; a file given with -f goes by what is set`;
  return set.map((key) => `${config.blameOf(key)} is not looked at: ${why}`);
}
