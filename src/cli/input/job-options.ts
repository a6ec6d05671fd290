/** Checks the options of a job from files and the command line, each under its own path, and returns them in the form of the
 *  library. */
import { asInteger, asList, asObject, asText, type Fields, fieldPath } from "../../core/check.ts";
import { asSpan, toMs } from "../../core/duration.ts";
import { ConfigError, show } from "../../core/errors.ts";
import { RESOURCE_PREFIX, type ResourcesInput, toResources } from "../../core/input/resources.ts";
import { MAX_JOB_NAME } from "../../core/job/job-name.ts";
import { isName } from "../../core/names.ts";
import type { PolicyInput } from "../../core/policy/policy.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import type { SubmitEntry, SubmitOptions } from "../../core/task/task.ts";
import { LIMITS } from "../../engine/limits.ts";
import { isOver } from "../../lib/text.ts";
import { isReference } from "../jobs/job-reference.ts";

export const OPTION_KEYS = [
  ...(["key", "queue", "priority", "delay", "runAt", "tags", "timeout", "expireIn", "deadline"] as const),
  ...(["retry", "labels", "resources", "annotations", "parent", "name"] as const),
];

type OptionCheck<T> = (value: unknown, path: string) => T;
type OptionChecks = { [K in (typeof OPTION_KEYS)[number]]: OptionCheck<NonNullable<SubmitOptions[K]>> };

/** The form of the library. */
const CHECKS: OptionChecks = {
  key: (value, path) => asName(value, path, LIMITS.key),
  queue: asName,
  priority: (value, path) => asInteger(value, path, { min: 0, max: 9 }),
  delay: toMs,
  runAt: asInstant,
  tags: (value, path) => asList(value, path, asName, LIMITS.tags),
  timeout: asSpan,
  expireIn: asSpan,
  deadline: asInstant,
  retry: (value, path) => {
    resolvePolicy(value as PolicyInput, path);
    return value as PolicyInput;
  },
  labels: asLabels,
  resources: (value, path) => {
    toResources(value, path);
    return value as ResourcesInput;
  },
  annotations: asAnnotations,
  parent: asParent,
  name: (value, path) => asName(value, path, MAX_JOB_NAME),
};

export function optionsOf(fields: Fields<string>, path: string): NonNullable<SubmitEntry["options"]> {
  if (fields.delay !== undefined && fields.runAt !== undefined) {
    const problem = "cannot be used together with runAt";
    throw new ConfigError({ path: fieldPath(path, "delay"), given: fields.delay, problem });
  }
  const given = OPTION_KEYS.filter((name) => fields[name] !== undefined);
  return Object.fromEntries(given.map((name) => [name, CHECKS[name](fields[name], fieldPath(path, name))]));
}

export function asName(value: unknown, path: string, limit: number = LIMITS.name): string {
  const text = asText(value, path, limit);
  if (isName(text, limit)) return text;
  throw new ConfigError({ path, given: value, allowed: "text without control characters" });
}

function asLabels(value: unknown, path: string): Record<string, string> {
  const entries = Object.entries(asObject(value, path));
  if (entries.length > LIMITS.labels) {
    throw new ConfigError({ path, given: entries.length, allowed: `at most ${LIMITS.labels} labels` });
  }
  const labels: Record<string, string> = Object.create(null);
  for (const [name, text] of entries) {
    if (name.startsWith(RESOURCE_PREFIX)) {
      const problem = `${show(name)} is reserved`;
      throw new ConfigError({ path: fieldPath(path, name), given: name, problem, fix: "use resources" });
    }
    labels[asName(name, fieldPath(path, name))] = asName(text, fieldPath(path, name));
  }
  return labels;
}

function asAnnotations(value: unknown, path: string): Record<string, string> {
  const entries = Object.entries(asObject(value, path));
  if (entries.length > LIMITS.annotations) {
    throw new ConfigError({ path, given: entries.length, allowed: `at most ${LIMITS.annotations} annotations` });
  }
  const annotations: Record<string, string> = Object.create(null);
  for (const [name, text] of entries) {
    const at = fieldPath(path, name);
    if (typeof text !== "string" || !text.isWellFormed() || text.includes("\0")) {
      throw new ConfigError({ path: at, given: text, allowed: "text, well-formed and without NUL" });
    }
    annotations[asName(name, at)] = text;
  }
  if (!isOver(JSON.stringify(annotations), LIMITS.annotationBytes)) return annotations;
  const allowed = `at most ${LIMITS.annotationBytes} bytes in all`;
  throw new ConfigError({ path, given: null, allowed, shown: "more" });
}

/** May be short; the caller that stores the job resolves it (`fullId`). */
function asParent(value: unknown, path: string): string {
  if (isReference(value)) return value;
  const allowed = "the id of a job, at least 4 characters of it, or its name";
  throw new ConfigError({ path, given: value, allowed });
}

const INSTANT = /^(\d{4}-\d\d-\d\d)T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)$/;

/** The zone is required: without it the instant would depend on the machine. */
export function asInstant(value: unknown, path: string): number {
  const [text, day] = typeof value === "string" ? (INSTANT.exec(value) ?? []) : [];
  const ms = typeof value === "number" ? value : text === undefined || !isDay(day) ? Number.NaN : Date.parse(text);
  if (Number.isFinite(ms) && ms >= 0 && ms <= 8.64e15) return Math.round(ms);
  const allowed = "an instant with its zone, such as 2026-11-16T09:00:00Z or …+01:00, or milliseconds since 1970";
  throw new ConfigError({ path, given: value, allowed });
}

/** JavaScript would read 30 February as 2 March. */
function isDay(day: string | undefined): boolean {
  const at = Date.parse(`${day}T00:00:00Z`);
  return Number.isFinite(at) && new Date(at).toISOString().startsWith(`${day}T`);
}
