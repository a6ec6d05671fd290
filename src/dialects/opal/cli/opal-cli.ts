/** OPAL on the command line and in a server. */
import type { DialectCli } from "../../cli/dialect-cli.ts";
import { OPAL_DEFAULTS, type OpalFileSettings } from "../settings.ts";

export const opalCli: DialectCli = {
  name: "opal",
  help: { simulate: { examples: ["perdure simulate --preset opal --outcomes lost,lost"] } },
  settings: {
    group: "opal",
    keys: ["opal.engine", "opal.maxRetries", "opal.retryBackoffs"],
    policyKeys: ["opal.maxRetries", "opal.retryBackoffs"],
    read: (config): OpalFileSettings => {
      const engine = config.list("opal.engine");
      return {
        engine: engine.length === 0 ? null : engine,
        maxRetries: config.integer("opal.maxRetries"),
        backoffs: config.numbers("opal.retryBackoffs") ?? OPAL_DEFAULTS.backoffs,
      };
    },
  },
  serve: async (start) => (await import("./serve.ts")).serveOpal(start),
};
