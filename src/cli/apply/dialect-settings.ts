/** Which dialect settings apply to files of other systems: those of the server if there is one, else those of this
 *  command. Also a note for settings that a simulated preset does not use. */
import { DIALECT_KEYS, dialectSettingsOf, policyKeysOf } from "../../dialects/cli/registry.ts";
import { type DialectSettings, dialectSettingsFrom } from "../../dialects/settings.ts";
import type { CommandContext } from "../command.ts";
import { loadConfig } from "../config/config.ts";
import { type Target, withServer } from "../target/target.ts";

export async function dialectSettingsFor(
  context: Pick<CommandContext, "given" | "io">,
  target: Target,
): Promise<DialectSettings> {
  if (target.kind === "server") return withServer(target, dialectSettingsFrom);
  return localDialectSettings(context);
}

/** From the environment and the settings file of this machine. */
export function localDialectSettings(context: Pick<CommandContext, "given" | "io">): DialectSettings {
  return dialectSettingsOf(loadConfig(context, DIALECT_KEYS), context.io.cwd);
}

// A preset has the defaults of its system. If they are set differently for files of that system, a note reports that the
// simulation does not use these settings.

export function unusedSettings(context: Pick<CommandContext, "given" | "io">): string[] {
  const preset = context.given.text("preset");
  const keys = policyKeysOf(preset);
  if (keys.length === 0) return [];
  const config = loadConfig(context, keys);
  const set = keys.filter((key) => config.isSet(key));
  const why = `--preset ${preset} has the numbers of its document; the setting applies to files passed with -f`;
  return set.map((key) => `${config.blameOf(key)} is ignored: ${why}`);
}
