/** `perdure describe`: everything recorded about a job on one page: state, attempts, children and events. In Perdure's terms,
 *  whatever system the job came from; with -o in those of another system. */

import { showBackoff } from "../../core/decision/backoff.ts";
import { explain } from "../../core/explain/explain.ts";
import { jobName } from "../../core/job/job-name.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { RUN_KIND } from "../../core/playbook/playbook.ts";
import { givenKey } from "../../core/task/task.ts";
import type { DescribedJob } from "../../dialects/cli/dialect-cli.ts";
import { DESCRIBE_VIEWS, describerOf, withDialectHelp } from "../../dialects/cli/registry.ts";
import type { ViewParts } from "../../dialects/dialect.ts";
import { eventView, jobView, shownAnnotations, shownKey } from "../../dialects/registry.ts";
import { storable } from "../../lib/text.ts";
import { viewParts } from "../apply/job-views.ts";
import { type CliCommand, READING } from "../command.ts";
import { EXIT } from "../exit.ts";
import { fullId } from "../jobs/job-reference.ts";
import { eventCells as eventRow } from "../output/event-row.ts";
import { bySession, failureLine, type KnownWorker, shortResult, stateText } from "../output/job-text.ts";
import { spentText } from "../output/policy-text.ts";
import type { Printer } from "../output/print.ts";
import { runFacts } from "../output/run-text.ts";
import { painted } from "../output/terminal-text.ts";
import { printSteps, type RunWithSteps, readRun } from "../playbooks/get-run.ts";
import { TARGET, withPerdure } from "../target/target.ts";
import { jobFacts, printAttempts } from "./get.ts";

export const describe: CliCommand = {
  name: "describe",
  summary: "Show everything recorded about a job",
  usage: "perdure describe ID [OPTIONS]",
  options: [
    {
      ...{ name: "output", short: "o", type: "string", value: "VIEW" },
      help: `In the terms of another system: ${DESCRIBE_VIEWS.join(", ")}. \`perdure get -o\` has more views.`,
    },
    ...TARGET,
    ...READING,
  ],
  ...withDialectHelp("describe", {
    about: "Its state, attempts, children and events, on one page.",
    examples: ["perdure describe job_01m7gekg9zevv9a6xvvwmt1v8g"],
  }),

  async run(context) {
    const { given, out } = context;
    const short = given.jobId();
    const view = given.text("output");
    const describeOther = view === undefined ? null : describerOf(view, "--output");
    await withPerdure(context, async (perdure) => {
      const id = await fullId(perdure, short);
      const [parts, workers] = await Promise.all([viewParts(perdure, id, true), bySession(perdure)]);
      const page = { parts, children: parts.children?.jobs ?? [], workers, now: parts.now ?? Date.now() };
      if (given.flag("json")) out.json(view === undefined ? ownJson(page) : viewJson(view, page));
      else if (describeOther === null) {
        const { summary } = await perdure.explain(id);
        if (parts.job.kind === RUN_KIND) printOwnRun(out, page, await readRun(perdure, id), summary);
        else printOwn(out, page, summary);
      } else await describeOther(out, describedJob(out, page));
      if (parts.children?.more && parts.job.kind !== RUN_KIND) {
        out.note(
          `only ${page.children.length} children are shown, failed ones first; \`perdure tree ${id}\` shows more`,
        );
      }
    });
    return EXIT.done;
  },
};

interface DescribePage {
  readonly parts: ViewParts;
  readonly children: readonly JobInfo[];
  readonly workers: ReadonlyMap<string, KnownWorker>;
  readonly now: number;
}

function ownJson({ parts: { job, events }, children, now }: DescribePage): object {
  // From the events that are shown, not read again: the job may have changed.
  const { attempts } = explain({ events, now });
  return { job, attempts, children: children.map(shownChild), events };
}

function viewJson(view: string, page: DescribePage): object {
  const shown = jobView(view, "--output")(page.parts) as object;
  return { ...shown, ...ownJson(page), events: eventView(view, "--output")(page.parts) };
}

function describedJob(out: Printer, page: DescribePage): DescribedJob {
  const { parts, workers, now } = page;
  const { job } = parts;
  const state = stateText(job, now, workers);
  return { parts, name: nameOf(job), state, now, printChildren: () => printChildren(out, page) };
}

/** `summary` is that of the engine, which knows the workers and queues that a waiting job depends on. */
function printOwn(out: Printer, page: DescribePage, summary: string): void {
  const { parts, workers, now } = page;
  const { job, events } = parts;
  const { attempts } = explain({ events, now });
  out.facts([
    ["Name", painted("bold", nameOf(job))],
    ...jobFacts(job, now, workers).filter(([name]) => name !== "Name"),
    ["Retry", retryText(job.policy)],
    ["Annotations", annotationText(job)],
    ["Result", shortResult(job)],
    ["Summary", summary],
  ]);
  printAttempts(out, attempts);
  printChildren(out, page);
  printEvents(out, events);
}

/** Its children are its steps. */
function printOwnRun(out: Printer, { parts, now }: DescribePage, found: RunWithSteps, summary: string): void {
  out.facts([...runFacts(found.run), ["Annotations", annotationText(parts.job)], ["Summary", summary]]);
  printSteps(out, found, now);
  printEvents(out, parts.events);
}

function printEvents(out: Printer, events: ViewParts["events"]): void {
  out.line();
  out.table(
    [{ head: "AT" }, { head: "EVENT" }, { head: "DETAIL", flexible: true }],
    events.map((event) => {
      const [, at = "", , names = "", detail = ""] = eventRow(event, false);
      return [at, names, detail];
    }),
  );
}

/** `3 attempts, backoff exponential 1 s to 1 min`; `perdure get --json` has the whole policy. */
function retryText({ maxAttempts, backoff, preset }: JobInfo["policy"]): string {
  const named = preset === "default" ? [] : [`preset ${preset}`];
  return [
    `${maxAttempts} ${maxAttempts === 1 ? "attempt" : "attempts"}`,
    `backoff ${showBackoff(backoff)}`,
    ...named,
  ].join(", ");
}

/** Enough to recognise them; `perdure get --json` has all of each. */
const ANNOTATION_LIMIT = 80;

function annotationText(job: JobInfo): string {
  return shownAnnotations(job)
    .map(([name, value]) => `${name}=${storable(value, ANNOTATION_LIMIT)}`)
    .join(", ");
}

function shownChild(child: JobInfo): Record<string, unknown> {
  const { id, kind, parentId, key, state, reason, failure, usage, liveUsage, budgets } = child;
  const what = { id, kind, name: nameOf(child), key: givenKey(parentId, key) };
  return { ...what, state, reason, failure, usage, liveUsage, budgets };
}

/** A job without a name of its own is shown by its key, without the prefix of the parent, to distinguish it from its siblings. */
function nameOf(job: JobInfo): string {
  const name = jobName(job);
  const key = shownKey(job);
  if (name !== job.kind || key === null) return name;
  return /^#\d+$/.test(key) ? `${job.kind} ${key}` : key;
}

function printChildren(out: Printer, { children, workers, now }: DescribePage): void {
  if (children.length === 0) return;
  out.line();
  const spent = children.map(spentText);
  const isFree = spent.every((text) => text === "");
  out.table(
    [
      ...[{ head: "CHILD" }, { head: "NAME", flexible: true }, { head: "STATE" }],
      ...(isFree ? [] : [{ head: "SPENT" }]),
      { head: "FAILURE", flexible: true },
    ],
    children.map((child, i) => [
      ...[child.id, nameOf(child), stateText(child, now, workers)],
      ...(isFree ? [] : [spent[i] as string]),
      failureLine(child),
    ]),
  );
}
