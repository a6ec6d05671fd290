/** Whose settings hold for files of other systems: the server's, where there is one; else those of this command. */
import type { DialectSettings } from "../../core/dialect-settings.ts";
import type { Context } from "../command.ts";
import { loadConfig } from "../config/config.ts";
import { DIALECT_KEYS, dialectSettingsOf } from "../config/dialects.ts";
import { type Target, withServer } from "../target.ts";

export async function settingsFor(context: Pick<Context, "given" | "io">, target: Target): Promise<DialectSettings> {
  if (target.kind === "server") return withServer(target, (perdure) => perdure.dialectSettings());
  return ownSettings(context);
}

/** Of the environment and the file of settings here. */
export function ownSettings(context: Pick<Context, "given" | "io">): DialectSettings {
  return dialectSettingsOf(loadConfig(context, DIALECT_KEYS), context.io.cwd);
}
