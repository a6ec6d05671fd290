/** What is configured of OPAL's door. */
import type { OpalSettings } from "../../dialects/opal/settings.ts";

export interface OpalOptions {
  /** The command that runs prompts; null where none is configured, and then jobs can be read but not submitted. */
  readonly engine: readonly string[] | null;
  /** Whoever is on this machine needs no token. */
  readonly anonymous: boolean;
  readonly settings: OpalSettings;
}
