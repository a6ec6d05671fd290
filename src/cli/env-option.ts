/** `--env`: variables for a command. */
import { show } from "../core/errors.ts";
import type { Option } from "./command.ts";
import { usageError } from "./exit.ts";
import type { Io } from "./io.ts";

export const ENV: Option = {
  ...{ name: "env", type: "string", value: "NAME[=VALUE]", multiple: true },
  help: "Set, or pass on, a variable; stored with the job.",
};

/** `NAME=VALUE` sets, `NAME` passes on what is set here. */
export function envOf(words: readonly string[], from: Io["env"]): Record<string, string> {
  const env: Record<string, string> = {};
  for (const word of words) {
    const at = word.indexOf("=");
    const name = at < 0 ? word : word.slice(0, at);
    const value = at < 0 ? from[name] : word.slice(at + 1);
    if (!/^[A-Za-z_]\w*$/.test(name)) {
      throw usageError(`--env: got ${show(word)}; names have letters, digits and _, and begin with no digit`);
    }
    if (value === undefined) throw usageError(`--env ${name}: it is not set here; give ${name}=VALUE`);
    env[name] = value;
  }
  return env;
}
