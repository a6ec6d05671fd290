/** The setting `playbooks.tools` of commands that have no option for it: from the environment and the settings file. */
import type { CommandContext } from "../command.ts";
import { upkeepConfig } from "../config/upkeep.ts";
import type { PlaybookTools } from "./playbook-files.ts";

export function playbookTools(context: Pick<CommandContext, "given" | "io">): PlaybookTools {
  return upkeepConfig(context, ["playbooks.tools"]).labels("playbooks.tools");
}
