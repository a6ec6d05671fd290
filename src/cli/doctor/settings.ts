/** Settings: a file that can be read, variables that mean something, values that are allowed. */
import type { Context } from "../command.ts";
import { unknownVariables } from "../commands/config.ts";
import { loadConfig } from "../config/config.ts";
import { readConfigFile } from "../config/config-file.ts";
import { KEYS, settingOf } from "../config/settings.ts";
import { type Found, note, ok, problem, wordsOf } from "./finding.ts";

export async function checkSettings({ given, io }: Context): Promise<Found[]> {
  const found: Found[] = [];
  try {
    const values = readConfigFile({ io, named: given.text("config") });
    const files = new Set([...values.values()].map(({ source }) => source.replace(/:\d+$/, "")));
    found.push(ok(files.size === 0 ? "no file of settings" : `${[...files].join(", ")} is in order`));
  } catch (error) {
    found.push(problem(wordsOf(error), "mend the file"));
  }
  return [...found, ...wrongVariables(io), ...unknownVariables(io.env).map((text) => note(text))];
}

/** Each for itself, and without the file, which has been looked at. */
function wrongVariables(io: Context["io"]): Found[] {
  const alone = { ...io, cwd: "/dev/null", env: { ...io.env, PERDURE_CONFIG: undefined } };
  return KEYS.flatMap((key) => {
    const { env } = settingOf(key);
    if (env === undefined || !io.env[env]) return [];
    try {
      loadConfig({ io: alone }, [key]);
      return [];
    } catch (error) {
      return [problem(wordsOf(error), `change ${env}, or take it back`)];
    }
  });
}
