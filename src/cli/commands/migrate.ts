/** `perdure migrate`: upgrades the tables of a store to this version. Opening a store does that too; this command allows
 *  choosing the moment, and a dry run. */
import { systemClock } from "../../lib/system-clock.ts";
import { isPostgres, schemaVersion } from "../../store/open.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { loadConfig, optionsFor } from "../config/config.ts";
import type { SettingKey } from "../config/settings.ts";
import { CliError, conflictError, EXIT } from "../exit.ts";
import { dataAt, holdsData, noData } from "../target/data-directory.ts";
import { preparedStore } from "../target/open-store.ts";
import { liveServer } from "../target/server-notes.ts";
import { databaseTarget, dataTarget, type StoreTarget } from "../target/store-target.ts";
import { refusePassword } from "../target/target.ts";

const KEYS = ["data", "db", "schema"] as const satisfies readonly SettingKey[];

export const migrate: CliCommand = {
  name: "migrate",
  summary: "Upgrade the schema of a database to this version",
  usage: "perdure migrate [--db URL | --data DIR] [OPTIONS]",
  about:
    "Make a backup and stop the servers of older versions first: they cannot use a newer schema. A database that is newer " +
    "than this program is refused and not changed.",
  options: [
    { name: "dry-run", type: "boolean", help: "Only show what would be done." },
    ...optionsFor(KEYS),
    ...READING,
  ],
  examples: ["perdure migrate --dry-run", "perdure migrate --db postgres://perdure@db.example/jobs"],

  async run(context) {
    const { given, out } = context;
    given.atMost(0);
    const place = storeOf(context);
    const { url, schema, shown } = place;
    const isDry = given.flag("dry-run");
    const { found: from, known: to } = await schemaVersion({ url, schema, clock: systemClock, random: Math.random });
    const isDone = from === to;
    if (!isDone && !isDry) {
      refuseServed(place);
      await preparedStore(url, schema);
    }
    if (given.flag("json")) out.json({ store: shown, from, to, changed: !isDone && !isDry });
    else if (isDone) out.line(`${shown} is up to date: schema ${to}`);
    else if (from === 0) out.line(`${shown} has no tables yet: schema ${to} ${isDry ? "would be" : "was"} created`);
    else out.line(`${shown} ${isDry ? "would be" : "was"} upgraded from schema ${from} to ${to}`);
    return EXIT.done;
  },
};

function storeOf(context: CommandContext): StoreTarget {
  const { given, io } = context;
  const config = loadConfig({ given, io }, KEYS);
  const isByOption = (key: SettingKey) => config.sourceOf(key).startsWith("--");
  if (isByOption("db") && isByOption("data")) throw conflictError("--db", "--data");
  const dir = dataAt(config.text("data"), config.sourceOf("data"), io.cwd);
  const db = config.text("db");
  if (db !== undefined && !isByOption("data")) {
    refusePassword(context, config);
    const from = config.sourceOf("db");
    return databaseTarget({ db, from, schema: config.text("schema"), dir, namespace: "", cwd: io.cwd });
  }
  if (!holdsData(dir)) throw noData(dir);
  return dataTarget(dir, "");
}

/** A running server works only with the schema that it was started with. */
function refuseServed({ url, dir, isData }: StoreTarget): void {
  const live = isData && !isPostgres(url) ? liveServer(dir.path) : null;
  if (live === null) return;
  throw new CliError(EXIT.failed, `${dir.given} is in use by the server with pid ${live.pid}; stop it first`);
}
