/** The settings of all dialects, in the order in which `perdure config` shows them. */
import { AGENT_SETTINGS } from "../agent-task/cli/settings.ts";
import { ATTUNE_SETTINGS } from "../attune/cli/settings.ts";
import { FLUSTER_SETTINGS } from "../fluster/cli/settings.ts";
import { OPAL_SETTINGS } from "../opal/cli/settings.ts";

export const DIALECT_SETTINGS = [...OPAL_SETTINGS, ...FLUSTER_SETTINGS, ...ATTUNE_SETTINGS, ...AGENT_SETTINGS] as const;
