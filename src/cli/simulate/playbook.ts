/** `perdure simulate -f` of a playbook: its steps with scripted or random outcomes, on a clock of its own. Nothing is stored. */
import { dirname, resolve } from "node:path";
import { isPlain, nearest } from "../../core/check.ts";
import { showMs, toMs } from "../../core/duration.ts";
import { ConfigError, show } from "../../core/errors.ts";
import { counted } from "../../core/format.ts";
import { pathFrom, withPaths } from "../../core/playbook/paths.ts";
import type { Playbook } from "../../core/playbook/playbook.ts";
import { type OutcomeScript, outcomeScript } from "../../core/run/outcome-script.ts";
import { type RunScenario, type RunSimulationEnd, simulateRun, timelineLines } from "../../core/run/simulate-run.ts";
import { type RunDistribution, simulateRuns } from "../../core/run/simulate-runs.ts";
import { isPlaybookDocument } from "../../dialects/playbooks.ts";
import type { CommandContext } from "../command.ts";
import { conflictError, EXIT, missingFileError, valueError } from "../exit.ts";
import { POLICY_OPTIONS, timeOf } from "../input/shared-options.ts";
import { readYaml, readYamlDocuments, readYamlFile, yamlUsageError } from "../input/yaml-file.ts";
import type { TextPiece } from "../output/terminal-text.ts";
import {
  type PlaybookSource,
  type PlaybookWithFiles,
  readDocument,
  readWithFiles,
  sourceOf,
} from "../playbooks/playbook-files.ts";
import { refuseErrors } from "../playbooks/problems.ts";
import { checkedInput } from "../playbooks/run-options.ts";
import { playbookTools } from "../playbooks/tools.ts";
import { pairsOf } from "../submit/entry-from-options.ts";
import { TARGET } from "../target/target.ts";
import { randomOf, rateOf, runsOf } from "./plan.ts";
import { printEnds } from "./report.ts";

/** What is about one job only. */
const OF_A_JOB = [
  ...["job", "dialect", "repeat", "tokens", "cost"],
  ...POLICY_OPTIONS.map(({ name }) => name),
  ...TARGET.map(({ name }) => name),
];

/** The playbook in a text; null if it is something else. With `--job` or `--dialect`, a file is one of jobs. */
export function playbookIn({ given, io }: CommandContext, name: string, text: string): PlaybookSource | null {
  if (given.flag("job") || given.flag("dialect")) return null;
  const [yaml, ...others] = readYamlDocuments(text, name === "-" ? "stdin" : name);
  if (yaml === undefined || others.length > 0 || !isPlaybookDocument(yaml.value)) return null;
  return sourceOf(yaml, name === "-" ? io.cwd : dirname(resolve(io.cwd, name)), text);
}

export function simulatePlaybook(context: CommandContext, source: PlaybookSource): number {
  const { given, out } = context;
  const other = OF_A_JOB.find((name) => given.flag(name));
  if (other !== undefined) throw conflictError(`--${other}`, "a playbook", "its steps have options of their own");
  const rate = rateOf(given);
  const runs = runsOf(given, rate);
  const { seed, random } = randomOf(given, rate);
  const found = readWithFiles(source, playbookTools(context));
  refuseErrors(out, found.readings);
  const playbook = ofFile(found.readings[0]?.playbook as Playbook, FIRST_FILE);
  const takes = timeOf(given, "takes");
  const scenario: RunScenario = {
    playbook,
    playbooks: playbooksOf(found, context),
    input: checkedInput(given, pairsOf(given, "param"), playbook.inputs),
    ...(given.flag("outcomes") ? { outcomes: scriptOf(context, playbook) } : {}),
    ...(rate === null ? {} : { failureRate: rate }),
    ...(random === null ? {} : { random }),
    takesMs: takes === undefined ? 0 : toMs(takes, "--takes"),
  };
  const isJson = given.flag("json");
  if (runs !== null) {
    const distribution = simulateRuns(scenario, runs);
    if (isJson) out.json({ ...distribution, seed });
    else printRunDistribution(context, distribution);
    return EXIT.done;
  }
  const simulation = simulateRun(scenario);
  const { timeline, end, steps } = simulation;
  if (isJson) out.json({ timeline, end, steps, seed });
  else {
    for (const line of timelineLines(simulation)) out.line(line);
    out.line();
    out.line(endText(end));
    if (end.state === "succeeded") out.json(end.result);
  }
  return EXIT.done;
}

const FIRST_FILE = "./playbook";

/** With paths from the first file, as an engine has them. */
function ofFile(playbook: Playbook, file: string): Playbook {
  return withPaths(playbook, (path) => pathFrom(file, path) ?? path);
}

/** Those in files beside it. Of others, in a catalog, nothing is known: they are played as a step. */
function playbooksOf({ given }: PlaybookWithFiles, context: CommandContext): (path: string) => Playbook | null {
  const tools = playbookTools(context);
  const files = new Map(
    Object.entries(given.files ?? {}).map(([file, text]) => {
      const { playbook } = readDocument(readYaml(text, file), tools);
      return [file, playbook === null ? null : ofFile(playbook, file)] as const;
    }),
  );
  return (path) => files.get(path) ?? null;
}

/** The outcomes in a file: by step a list, one for each attempt. */
function scriptOf({ given, io }: CommandContext, { steps }: Playbook): OutcomeScript {
  const name = given.text("outcomes") as string;
  const file = readYamlFile(resolve(io.cwd, name), name);
  if (file === null) {
    if (!/\.(ya?ml|json)$/i.test(name)) {
      throw valueError(
        "--outcomes",
        name,
        "a file with the outcomes of each step of the playbook, such as script.yaml",
      );
    }
    throw missingFileError(name, "pass a file with outcomes by step, as in fetch: [503, ok]");
  }
  const names = steps.map((step) => step.name);
  for (const key of isPlain(file.value) ? Object.keys(file.value) : []) {
    const [, step = key] = /^([^[/]+)(?:\[\d+\])?(?:\/.*)?$/s.exec(key) ?? [];
    if (key === "*" || names.includes(step)) continue;
    const near = nearest(step, names);
    const hint = near === null ? `; it has ${names.slice(0, 10).join(", ")}` : `; did you mean ${show(near)}?`;
    throw yamlUsageError(file, [key], `the playbook has no step ${show(step)}${hint}`);
  }
  try {
    return outcomeScript(file.value, "");
  } catch (error) {
    throw error instanceof ConfigError ? yamlUsageError(file, [], error.message.replace(/^\.?/, "")) : error;
  }
}

const STOPPED = {
  limit: "too much happens; it is not played any further",
  until: "the time is over",
  stuck: "nothing is due, and nothing can continue it",
} as const;

function endText({ state, reason, message, steps, attempts, totalMs, stopped }: RunSimulationEnd): TextPiece {
  const how = reason === null ? state : `${state} (${reason})`;
  const why = stopped === null ? message : STOPPED[stopped];
  const text = `${how} after ${counted(steps, "step")} and ${counted(attempts, "attempt")}, ${showMs(totalMs)}`;
  return `${text}${why === null || state === "succeeded" ? "" : `: ${why}`}`;
}

function printRunDistribution({ out }: CommandContext, distribution: RunDistribution): void {
  const { runs, ends, steps, attempts, totalMs, succeededShare, cutShort } = distribution;
  const named = ends.map(({ state, reason, step, count, share }) => {
    const how = reason === null ? state : `${state} (${reason})`;
    return { isSuccess: state === "succeeded", text: step === null ? how : `${how} at ${step}`, count, share };
  });
  printEnds(out, named, { steps, attempts, totalMs }, { runs, succeededShare });
  if (cutShort) out.note("fewer simulations than requested: they have too many attempts; lower --runs");
}
