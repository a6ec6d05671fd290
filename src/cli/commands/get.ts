/** `perdure get`: one job, its attempts and its result; or a run, its steps and its result. */

import { jobAttemptText } from "../../core/decision/budget.ts";
import { failureText } from "../../core/decision/failure.ts";
import { showMs } from "../../core/duration.ts";
import type { Explanation } from "../../core/explain/explain.ts";
import { jobName } from "../../core/job/job-name.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { RUN_KIND } from "../../core/playbook/playbook.ts";
import { withDialectHelp } from "../../dialects/cli/registry.ts";
import { jobView, shownKey, showsChildren, sourceOf } from "../../dialects/registry.ts";
import { originOf } from "../../dialects/shared.ts";
import { storable } from "../../lib/text.ts";
import { OUTPUT_VIEWS, OWN_VIEW, outputOf, viewParts } from "../apply/job-views.ts";
import { type CliCommand, READING } from "../command.ts";
import { EXIT } from "../exit.ts";
import { fullId } from "../jobs/job-reference.ts";
import { bySession, commandLine, type KnownWorker, stateText } from "../output/job-text.ts";
import { budgetFacts, usageFact } from "../output/policy-text.ts";
import { type Printer, showLocal, showSince } from "../output/print.ts";
import { type Colour, painted, type TextPiece } from "../output/terminal-text.ts";
import { yamlText } from "../output/yaml-text.ts";
import { noteMoreSteps, printRun, readRun } from "../playbooks/get-run.ts";
import { serverNow } from "../target/server-time.ts";
import { TARGET, withPerdure } from "../target/target.ts";

export const get: CliCommand = {
  name: "get",
  summary: "Show one job or run, its attempts or steps, and its result",
  usage: "perdure get ID [OPTIONS]",
  options: [
    {
      ...{ name: "output", short: "o", type: "string", value: "FORMAT" },
      help:
        "yaml or json: in the format of the system that the job came from, else in Perdure's own. " +
        `A view, in JSON: ${OUTPUT_VIEWS.join(", ")}. VIEW,yaml: a view in YAML.`,
    },
    ...TARGET,
    ...READING,
  ],
  ...withDialectHelp("get", {
    examples: [
      "perdure get job_01m7gekg9zevv9a6xvvwmt1v8g",
      "perdure get --json job_01m7gekg9zevv9a6xvvwmt1v8g",
      "perdure get -o yaml job_01m7gekg9zevv9a6xvvwmt1v8g",
    ],
  }),

  async run(context) {
    const { given, out } = context;
    const short = given.jobId();
    const text = given.text("output");
    const output = text === undefined ? null : outputOf(text, given.flag("json"));
    await withPerdure(context, async (perdure) => {
      const id = await fullId(perdure, short);
      const handle = await perdure.job(id);
      const view = output === null ? OWN_VIEW : (output.view ?? sourceOf(await handle.get()) ?? OWN_VIEW);
      const format = output?.format ?? (given.flag("json") ? "json" : null);
      const write = (value: unknown) => (format === "yaml" ? out.block(yamlText(value)) : out.json(value));
      if (view !== OWN_VIEW) return write(jobView(view, "--output")(await viewParts(perdure, id, showsChildren(view))));
      const job = await handle.get();
      if (job.kind === RUN_KIND) {
        const found = await readRun(perdure, id);
        if (format !== null) {
          noteMoreSteps(out, found);
          return write({ ...found.run, steps: found.steps });
        }
        return printRun(out, perdure, found, shownValue);
      }
      // From the events, unlike the rows of attempts: with the running one, and with the delays between them.
      const { attempts } = await handle.explain();
      if (format !== null) write({ ...job, attempts });
      else print(out, job, attempts, await bySession(perdure), await serverNow(perdure));
      noteLeftOut(out, attempts);
    });
    return EXIT.done;
  },
};

type ExplainedAttempts = Explanation["attempts"];

function print(
  out: Printer,
  job: JobInfo,
  attempts: ExplainedAttempts,
  workers: ReadonlyMap<string, KnownWorker>,
  now: number,
): void {
  out.facts(jobFacts(job, now, workers));
  printAttempts(out, attempts);
  for (const [name, value] of [
    ["Input", job.payload],
    ["Progress", job.progress],
    ["Result", job.result],
  ] as const) {
    if (value === undefined) continue;
    out.line();
    out.line(painted("dim", name));
    out.block(shownValue(value));
  }
}

/** The explanation of a job with very many attempts leaves out those between the first and the last. */
function noteLeftOut(out: Printer, attempts: ExplainedAttempts): void {
  const leftOut = (attempts.at(-1)?.attempt ?? 0) - attempts.length;
  if (leftOut > 0) out.note(`${leftOut} attempts in between are left out; \`perdure events\` lists all of them`);
}

export function printAttempts(out: Printer, attempts: ExplainedAttempts): void {
  if (attempts.length === 0) return;
  out.line();
  out.table(COLUMNS, attempts.map(attemptRow));
}

export function jobFacts(
  job: JobInfo,
  now: number,
  workers: ReadonlyMap<string, KnownWorker>,
): [string, TextPiece | null][] {
  const at = (instant: number | null) => (instant === null ? null : showLocal(instant));
  const span = (ms: number | null) => (ms === null ? null : showMs(ms));
  const labels = Object.entries(job.labels).map(([name, value]) => `${name}=${value}`);
  return [
    ["Job", painted("bold", job.id)],
    ["Name", jobName(job)],
    ["Kind", job.kind],
    ["Command", commandLine(job)],
    ["State", stateText(job, now, workers)],
    ["Queue", job.queue],
    ["Namespace", job.namespace === "default" ? null : job.namespace],
    ["Key", shownKey(job)],
    ["Parent", job.parentId],
    ["Resubmit of", originOf(job)],
    ["Tags", job.tags.join(", ")],
    ["Labels", labels.join(", ")],
    ["Priority", String(job.priority)],
    ["Attempts", jobAttemptText(job)],
    ["Redrives", job.chapter === 1 ? null : String(job.chapter - 1)],
    ["Timeout", span(job.timeoutMs)],
    ["Submitted", at(job.submittedAt)],
    ["Due", job.state === "queued" ? at(job.runAt) : null],
    ["Expires", at(job.expiresAt)],
    ["Deadline", at(job.deadlineAt)],
    ["Finished", at(job.finishedAt)],
    ...budgetFacts(job),
    ["Usage", usageFact(job)],
  ];
}

const COLUMNS = [
  { head: "ATTEMPT", side: "right" },
  { head: "OUTCOME" },
  { head: "STARTED" },
  { head: "TOOK", side: "right" },
  { head: "NEXT AFTER", side: "right" },
  { head: "FAILURE", flexible: true },
] as const;

/** All others are failures. */
const OUTCOMES: Readonly<Partial<Record<ShownOutcome, Colour>>> = {
  ...{ completed: "green", running: "cyan", waiting: "yellow", interrupted: "yellow", released: "yellow" },
  cancelled: "yellow",
};

type ShownOutcome = ExplainedAttempts[number]["outcome"] | "cancelled";

function attemptRow(each: ExplainedAttempts[number]): TextPiece[] {
  const { attempt, verdict, startedAt, endedAt, delay, failure } = each;
  const outcome: ShownOutcome = verdict === "cancel" ? "cancelled" : each.outcome;
  return [
    String(attempt),
    painted(OUTCOMES[outcome] ?? "red", outcome),
    showLocal(startedAt),
    endedAt === null ? "" : showSince(startedAt, endedAt),
    delay === null ? "" : showMs(delay.delayMs),
    failure === null ? "" : failureWithFacts(failure),
  ];
}

/** The exit code or signal comes first: a long message may be cut. */
function failureWithFacts(failure: NonNullable<ExplainedAttempts[number]["failure"]>): string {
  const { message, exitCode, signal, status } = failure;
  const facts: string[] = [];
  if (exitCode !== null && !message.includes(`exit code ${exitCode}`)) facts.push(`exit code ${exitCode}`);
  if (signal !== null && !message.includes(signal)) facts.push(signal);
  if (status !== null && !message.includes(String(status))) facts.push(`status ${status}`);
  return [...facts, failureText(failure)].join(": ");
}

/** About a screen of it; `--json` has all of it. */
const VALUE_LIMIT = 4_000;

/** A text as it is, anything else as JSON. */
function shownValue(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return text.length > VALUE_LIMIT ? `${storable(text, VALUE_LIMIT)}\n(cut; --json shows all of it)` : text;
}
