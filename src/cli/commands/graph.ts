/** `perdure graph`: a playbook as a graph, from a file or the catalog; or a run, with the states of its steps. */
import { statSync } from "node:fs";
import { resolve } from "node:path";
import { parsePlaybookPath } from "../../core/api/playbooks.ts";
import { asOneOf } from "../../core/check.ts";
import type { Playbook } from "../../core/playbook/playbook.ts";
import { GRAPH_FORMATS, type GraphFormat } from "../../core/run/graph-format.ts";
import { graphText } from "../../core/run/graph-text.ts";
import { readYaml } from "../../yaml/read.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { conflictError, EXIT, missingArgument, usageError } from "../exit.ts";
import { asReference, fullId } from "../jobs/job-reference.ts";
import { onlySource, playbookSources, readDocument } from "../playbooks/playbook-files.ts";
import { refuseErrors } from "../playbooks/problems.ts";
import { playbookTools } from "../playbooks/tools.ts";
import { TARGET, withPerdure } from "../target/target.ts";

export const graph: CliCommand = {
  name: "graph",
  summary: "Draw a playbook, or a run with the states of its steps",
  usage: "perdure graph FILE|RUN|PATH[@N] [OPTIONS]",
  about:
    "The argument is a file, if it exists or ends in .yaml, .yml or .json; a path of the catalog, if it contains a slash or a " +
    "version; else the id or name of a run. Of a file nothing is stored, and no database is needed.",
  options: [
    { name: "format", type: "string", value: "FORMAT", help: `${GRAPH_FORMATS.join(", ")}. Default: ascii.` },
    ...TARGET,
    ...READING,
  ],
  examples: [
    "perdure graph orders.yaml",
    "perdure graph orders.yaml --format mermaid",
    "perdure graph job_01m7gekg9zevv9a6xvvwmt1v8g",
  ],

  async run(context) {
    const { given, out } = context;
    given.atMost(1);
    const [what] = given.positionals;
    if (what === undefined) throw missingArgument("FILE, RUN or PATH", graph.usage);
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
  if (/[/@]/.test(what)) {
    const { path, version } = parsePlaybookPath(what);
    return withPerdure(context, async (perdure) => {
      const { source } = await perdure.playbook(path, version ?? undefined);
      const reading = readDocument(readYaml(source, path), playbookTools(context));
      if (reading.playbook === null) throw usageError(`${what}: cannot be read with the settings here`);
      return graphText(reading.playbook, format);
    });
  }
  const reference = asReference(what);
  return withPerdure(context, async (perdure) => perdure.runGraph(await fullId(perdure, reference), format));
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
    "problems" in sources ? sources : readDocument(onlySource(sources, name).yaml, playbookTools(context));
  refuseErrors(out, [reading]);
  return reading.playbook as Playbook;
}
