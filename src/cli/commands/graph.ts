/** `perdure graph`: the playbook of a file as a graph. Nothing is stored, and no database is needed. */
import { statSync } from "node:fs";
import { resolve } from "node:path";
import { asOneOf } from "../../core/check.ts";
import type { Playbook } from "../../core/playbook/playbook.ts";
import { GRAPH_FORMATS, type GraphFormat } from "../../core/run/graph-format.ts";
import { graphText } from "../../core/run/graph-text.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { loadConfig, optionsFor } from "../config/config.ts";
import { conflictError, EXIT, missingArgument, missingFileError } from "../exit.ts";
import { onlySource, playbookSources, readDocument } from "../playbooks/playbook-files.ts";
import { refuseErrors } from "../playbooks/problems.ts";

const KEYS = ["playbooks.tools"] as const;

export const graph: CliCommand = {
  name: "graph",
  summary: "Draw the steps of a playbook",
  usage: "perdure graph FILE [OPTIONS]",
  about: "Nothing is stored, and no database is needed. - reads standard input.",
  options: [
    { name: "format", type: "string", value: "FORMAT", help: `${GRAPH_FORMATS.join(", ")}. Default: ascii.` },
    ...READING.filter(({ name }) => name === "json"),
    ...optionsFor(KEYS),
  ],
  examples: ["perdure graph orders.yaml", "perdure graph orders.yaml --format mermaid"],

  async run(context) {
    const { given, out } = context;
    given.atMost(1);
    const [what] = given.positionals;
    if (what === undefined) throw missingArgument("FILE", graph.usage);
    const format = formatOf(context);
    const text = await graphOf(context, what, format);
    out.block(text.trimEnd());
    return EXIT.done;
  },
};

function formatOf({ given }: CommandContext): GraphFormat {
  const text = given.text("format");
  const isJson = given.flag("json");
  if (text === undefined) return isJson ? "json" : "ascii";
  const format = asOneOf(text, GRAPH_FORMATS, "--format");
  if (isJson && format !== "json") throw conflictError("--json", `--format ${format}`);
  return format;
}

async function graphOf(context: CommandContext, what: string, format: GraphFormat): Promise<string> {
  if (isFile(what, context.io.cwd)) return graphText(await playbookIn(context, what), format);
  throw missingFileError(what, "pass another, or - for standard input");
}

function isFile(name: string, cwd: string): boolean {
  return (
    name === "-" ||
    /\.(ya?ml|json)$/i.test(name) ||
    statSync(resolve(cwd, name), { throwIfNoEntry: false })?.isFile() === true
  );
}

async function playbookIn(context: CommandContext, name: string): Promise<Playbook> {
  const { io, out } = context;
  const sources = await playbookSources(name, io);
  const reading =
    "problems" in sources
      ? sources
      : readDocument(onlySource(sources, name).yaml, loadConfig(context, KEYS).labels("playbooks.tools"));
  refuseErrors(out, [reading]);
  return reading.playbook as Playbook;
}
