/** fluster on the command line and in a server. */
import type { DialectCli } from "../../cli/dialect-cli.ts";
import type { FlusterSettings } from "../settings.ts";
import { FLUSTER_SETTINGS } from "./settings.ts";

const KEYS = FLUSTER_SETTINGS.map(({ key }) => key);

export const flusterCli: DialectCli = {
  name: "fluster",
  help: {
    apply: { examples: ["cat job.yaml | perdure apply -f - --dialect fluster --dry-run"] },
    get: { examples: ["perdure get -o fluster job_01m7gekg9zevv9a6xvvwmt1v8g"] },
  },
  settings: {
    group: "fluster",
    keys: KEYS,
    policyKeys: KEYS,
    read: (config): FlusterSettings => ({
      defaultMaxRetriesFailure: config.integer("fluster.default_max_retries_failure"),
      defaultMaxRetriesPreemption: config.integer("fluster.default_max_retries_preemption"),
      defaultRetryDelayMs: config.integer("fluster.default_retry_delay_ms"),
    }),
  },
  serve: async () => ({ routes: (await import("../server/routes.ts")).flusterRoutes }),
};
