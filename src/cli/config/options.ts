/** Options of the command line, made from the table of settings. */
import type { Option } from "../command.ts";
import { CONFIG } from "./config.ts";
import type { Setting } from "./setting.ts";
import { type Key, settingOf } from "./settings.ts";
import { shownValue } from "./show-value.ts";

/** In the order of the keys, and `--config` after them. Settings without an option are left out. */
export function optionsFor(keys: readonly Key[]): Option[] {
  return [...keys.map(settingOf).flatMap(optionOf), CONFIG];
}

const PLACEHOLDERS = {
  text: "TEXT",
  integer: "N",
  number: "N",
  duration: "TIME",
  size: "SIZE",
  numbers: "LIST",
} as const;

function optionOf(setting: Setting): Option[] {
  const { flag: name, type, value } = setting;
  if (name === undefined) return [];
  if (type === "boolean") return [{ name, type, help: helpOf(setting) }];
  const isMultiple = type === "list" || type === "labels" || type === "numbers";
  const placeholder = value ?? (PLACEHOLDERS as Readonly<Record<string, string>>)[type] ?? "LIST";
  return [
    {
      ...{ name, type: "string", value: placeholder, help: helpOf(setting) },
      ...(isMultiple ? { multiple: true } : {}),
    },
  ];
}

/** With the default, where the text does not tell it. */
function helpOf(setting: Setting): string {
  const { help, env } = setting;
  const shown = typeof setting.default === "function" ? null : shownValue(setting, setting.default);
  const isTold = help.includes("Default:") || shown === null || shown === false;
  const named = env === undefined ? "" : `${env}, or `;
  return isTold ? help : `${help} Default: ${named}${String(shown)}.`;
}
