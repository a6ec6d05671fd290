/** Settings of servers and workers for commands that have no options for them: those of the environment and the settings file. */
import type { CommandContext } from "../command.ts";
import { type Config, loadConfig } from "./config.ts";
import type { SettingKey } from "./settings.ts";

export function upkeepConfig({ given, io }: Pick<CommandContext, "given" | "io">, keys: readonly SettingKey[]): Config {
  const file = given.text("config");
  const named = file === undefined ? io : { ...io, env: { ...io.env, PERDURE_CONFIG: file } };
  return loadConfig({ io: named }, keys);
}
