/** `perdure prune`: deletes now what the server, or the next engine, would delete later. */

import { thisUser } from "../../embedded/options.ts";
import { type CliCommand, READING } from "../command.ts";
import { EXIT } from "../exit.ts";
import { outputsOf } from "../serve/outputs.ts";
import { retentionIn, upkeepSettings, withEngine } from "../target/open-store.ts";
import type { StoreTarget } from "../target/store-target.ts";
import { TARGET, targetOf, withServer } from "../target/target.ts";

export const prune: CliCommand = {
  name: "prune",
  summary: "Delete jobs whose retention has expired",
  usage: "perdure prune [OPTIONS]",
  about:
    "A server does this by itself, about once a minute. Through a server, its own settings apply; without one, those of the " +
    "settings file and the environment: server.retention.succeeded, .failed and .cancelled. See `perdure config`.",
  options: [...TARGET, ...READING],
  examples: ["perdure prune", "PERDURE_RETENTION_SUCCEEDED=1d perdure prune --data ./.perdure"],

  async run(context) {
    const { given, io, out } = context;
    given.atMost(0);
    const target = targetOf(context);
    const jobs =
      target.kind === "server"
        ? await withServer(target, (perdure) => perdure.prune())
        : await withEngine(context, target, settings(target), (engine) => engine.prune(thisUser()));
    if (given.flag("json")) out.json({ jobs });
    else out.line(jobs === 1 ? "deleted 1 job" : `deleted ${jobs} jobs`);
    return EXIT.done;

    function settings({ url }: StoreTarget) {
      const config = upkeepSettings(context);
      return { retention: retentionIn(config), outputs: outputsOf(config.text("server.outputs"), io.cwd, url) };
    }
  },
};
