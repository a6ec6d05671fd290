/** `perdure start`: starts a run of a playbook of the catalog. */
import { parsePlaybookPath } from "../../core/api/playbooks.ts";
import type { Perdure } from "../../core/api.ts";
import { readYaml } from "../../yaml/read.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { conflictError, EXIT, missingArgument, requirementError } from "../exit.ts";
import { readDocument } from "../playbooks/playbook-files.ts";
import { givenInput, RUN_INPUT, RUN_OPTIONS, runOptionsOf, typedInput } from "../playbooks/run-options.ts";
import { type FoundDefinition, runPlaybook } from "../playbooks/run-playbook.ts";
import { NO_SERVER, startRun, waitForRuns } from "../playbooks/start-runs.ts";
import { playbookTools } from "../playbooks/tools.ts";
import { TARGET, targetOf, withPerdure } from "../target/target.ts";

export const start: CliCommand = {
  name: "start",
  summary: "Start a run of a playbook of the catalog",
  usage: "perdure start PATH[@N] [-p KEY=VALUE…] [OPTIONS]",
  about:
    "Without @N, of the latest version; the run keeps it. Prints the id of the run. With --follow it prints a line for each " +
    "step and the result, and exits, as `perdure run -f` does: without a server the steps run here. `perdure playbook push` " +
    "adds to the catalog; `perdure apply -f FILE` starts a run without it.",
  options: [
    ...RUN_INPUT,
    ...RUN_OPTIONS,
    { name: "wait", short: "w", type: "boolean", help: "Wait until the run has ended." },
    { name: "follow", type: "boolean", help: "Show the steps until the run has ended, then its result." },
    { name: "again", type: "boolean", help: "With --follow and --key: redrive a run that failed or was cancelled." },
    { name: "quiet", short: "q", type: "boolean", help: "With --follow: print only the result." },
    ...TARGET,
    ...READING,
  ],
  examples: [
    "perdure start shop/orders -p city=Oslo -p days=3",
    "perdure start shop/orders@3 --key orders-2026-11-20 --wait",
    "perdure start shop/orders --follow",
  ],

  async run(context) {
    const { given } = context;
    given.atMost(1);
    const [what] = given.positionals;
    if (what === undefined) throw missingArgument("PATH", start.usage);
    parsePlaybookPath(what);
    const isFollowed = given.flag("follow");
    if (isFollowed && given.flag("wait")) throw conflictError("--wait", "--follow");
    for (const name of ["again", "quiet"]) {
      if (given.flag(name) && !isFollowed) throw requirementError(`--${name}`, "--follow");
    }
    if (given.flag("again") && !given.flag("key")) throw requirementError("--again", "--key");
    const options = runOptionsOf(given);
    const input = await givenInput(context);
    const target = targetOf(context);
    const find = (perdure: Perdure) => inCatalog(context, perdure, what);
    if (isFollowed) return runPlaybook(context, target, { find, input, options });
    return withPerdure(context, async (perdure) => {
      const { inputs } = given.flag("param") ? await find(perdure) : { inputs: null };
      const run = await startRun(context, perdure, {
        ...{ playbook: what, options },
        input: typedInput(given, input, inputs),
      });
      if (target.kind === "store" && run.created) context.out.note(NO_SERVER);
      if (given.flag("wait")) return waitForRuns(context, [run]);
      if (given.flag("json")) context.out.json({ id: run.id, created: run.created });
      return EXIT.done;
    });
  },
};

async function inCatalog(context: CommandContext, perdure: Perdure, text: string): Promise<FoundDefinition> {
  const { path, version } = parsePlaybookPath(text);
  const { source, summary } = await perdure.playbook(path, version ?? undefined);
  const { playbook } = readDocument(readYaml(source, path), playbookTools(context));
  return { playbook: text, inputs: summary.inputs, definitions: playbook === null ? [] : [playbook] };
}
