/** All dialects, by their names and by what their documents look like, and all views of jobs and of events. */
import { asOneOf } from "../core/check.ts";
import type { RetryRecord } from "../core/explain/decision-text.ts";
import type { JobInfo } from "../core/job/views.ts";
import type { PresetName } from "../core/policy/policy.ts";
import { givenKey } from "../core/task/task.ts";
import { agentTask, listedManifests } from "./agent-task/dialect.ts";
import { attune } from "./attune/dialect.ts";
import type { Dialect, DialectName, EventTable, ViewParts } from "./dialect.ts";
import { flusterDialect } from "./fluster/dialect.ts";
import { noetl } from "./noetl/dialect.ts";
import { opal, opalAttemptsView } from "./opal/dialect.ts";

/** All dialects.
 *  @example
 *  for (const { name, called } of DIALECTS) console.log(name, called); */
export const DIALECTS: readonly Dialect[] = [opal, flusterDialect, noetl, attune, agentTask];

/** Throws a `ConfigError` that names the nearest. `path` names who asked.
 *  @example
 *  const { jobs } = dialectOf("noetl").read(document, context); */
export function dialectOf(name: unknown, path = "dialect"): Dialect {
  const names = DIALECTS.map((each) => each.name);
  const found = asOneOf(name, names, path);
  return DIALECTS.find((each) => each.name === found) as Dialect;
}

/** The paths of the documents that one document holds; null where it holds none but itself. */
export function documentsWithin(document: unknown): readonly (readonly (string | number)[])[] | null {
  return listedManifests(document);
}

/** All dialects that a document may be of.
 *  @example
 *  const names = candidates(document).map(({ name }) => name); */
export function candidates(document: unknown): readonly Dialect[] {
  return DIALECTS.filter((each) => each.recognises(document));
}

/** The one dialect that a document is of; null if there is none, or if it could be more than one: nobody guesses.
 *  @example
 *  const dialect = recognise(document);
 *  if (dialect === null) throw new Error("whose file is this?"); */
export function recognise(document: unknown): Dialect | null {
  const found = candidates(document);
  return found.length === 1 ? (found[0] as Dialect) : null;
}

/** The files by which a folder is known as one whose subfolders hold documents. */
export const PACK_FILES: readonly string[] = DIALECTS.flatMap(({ packFile }) => packFile ?? []);

/** For help: how a job can be referred to, in the terms of all dialects. */
export const REFERENCE_TEXTS: readonly string[] = DIALECTS.flatMap(({ reference }) => reference ?? []);

/** The submit keys of the jobs that a text may stand for, in the terms of any dialect: ids of OPAL's clients, names of
 *  AgentTasks and of jobs that fluster's clients launched.
 *  @example
 *  for (const key of submitKeysOf("job_92e725aa5034")) console.log((await perdure.jobs({ key })).jobs); */
export function submitKeysOf(reference: string): readonly string[] {
  return [...new Set(DIALECTS.flatMap((each) => each.keysOf?.(reference) ?? []))];
}

/** Why a job was run again, as the system calls it whose preset its policy has; null where it has no term for that. The preset
 *  is named as its dialect, but for AgentTask's, which has no such terms.
 *  @example
 *  for (const retry of explanation.retries) console.log(retryReason(explanation.preset, retry)); */
export function retryReason(preset: PresetName | null, retry: RetryRecord): string | null {
  return DIALECTS.find(({ name }) => name === preset)?.retryReason?.(retry) ?? null;
}

// Views.

type View = (parts: ViewParts) => unknown;

const JOB_VIEWS: ReadonlyMap<string, View> = new Map<string, View>([
  ...DIALECTS.map((each): [string, View] => [each.name, (parts) => each.view(parts)]),
  ["opal-attempts", opalAttemptsView],
]);

const EVENT_VIEWS: ReadonlyMap<string, (parts: ViewParts) => readonly unknown[]> = new Map(
  DIALECTS.flatMap((each) => {
    const { events } = each;
    return events === undefined ? [] : [[each.name, (parts: ViewParts) => events.call(each, parts)] as const];
  }),
);

const EVENT_TABLES: ReadonlyMap<string, (parts: ViewParts) => EventTable> = new Map(
  DIALECTS.flatMap((each) => {
    const { eventTable } = each;
    return eventTable === undefined ? [] : [[each.name, (parts: ViewParts) => eventTable.call(each, parts)] as const];
  }),
);

/** What a job can be shown as.
 *  @example
 *  console.log(`-o ${JOB_VIEW_NAMES.join(" | ")}`); */
export const JOB_VIEW_NAMES: readonly string[] = [...JOB_VIEWS.keys()];
/** What its events can be shown as.
 *  @example
 *  console.log(`--view ${EVENT_VIEW_NAMES.join(" | ")}`); */
export const EVENT_VIEW_NAMES: readonly string[] = [...EVENT_VIEWS.keys()];

/** Shows a job as a dialect does. Throws a `ConfigError` that names the nearest view.
 *  @example
 *  console.log(jobView("fluster", "view")(parts)); */
export function jobView(name: unknown, path: string): View {
  return JOB_VIEWS.get(asOneOf(name, JOB_VIEW_NAMES, path)) as View;
}

/** The name of the dialect whose file or API a job came from; null for one of ours. */
export function sourceOf(job: JobInfo): DialectName | null {
  return DIALECTS.find((each) => each.isSource(job))?.name ?? null;
}

/** Whether a view of jobs shows their children, so that they must be read for it. */
export function showsChildren(view: unknown): boolean {
  return DIALECTS.some(({ name, showsChildren }) => name === view && showsChildren === true);
}

/** The key of a job for people: without its parent in front. Null where it has none, or one that says no more than its name. */
export function shownKey(job: JobInfo): string | null {
  const key = givenKey(job.parentId, job.key);
  return key !== null && DIALECTS.some(({ named }) => named?.isNameKey(job, key)) ? null : key;
}

/** The annotations of a job without those that a dialect keeps for itself. */
export function shownAnnotations({ annotations }: Pick<JobInfo, "annotations">): readonly [string, string][] {
  return Object.entries(annotations).filter(
    ([name]) => !DIALECTS.some(({ bookkeeping }) => bookkeeping?.includes(name)),
  );
}

/** Shows the events of a job as a dialect does.
 *  @example
 *  for (const each of eventView("noetl", "view")(parts)) console.log(each); */
export function eventView(name: unknown, path: string): (parts: ViewParts) => readonly unknown[] {
  return EVENT_VIEWS.get(asOneOf(name, EVENT_VIEW_NAMES, path)) as (parts: ViewParts) => readonly unknown[];
}

/** Shows the events of a job as a dialect does, for people.
 *  @example
 *  for (const row of eventTable("noetl", "view")(parts).rows) console.log(row.join("  ")); */
export function eventTable(name: unknown, path: string): (parts: ViewParts) => EventTable {
  return EVENT_TABLES.get(asOneOf(name, EVENT_VIEW_NAMES, path)) as (parts: ViewParts) => EventTable;
}
