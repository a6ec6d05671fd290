/** The dialect of NoETL, as in its document on event-driven retries: one task with its `retry`, alone or as the only step of
 *  a playbook, and the timeline of events that its server writes.
 *
 *    step: fetch_data
 *    type: http
 *    url: https://api.example.com/data
 *    retry: { max_attempts: 5, retry_when: "{{ status_code >= 500 }}" }
 *
 *  What differs from the document's letter, and why, is in docs/dialects.md. */
import { isPlain } from "../../core/check.ts";
import type { Dialect, ReadContext, Reading } from "../dialect.ts";
import { noetlEvents } from "./events.ts";
import { STEP } from "./node.ts";
import { nextSteps, oneStep } from "./playbook.ts";
import { readNoetlTask } from "./task.ts";
import { noetlTimeline } from "./timeline.ts";
import { noetlQueueRow } from "./view.ts";

export const noetl: Dialect = {
  name: "noetl",
  called: "a NoETL task",
  recognises,
  isSource: ({ annotations }) => annotations?.[STEP] !== undefined,
  read,
  view: noetlQueueRow,
  events: noetlEvents,
  eventTable: (parts) => noetlTimeline(noetlEvents(parts)),
};

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
  if (names.length > 0) notes.push(`next: only this task is run, and nothing follows: not ${names.join(", ")}`);
  return { jobs: [job], notes };
}

function isPlaybook(document: object): boolean {
  return ["apiVersion", "kind", "workflow"].some((name) => Object.hasOwn(document, name));
}
