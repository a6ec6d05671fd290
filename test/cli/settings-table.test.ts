/** The table of settings in the operations guide lists all settings with their options, variables and defaults. OPAL's own
 *  variables are in its guide. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { Setting } from "../../src/cli/config/setting.ts";
import { SETTINGS } from "../../src/cli/config/settings.ts";
import { shownValue } from "../../src/cli/config/show-value.ts";
import { ROOT } from "../fences.ts";

function rowOf(setting: Setting): string {
  const { key, flag } = setting;
  const env = setting.type === "connections" ? `${setting.envPrefix}NAME` : setting.env;
  const code = (text: string | undefined) => (text === undefined ? "" : `\`${text}\``);
  const cells = [code(key), code(flag && `--${flag}`), code(env), defaultOf(setting)];
  return `| ${cells.join(" | ")} |`;
}

function defaultOf(setting: Setting): string {
  if (typeof setting.default === "function") return "text on a terminal, else json";
  if (setting.default === undefined) return "";
  const shown = shownValue(setting, setting.default);
  return `\`${Array.isArray(shown) ? shown.join(",") : shown}\``;
}

it("names every setting with its option, its variable and its default", () => {
  const page = readFileSync(join(ROOT, "docs/guides/operations.md"), "utf8");
  const table = page.slice(page.indexOf("| key | option |"));
  const rows = table.slice(0, table.indexOf("\n\n")).split("\n").slice(2);
  const all = (SETTINGS as readonly Setting[]).filter(({ env }) => !env?.startsWith("OPAL_"));
  expect(rows).toEqual(all.map(rowOf));
});
