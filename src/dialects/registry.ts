/** Finds dialects by name or by document, and the views of jobs and events that they have. */
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

/** Throws a `ConfigError` that suggests the nearest name. `path` is where the name was given.
 *  @example
 *  const { jobs } = dialectOf("noetl").read(document, context); */
export function dialectOf(name: unknown, path = "dialect"): Dialect {
  const names = DIALECTS.map((each) => each.name);
  const found = asOneOf(name, names, path);
  return DIALECTS.find((each) => each.name === found) as Dialect;
}

/** The paths of the documents inside a list document; null if it is not a list. */
export function documentsWithin(document: unknown): readonly (readonly (string | number)[])[] | null {
  return listedManifests(document);
}

/** All dialects that recognise a document.
 *  @example
 *  const names = candidates(document).map(({ name }) => name); */
export function candidates(document: unknown): readonly Dialect[] {
  return DIALECTS.filter((each) => each.recognises(document));
}

/** The one dialect that recognises a document; null if none does, or more than one.
 *  @example
 *  const dialect = recognise(document);
 *  if (dialect === null) throw new Error("whose file is this?"); */
export function recognise(document: unknown): Dialect | null {
  const found = candidates(document);
  return found.length === 1 ? (found[0] as Dialect) : null;
}

/** Pack files: a folder with one has documents in its subfolders. */
export const PACK_FILES: readonly string[] = DIALECTS.flatMap(({ packFile }) => packFile ?? []);

/** For help: how a job can be referred to, in the terms of all dialects. */
export const REFERENCE_TEXTS: readonly string[] = DIALECTS.flatMap(({ reference }) => reference ?? []);

/** The submit keys that a reference may belong to, in any dialect: ids of OPAL's clients, names of AgentTasks and of
 *  fluster's jobs.
 *  @example
 *  for (const key of submitKeysOf("job_92e725aa5034")) console.log((await perdure.jobs({ key })).jobs); */
export function submitKeysOf(reference: string): readonly string[] {
  return [...new Set(DIALECTS.flatMap((each) => each.keysOf?.(reference) ?? []))];
}

/** The reason of a retry in the terms of the system that the policy's preset is named after; null if it has no such
 *  terms.
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

/** The views of a job.
 *  @example
 *  console.log(`-o ${JOB_VIEW_NAMES.join(" | ")}`); */
export const JOB_VIEW_NAMES: readonly string[] = [...JOB_VIEWS.keys()];
/** The views of a job's events.
 *  @example
 *  console.log(`--view ${EVENT_VIEW_NAMES.join(" | ")}`); */
export const EVENT_VIEW_NAMES: readonly string[] = [...EVENT_VIEWS.keys()];

/** Shows a job in the format of a dialect. Throws a `ConfigError` that suggests the nearest view.
 *  @example
 *  console.log(jobView("fluster", "view")(parts)); */
export function jobView(name: unknown, path: string): View {
  return JOB_VIEWS.get(asOneOf(name, JOB_VIEW_NAMES, path)) as View;
}

/** The dialect whose file or API a job came from; null for a job of Perdure's own. */
export function sourceOf(job: JobInfo): DialectName | null {
  return DIALECTS.find((each) => each.isSource(job))?.name ?? null;
}

/** Whether a view shows children, so that they must be read for it. */
export function showsChildren(view: unknown): boolean {
  return DIALECTS.some(({ name, showsChildren }) => name === view && showsChildren === true);
}

/** A job's key as it is shown: without its parent's prefix. Null if it has none, or one derived from its name. */
export function shownKey(job: JobInfo): string | null {
  const key = givenKey(job.parentId, job.key);
  return key !== null && DIALECTS.some(({ named }) => named?.isNameKey(job, key)) ? null : key;
}

/** A job's annotations, without those that only a dialect reads. */
export function shownAnnotations({ annotations }: Pick<JobInfo, "annotations">): readonly [string, string][] {
  return Object.entries(annotations).filter(
    ([name]) => !DIALECTS.some(({ bookkeeping }) => bookkeeping?.includes(name)),
  );
}

/** Shows a job's events in the format of a dialect.
 *  @example
 *  for (const each of eventView("noetl", "view")(parts)) console.log(each); */
export function eventView(name: unknown, path: string): (parts: ViewParts) => readonly unknown[] {
  return EVENT_VIEWS.get(asOneOf(name, EVENT_VIEW_NAMES, path)) as (parts: ViewParts) => readonly unknown[];
}

/** Shows a job's events in the format of a dialect, as a table.
 *  @example
 *  for (const row of eventTable("noetl", "view")(parts).rows) console.log(row.join("  ")); */
export function eventTable(name: unknown, path: string): (parts: ViewParts) => EventTable {
  return EVENT_TABLES.get(asOneOf(name, EVENT_VIEW_NAMES, path)) as (parts: ViewParts) => EventTable;
}
