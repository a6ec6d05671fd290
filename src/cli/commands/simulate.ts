/** `perdure simulate`: what a policy or a playbook would do, without running anything. */
import { showMs } from "../../core/duration.ts";
import { counted } from "../../core/format.ts";
import { OUTCOME_FORMS } from "../../core/simulate/played-outcome.ts";
import { type Scenario, simulate as simulateJob, simulateMany } from "../../core/simulate/simulate.ts";
import { withDialectHelp } from "../../dialects/cli/registry.ts";
import { simulatedEnd } from "../../dialects/simulated-end.ts";
import type { CliCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { PLAN_OPTIONS, planOf } from "../simulate/plan.ts";
import { playbookIn, simulatePlaybook } from "../simulate/playbook.ts";
import { printDistribution, printSimulation } from "../simulate/report.ts";
import { onlyText, SOURCE_OPTIONS, sourceOf } from "../simulate/source.ts";

export const simulate: CliCommand = {
  name: "simulate",
  summary: "Show what a policy or a playbook would do, without running it",
  usage: "perdure simulate [-f FILE] [--outcomes LIST | --failure-rate R] [OPTIONS]",
  options: [
    ...SOURCE_OPTIONS,
    ...PLAN_OPTIONS,
    { name: "json", type: "boolean", help: "Print one JSON document, and nothing else, to stdout." },
  ],
  ...withDialectHelp("simulate", {
    about:
      "Feeds outcomes to the code that decides on real jobs, and prints each attempt: the decision after it and its rule, the " +
      "wait and its range under jitter, the count against its limit, and how the job ends. Nothing is stored or started. " +
      `Outcomes: ${OUTCOME_FORMS}. A lost worker is assumed to be noticed at once, and another to be free when the job is ` +
      "due. Exits with 0 however the job ends. With --file of a playbook it plays a run of it: steps, arcs with their conditions, loops " +
      'and waits. --outcomes is then a file, as in\n  fetch: [503, { ok: { total: 3 } }]\n  "charge[1]": fail\n  "*": ok',
    examples: [
      "perdure simulate --max-attempts 5 --backoff 2s --outcomes fail,fail,ok",
      "perdure simulate -f task.yaml --outcomes fail,lost,fail,ok --jitter 0 --json",
      "perdure simulate --max-attempts 4 --failure-rate 0.3 --runs 10000",
      "perdure simulate -f orders.yaml --outcomes script.yaml -p city=Oslo",
    ],
  }),

  async run(context) {
    const { given, out, io } = context;
    given.atMost(0);
    const text = await onlyText(context);
    const playbook = text === null ? null : playbookIn(context, given.texts("file")[0] as string, text);
    if (playbook !== null) return simulatePlaybook(context, playbook);
    const plan = planOf(given);
    const { policy, job, annotations, notes } = await sourceOf(context, text);
    const scenario: Scenario = { ...plan.scenario, policy, job };
    checkTakes(scenario);
    for (const note of notes) out.note(`note: ${note}`);
    const isJson = given.flag("json");
    if (plan.runs !== null) {
      const distribution = simulateMany(scenario, plan.runs);
      if (isJson) out.json({ ...distribution, seed: plan.seed, policy });
      else printDistribution(out, distribution);
      return EXIT.done;
    }
    const simulation = simulateJob(scenario);
    const leftOver = plan.leftOver();
    if (leftOver > 0) out.note(`note: the job ended before the last ${counted(leftOver, "outcome")}`);
    const dialect = simulatedEnd(simulation, annotations);
    const { steps: attempts, end } = simulation;
    if (isJson) out.json({ attempts, end: { ...end, dialect }, seed: plan.seed, policy });
    else printSimulation(out, simulation, dialect, io.columns);
    return EXIT.done;
  },
};

/** An attempt cannot take longer than the timeout. */
function checkTakes({ takesMs = 0, job }: Scenario): void {
  const timeoutMs = job?.timeoutMs ?? null;
  if (timeoutMs === null || takesMs <= timeoutMs) return;
  const problem = `${showMs(takesMs)} is longer than the job's timeout of ${showMs(timeoutMs)}`;
  throw usageError(`--takes: ${problem}; pass a shorter time, and use timeout as an outcome`);
}
