/** Attune on the command line. */
import type { DialectCli } from "../../cli/dialect-cli.ts";
import type { AttuneSettings } from "../settings.ts";
import { ATTUNE_SETTINGS } from "./settings.ts";

const KEYS = ATTUNE_SETTINGS.map(({ key }) => key);

export const attuneCli: DialectCli = {
  name: "attune",
  help: {
    submit: {
      about:
        "A kind PACK.ACTION is an Attune action, found in the directories of attune.packs; pass its parameters with -p.",
      examples: ["perdure submit mypack.external_api_call -p url=https://example.org"],
    },
  },
  settings: {
    group: "attune",
    keys: KEYS,
    policyKeys: KEYS.filter((key) => key.startsWith("attune.retry.")),
    read: (config): AttuneSettings => ({
      ttlSecs: config.durationMs("attune.ttl") / 1_000,
      retry: {
        enabled: config.flag("attune.retry.enabled"),
        baseBackoffSecs: config.number("attune.retry.base_backoff_secs"),
        maxBackoffSecs: config.number("attune.retry.max_backoff_secs"),
        backoffMultiplier: config.number("attune.retry.backoff_multiplier"),
        jitterFactor: config.number("attune.retry.jitter_factor"),
      },
    }),
  },
  namedJob: async (context, settings) => {
    // Loaded only for a name that may be one: most kinds have no dot.
    if (!context.given.positionals[0]?.includes(".")) return null;
    return (await import("./action-entry.ts")).actionEntry(context, settings);
  },
};
