/** Settings as `perdure config` shows them, of this process or of a server. */
import type { SettingFact } from "../../core/views.ts";
import type { Config } from "./config.ts";
import { type Key, settingOf } from "./settings.ts";
import { shownValue } from "./show-value.ts";

export function factOf(config: Config, key: Key): SettingFact {
  return { key, value: shownValue(settingOf(key), config.value(key)), source: config.sourceOf(key) };
}

/** All that were loaded. */
export function factsOf(config: Config): SettingFact[] {
  return config.keys.map((key) => factOf(config, key));
}
