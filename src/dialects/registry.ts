/** All dialects, by their names and by what their documents look like, and all views of jobs and of events. */
import { asOneOf } from "../core/check.ts";
import { agentTask } from "./agent-task/dialect.ts";
import { listedManifests } from "./agent-task/list.ts";
import { attune } from "./attune/dialect.ts";
import type { Dialect, ViewParts } from "./dialect.ts";
import { flusterDialect } from "./fluster/dialect.ts";
import { noetl } from "./noetl/dialect.ts";
import { opal, opalAttemptsView } from "./opal/dialect.ts";

export const DIALECTS: readonly Dialect[] = [opal, flusterDialect, noetl, attune, agentTask];

/** Throws a `ConfigError` that names the nearest. `path` names who asked. */
export function dialectOf(name: unknown, path = "dialect"): Dialect {
  const names = DIALECTS.map((each) => each.name);
  const found = asOneOf(name, names, path);
  return DIALECTS.find((each) => each.name === found) as Dialect;
}

/** The paths of the documents that one document holds; null where it holds none but itself. */
export function documentsWithin(document: unknown): readonly (readonly (string | number)[])[] | null {
  return listedManifests(document);
}

/** All dialects that a document may be of. */
export function candidates(document: unknown): readonly Dialect[] {
  return DIALECTS.filter((each) => each.recognises(document));
}

/** The one dialect that a document is of; null if there is none, or if it could be more than one: nobody guesses. */
export function recognise(document: unknown): Dialect | null {
  const found = candidates(document);
  return found.length === 1 ? (found[0] as Dialect) : null;
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

/** What a job can be shown as. */
export const JOB_VIEW_NAMES: readonly string[] = [...JOB_VIEWS.keys()];
/** What its events can be shown as. */
export const EVENT_VIEW_NAMES: readonly string[] = [...EVENT_VIEWS.keys()];

export function jobView(name: unknown, path: string): View {
  return JOB_VIEWS.get(asOneOf(name, JOB_VIEW_NAMES, path)) as View;
}

export function eventView(name: unknown, path: string): (parts: ViewParts) => readonly unknown[] {
  return EVENT_VIEWS.get(asOneOf(name, EVENT_VIEW_NAMES, path)) as (parts: ViewParts) => readonly unknown[];
}
