/** `perdure playbook`: the catalog, with versions by path. */
import { type PlaybookVersion, parsePlaybookPath } from "../../core/api/playbooks.ts";
import type { Perdure } from "../../core/api.ts";
import { counted } from "../../core/format.ts";
import type { InputRule } from "../../core/playbook/playbook.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { choiceError, conflictError, EXIT, missingArgument, usageError } from "../exit.ts";
import { showLocal } from "../output/print.ts";
import { painted } from "../output/terminal-text.ts";
import { onlySource, type PlaybookFileReading, playbookSources, readDocument } from "../playbooks/playbook-files.ts";
import { refuseErrors } from "../playbooks/problems.ts";
import { playbookTools } from "../playbooks/tools.ts";
import { TARGET, targetOf, withPerdure } from "../target/target.ts";

export const PLAYBOOK_WORDS = ["push", "list", "show", "delete"] as const;
const PAGE = 200;

export const playbook: CliCommand = {
  name: "playbook",
  summary: "Push, list, show or delete playbooks of the catalog",
  usage: "perdure playbook push FILE… | list | show PATH[@N] | delete PATH[@N]",
  about:
    "The catalog has versions of a playbook by path, such as shop/orders@3. push adds a version, unless the text is that of " +
    "the latest; the path is that of the playbook (metadata.path), or --path. delete removes a version, or without @N all " +
    "of a path. Runs keep the version that they were started with. On a server push and delete require the scope admin.",
  options: [
    { name: "path", type: "string", value: "PATH", help: "With push: the path, instead of the playbook's own." },
    { name: "source", type: "boolean", help: "With show: print the text as it was pushed, and nothing else." },
    ...TARGET,
    ...READING,
  ],
  examples: [
    "perdure playbook push orders.yaml",
    "perdure playbook push orders.yaml --path shop/orders",
    "perdure playbook show shop/orders@3 --source",
  ],

  async run(context) {
    const { given } = context;
    const [word, ...rest] = given.positionals;
    if (word === undefined) throw missingArgument("push, list, show or delete", playbook.usage);
    if (given.flag("path") && word !== "push") throw conflictError("--path", word);
    if (given.flag("source") && word !== "show") throw conflictError("--source", word);
    switch (word) {
      case "push":
        return push(context, rest);
      case "list":
        given.atMost(1);
        return list(context);
      case "show":
        return show(context, onlyPath(context, rest));
      case "delete":
        return remove(context, onlyPath(context, rest));
      default:
        throw choiceError("perdure playbook", word, PLAYBOOK_WORDS);
    }
  },
};

function onlyPath({ given }: CommandContext, [path]: readonly string[]): string {
  given.atMost(2);
  if (path === undefined) throw missingArgument("PATH", playbook.usage);
  parsePlaybookPath(path);
  return path;
}

async function push(context: CommandContext, names: readonly string[]): Promise<number> {
  const { given, io, out } = context;
  const path = given.text("path");
  if (names.length === 0) throw missingArgument("FILE", playbook.usage);
  if (path !== undefined && names.length > 1) throw usageError("--path: pass one file with it");
  const target = targetOf(context);
  // All files are checked before one is stored.
  const texts: { readonly source: string; readonly file: string }[] = [];
  const readings: PlaybookFileReading[] = [];
  for (const name of names) {
    const sources = await playbookSources(name, io);
    if ("problems" in sources) {
      readings.push(sources);
      continue;
    }
    const { yaml, text, file } = onlySource(sources, name);
    const reading = readDocument(yaml, playbookTools(context));
    // A server may have other types of steps.
    const isOurs = target.kind === "store";
    readings.push({
      ...reading,
      problems: reading.problems.filter(({ code }) => isOurs || code !== "tool_unknown"),
    });
    texts.push({ source: text, file });
  }
  refuseErrors(out, readings);
  if (target.kind === "store") await (await import("../target/open-store.ts")).makeStore(target);
  return withPerdure(context, async (perdure) => {
    const pushed: PlaybookVersion[] = [];
    for (const text of texts) pushed.push(await perdure.pushPlaybook(text, path === undefined ? {} : { path }));
    if (given.flag("json")) out.json(pushed);
    else for (const each of pushed) out.line(`${each.path}@${each.version}`);
    return EXIT.done;
  });
}

async function list(context: CommandContext): Promise<number> {
  const { given, out } = context;
  return withPerdure(context, async (perdure) => {
    if (given.flag("json")) await out.jsonList(eachPath(perdure));
    else {
      const rows = async function* () {
        for await (const { path, version, at, by } of eachPath(perdure)) {
          yield [path, String(version), showLocal(at), by ?? ""];
        }
      };
      const columns = [
        { head: "PATH" },
        { head: "VERSION", side: "right" },
        { head: "PUSHED" },
        { head: "BY" },
      ] as const;
      if ((await out.tables(columns, rows())) === 0)
        out.note("no playbooks; add one with `perdure playbook push FILE`");
    }
    return EXIT.done;
  });
}

async function* eachPath(perdure: Perdure): AsyncGenerator<PlaybookVersion, void, void> {
  for (let after: string | null = null; ; ) {
    const page: PlaybookVersion[] = await perdure.playbooks({ limit: PAGE, ...(after === null ? {} : { after }) });
    yield* page;
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE) return;
    after = last.path;
  }
}

async function show(context: CommandContext, text: string): Promise<number> {
  const { given, out } = context;
  const { path, version } = parsePlaybookPath(text);
  if (given.flag("source") && given.flag("json")) throw conflictError("--json", "--source");
  return withPerdure(context, async (perdure) => {
    const info = await perdure.playbook(path, version ?? undefined);
    if (given.flag("json")) out.json(info);
    else if (given.flag("source")) out.block(info.source.replace(/\n$/, ""));
    else {
      const { summary } = info;
      out.facts([
        ["Playbook", painted("bold", `${info.path}@${info.version}`)],
        ["Name", summary.name],
        ["Description", summary.description],
        ["Definition", info.hash.slice(0, 12)],
        ["Pushed", showLocal(info.at)],
        ["By", info.by],
        ["Versions", versionsText(info.versions)],
      ]);
      const inputs = Object.entries(summary.inputs ?? {});
      if (inputs.length > 0) {
        out.line();
        out.table(
          [{ head: "INPUT" }, { head: "TYPE" }, { head: "DEFAULT" }, { head: "DESCRIPTION", flexible: true }],
          inputs.map(([name, rule]) => [name, rule.type ?? "any", defaultText(rule), rule.description ?? ""]),
        );
      }
      out.line();
      out.table(
        [{ head: "STEP" }, { head: "TYPE" }],
        summary.steps.map(({ name, type }) => [name, type ?? "routes"]),
      );
    }
    return EXIT.done;
  });
}

/** The latest ones; `--json` has all. */
const SHOWN_VERSIONS = 10;

function versionsText(versions: readonly PlaybookVersion[]): string {
  const shown = versions.slice(0, SHOWN_VERSIONS).map(({ version }) => version);
  return `${shown.join(", ")}${versions.length > shown.length ? ", …" : ""}`;
}

function defaultText({ required, default: value }: InputRule): string {
  if (value !== undefined) return JSON.stringify(value);
  return required ? "required" : "";
}

async function remove(context: CommandContext, text: string): Promise<number> {
  const { given, out } = context;
  const { path, version } = parsePlaybookPath(text);
  return withPerdure(context, async (perdure) => {
    const deleted = await perdure.deletePlaybook(path, version ?? undefined);
    if (given.flag("json")) out.json({ path, version, deleted });
    else out.line(`${text}: deleted ${counted(deleted, "version")}`);
    return EXIT.done;
  });
}
