/** `perdure prune`: deletes now what the server, or the next engine, would delete by itself. */
import { type Command, READING } from "../command.ts";
import { loadConfig } from "../config/config.ts";
import { PLACE, placeOf, type StorePlace, withEngine } from "../direct.ts";
import { EXIT } from "../exit.ts";
import { outputsOf } from "../serve/outputs.ts";
import { withServer } from "../target.ts";

const KEYS = [
  ...(["server.retention.succeeded", "server.retention.failed", "server.retention.cancelled"] as const),
] as const;

export const prune: Command = {
  name: "prune",
  summary: "Delete now what is past its retention",
  usage: "perdure prune [OPTIONS]",
  about:
    "A server keeps jobs as its own settings say. Without one, those of the file of settings and of the environment count: " +
    "server.retention.succeeded, .failed and .cancelled; see `perdure config`.",
  options: [...PLACE, ...READING],
  examples: ["perdure prune", "PERDURE_RETENTION_SUCCEEDED=1d perdure prune --data ./.perdure"],

  async run(context) {
    const { given, io, out } = context;
    given.atMost(0);
    const place = placeOf(context);
    const jobs =
      place.kind === "server"
        ? await withServer(place, (perdure) => perdure.prune())
        : await withEngine(context, place, settings(place), (engine) => engine.prune());
    if (given.flag("json")) out.json({ jobs });
    else out.line(jobs === 1 ? "deleted 1 job" : `deleted ${jobs} jobs`);
    return EXIT.done;

    function settings({ url }: StorePlace) {
      const file = given.text("config");
      const named = file === undefined ? io : { ...io, env: { ...io.env, PERDURE_CONFIG: file } };
      const config = loadConfig({ io: named }, [...KEYS, "server.outputs"]);
      const [succeeded, failed, cancelled] = KEYS.map((key) => config.durationMs(key));
      const retention = { succeeded: succeeded ?? null, failed: failed ?? null, cancelled: cancelled ?? null };
      return { retention, outputs: outputsOf(config.text("server.outputs"), io.cwd, url) };
    }
  },
};
