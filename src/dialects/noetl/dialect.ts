/** The NoETL dialect: recognises tasks and playbooks, and turns them into jobs. */
import { asList, asObject, asOneOf, asText, fieldPath, isPlain } from "../../core/check.ts";
import { ConfigError } from "../../core/errors.ts";
import type { Dialect, ReadContext, Reading, ViewParts } from "../dialect.ts";
import { type NoetlEvent, noetlEvents } from "./events.ts";
import { STEP } from "./node.ts";
import { noetlRunEvents } from "./run-events.ts";
import { NOETL_SQL } from "./sql.ts";
import { readNoetlTask } from "./task.ts";
import { noetlQueueRow, noetlTimeline } from "./view.ts";

// Reads a single task as a job: alone, or as the only step of an excerpt. Playbooks with several steps are runs
// (dialects/playbooks.ts), and refused here as a whole, so that none runs partially.

const FIELDS = ["apiVersion", "kind", "name", "path", "desc", "metadata", "workload", "workflow"] as const;
/** Fields of a step that runs nothing. */
const IDLE_FIELDS = ["step", "desc", "next"] as const;
const IDLE: readonly unknown[] = ["start", "end"];
const MAX_STEPS = 1_000;
const ONE_STEP =
  "one step with a type, and around it start and end: a job is a single task, and a whole playbook is a run";

interface OneStep {
  readonly step: unknown;
  readonly path: string;
  readonly playbook: string | null;
}

interface NoetlListedStep {
  readonly fields: Readonly<Record<string, unknown>>;
  readonly path: string;
}

function oneStep(document: unknown, notes: string[]): OneStep {
  const fields = asObject(document, "", FIELDS);
  const { apiVersion, kind, workload } = fields;
  if (apiVersion !== undefined && !/^noetl\.io\/\w+$/.test(String(apiVersion))) {
    throw new ConfigError({ path: "apiVersion", given: apiVersion, allowed: 'an API version such as "noetl.io/v1"' });
  }
  if (kind !== undefined) asOneOf(kind, ["Playbook"], "kind");
  const steps = asList(fields.workflow, "workflow", listed, MAX_STEPS, 1);
  const tasks = steps.filter(({ fields: { step, type, tool } }) => {
    return type !== undefined || tool !== undefined || !IDLE.includes(step);
  });
  const [task, second] = tasks;
  if (task === undefined) {
    throw new ConfigError({ path: "workflow", given: "no step", allowed: ONE_STEP, problem: "no step with a type" });
  }
  if (second !== undefined) {
    const problem = "a second step to run";
    throw new ConfigError({ path: second.path, given: second.fields.step, allowed: ONE_STEP, problem });
  }
  const isWhole = apiVersion !== undefined || kind !== undefined;
  for (const each of steps) checkNext(each, task, steps, isWhole, notes);
  if (workload !== undefined)
    notes.push("workload is ignored: templates are only filled in whole playbooks, and this is read as a single task");
  return { step: task.fields, path: task.path, playbook: nameOf(fields) };
}

function listed(value: unknown, path: string): NoetlListedStep {
  return { fields: asObject(value, path) as NoetlListedStep["fields"], path };
}

function nameOf({ name, metadata }: { readonly name?: unknown; readonly metadata?: unknown }): string | null {
  if (name !== undefined) return asText(name, "name", 200);
  if (metadata === undefined) return null;
  const { name: within } = asObject(metadata, "metadata") as { readonly name?: unknown };
  return within === undefined ? null : asText(within, "metadata.name", 200);
}

/** Only the path start, task, end is supported. An excerpt may name steps that it does not contain; a playbook may not. */
function checkNext(
  each: NoetlListedStep,
  task: NoetlListedStep,
  steps: readonly NoetlListedStep[],
  isWhole: boolean,
  notes: string[],
): void {
  if (each !== task) asObject(each.fields, each.path, IDLE_FIELDS);
  for (const { name, path } of nextSteps(each.fields.next, fieldPath(each.path, "next"))) {
    const isKnown = steps.some(({ fields }) => fields.step === name);
    if (!isKnown && !isWhole) {
      notes.push(`${path}: "${name}" is not in this file, and is ignored: this is read as a single task`);
      continue;
    }
    const allowed = each === task ? ["end"] : ["end", task.fields.step];
    if (isKnown && allowed.includes(name)) continue;
    const problem = isKnown ? `the step "${name}" again` : `step "${name}" does not exist`;
    throw new ConfigError({ path, given: name, allowed: ONE_STEP, problem });
  }
}

/** The names in `next`: a name, `{ step: NAME }`, or a list of these. */
function nextSteps(value: unknown, path: string): { readonly name: string; readonly path: string }[] {
  if (value === undefined || value === null) return [];
  if (Array.isArray(value)) return asList(value, path, nextStep, MAX_STEPS);
  return [nextStep(value, path)];
}

function nextStep(value: unknown, path: string): { readonly name: string; readonly path: string } {
  if (typeof value === "string") return { name: asText(value, path, 200), path };
  const at = fieldPath(path, "step");
  return { name: asText(asObject(value, path, ["step"]).step, at, 200), path: at };
}

// From NoETL's document on event-driven retries: one task with its `retry`, alone or as the only step of a playbook, and
// the timeline of events that its server writes. Differences from the document, and their reasons, are in
// docs/internals/dialects.md.

export const noetl: Dialect = {
  name: "noetl",
  called: "a NoETL task",
  recognises,
  signs: {
    text: "step with type or tool, workflow, or retry.max_attempts",
    fields: ["step", "type", "tool", "workflow"],
    common: ["method", "url", "code", "script", "next"],
    retry: ["max_attempts"],
  },
  isSource: ({ annotations }) => annotations?.[STEP] !== undefined,
  read,
  view: noetlQueueRow,
  events: eventsOf,
  eventTable: (parts) => noetlTimeline(eventsOf(parts)),
  sqlViews: NOETL_SQL,
};

function eventsOf(parts: ViewParts): readonly NoetlEvent[] {
  return parts.run === undefined ? noetlEvents(parts) : noetlRunEvents(parts.run);
}

function recognises(document: unknown): boolean {
  if (!isPlain(document)) return false;
  const { apiVersion, workflow, step, type, tool, retry } = document as Readonly<Record<string, unknown>>;
  if (typeof apiVersion === "string") return apiVersion.startsWith("noetl.io/");
  if (Array.isArray(workflow)) return true;
  if (step !== undefined && (type !== undefined || tool !== undefined)) return true;
  return isPlain(retry) && Object.hasOwn(retry, "max_attempts");
}

function read(document: unknown, context: ReadContext): Reading {
  const notes: string[] = [];
  if (isPlain(document) && isPlaybook(document)) {
    const { step, path, playbook } = oneStep(document, notes);
    return { jobs: [readNoetlTask(step, path, context, playbook, notes)], notes };
  }
  const job = readNoetlTask(document, "", context, null, notes);
  const names = nextSteps((document as { readonly next?: unknown }).next, "next").map(({ name }) => `"${name}"`);
  if (names.length > 0) notes.push(`next: ${names.join(", ")} ignored: only this task is run`);
  return { jobs: [job], notes };
}

function isPlaybook(document: object): boolean {
  return ["apiVersion", "kind", "workflow"].some((name) => Object.hasOwn(document, name));
}
