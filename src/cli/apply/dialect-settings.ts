/** Which dialect settings apply to files of other systems: those of the server if there is one, else those of this
 *  command. Also a note for settings that a simulated preset does not use. */
import { DIALECT_KEYS, dialectSettingsOf, policyKeysOf } from "../../dialects/cli/registry.ts";
import { type DialectSettings, dialectSettingsFrom } from "../../dialects/settings.ts";
import type { CommandContext } from "../command.ts";
import { loadConfig } from "../config/config.ts";
import { type Target, withServer } from "../target/target.ts";

// Whose settings hold for files of other systems: the server's, where there is one; else those of this command.

export async function dialectSettingsFor(
  context: Pick<CommandContext, "given" | "io">,
  target: Target,
): Promise<DialectSettings> {
  if (target.kind === "server") return withServer(target, dialectSettingsFrom);
  return localDialectSettings(context);
}

/** Of the environment and the file of settings here. */
export function localDialectSettings(context: Pick<CommandContext, "given" | "io">): DialectSettings {
  return dialectSettingsOf(loadConfig(context, DIALECT_KEYS), context.io.cwd);
}

// A preset has the numbers of its system's document. Whoever has set others, for files of that system, is told that
// they are not in what is simulated.

export function unusedSettings(context: Pick<CommandContext, "given" | "io">): string[] {
  const preset = context.given.text("preset");
  const keys = policyKeysOf(preset);
  if (keys.length === 0) return [];
  const config = loadConfig(context, keys);
  const set = keys.filter((key) => config.isSet(key));
  const why = `--preset ${preset} has the numbers of its document; the setting applies to files passed with -f`;
  return set.map((key) => `${config.blameOf(key)} is ignored: ${why}`);
}
