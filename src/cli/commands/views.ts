/** `perdure views`: shows the tables of a store in PostgreSQL as those of another system, for its tools and reports. */
import type { SqlViews } from "../../dialects/dialect.ts";
import { DIALECTS } from "../../dialects/registry.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { changeViews, isPostgres } from "../../store/open.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { loadConfig, optionsFor } from "../config/config.ts";
import type { SettingKey } from "../config/settings.ts";
import { choiceError, conflictError, EXIT, missingArgument, usageError } from "../exit.ts";
import { dataAt } from "../target/data-directory.ts";
import { databaseTarget, type StoreTarget } from "../target/store-target.ts";
import { refusePassword } from "../target/target.ts";

const KEYS = ["db", "schema"] as const satisfies readonly SettingKey[];
const DEFAULT_TABLES = "perdure";

export const views: CliCommand = {
  name: "views",
  summary: "Show the tables of a PostgreSQL database as another system's",
  usage: "perdure views SYSTEM --install | --print | --drop [--db URL]",
  about:
    `SYSTEM is ${systems().join(" or ")}. The views are in the schema of that name, only read, and follow the jobs. ` +
    "The database must be PostgreSQL, given by --db or the setting db; servers may keep running. --print shows the statements " +
    "instead, for PostgreSQL 15 and later, and connects to nothing.",
  options: [
    { name: "install", type: "boolean", help: "Create the views, or replace those of an earlier version." },
    { name: "drop", type: "boolean", help: "Remove the views." },
    { name: "print", type: "boolean", help: "Print the statements that create them." },
    ...optionsFor(KEYS),
    ...READING,
  ],
  examples: systems().flatMap((name) => [
    `perdure views ${name} --print`,
    `perdure views ${name} --install --db postgres://perdure@db.example/jobs`,
  ]),

  async run(context) {
    const { given, out } = context;
    given.atMost(1);
    const [system] = given.positionals;
    if (system === undefined) throw missingArgument("SYSTEM", this.usage);
    const found = viewsOf(system);
    const verb = verbOf(context);
    const { schema: into, views, statements } = found;
    if (verb === "print") {
      const tables = loadConfig(context, KEYS).text("schema") ?? DEFAULT_TABLES;
      const lines = [`create schema if not exists "${into}"`, ...statements({ tables, into, isInvoker: true })];
      if (given.flag("json")) out.json({ statements: lines });
      else for (const line of lines.flatMap((text) => `${text};`.split("\n"))) out.line(line);
      return EXIT.done;
    }
    const { url, schema, shown } = databaseOf(context);
    const isChanged = await changeViews({
      ...{ url, schema, clock: systemClock, random: Math.random, into, views },
      statements: verb === "install" ? statements : null,
    });
    const names = views.map((view) => `${into}.${view}`);
    if (given.flag("json")) out.json({ store: shown, views: names, changed: isChanged });
    else if (verb === "install") out.line(`installed ${names.join(", ")} in ${shown}`);
    else out.line(isChanged ? `removed ${names.join(", ")} from ${shown}` : `${shown} has no such views`);
    return EXIT.done;
  },
};

function systems(): string[] {
  return DIALECTS.filter(({ sqlViews }) => sqlViews !== undefined).map(({ name }) => name);
}

function viewsOf(system: string): SqlViews {
  const found = DIALECTS.find(({ name }) => name === system)?.sqlViews;
  if (found === undefined) throw choiceError("SYSTEM", system, systems());
  return found;
}

function verbOf({ given }: CommandContext): "install" | "drop" | "print" {
  const verbs = (["install", "drop", "print"] as const).filter((verb) => given.flag(verb));
  const [verb, second] = verbs;
  if (verb === undefined) throw usageError("pass --install, --print or --drop");
  if (second !== undefined) throw conflictError(`--${verb}`, `--${second}`);
  return verb;
}

function databaseOf(context: CommandContext): StoreTarget {
  const { given, io } = context;
  const config = loadConfig({ given, io }, KEYS);
  const db = config.text("db");
  if (db === undefined || !isPostgres(db)) {
    throw usageError(
      db === undefined
        ? "pass --db postgres://…: views are created in a PostgreSQL database"
        : `${config.sourceOf("db")}: views are created in a PostgreSQL database only; pass postgres://…`,
    );
  }
  refusePassword(context, config);
  const dir = dataAt(".perdure", "default", io.cwd);
  return databaseTarget({
    db,
    from: config.sourceOf("db"),
    schema: config.text("schema"),
    dir,
    namespace: "",
    cwd: io.cwd,
  });
}
