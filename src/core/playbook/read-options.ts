/** Reads the options of the job of a step: retry, timeout, queue, labels and so on. */
import { asInteger, asObject, fieldPath, isPlain } from "../check.ts";
import { asSpan } from "../duration.ts";
import { ConfigError, show } from "../errors.ts";
import { RESOURCE_PREFIX, type Resources, toResources } from "../input/resources.ts";
import { checkedName, MAX_NAME } from "../names.ts";
import type { Policy, PolicyInput } from "../policy/policy.ts";
import { resolvePolicy } from "../policy/resolve-policy.ts";
import type { StepOptions } from "./playbook.ts";
import type { SourcePath } from "./problem.ts";
import { asDurationText, isFilled } from "./read-action.ts";
import type { DocumentReading, ObjectReader } from "./reading.ts";

export const OPTION_FIELDS = ["retry", "timeout", "deadline", "queue", "priority", "labels", "resources"] as const;
export const MAX_LABELS = 20;

/** What a step, a tool of the workbook or the defaults have set. */
export interface GivenOptions {
  readonly policy: Policy | undefined;
  readonly timeoutMs: number | undefined;
  readonly deadlineMs: number | undefined;
  readonly queue: string | undefined;
  readonly priority: number | undefined;
  readonly labels: Readonly<Record<string, string>> | undefined;
  readonly resources: Resources | undefined;
}

/** Each option of the first that has it; labels of all, those of the first over those of the others. */
export function joinedOptions(given: readonly (GivenOptions | null)[]): StepOptions {
  const all = given.filter((each) => each !== null);
  const first = <K extends keyof GivenOptions>(name: K) =>
    all.find((each) => each[name] !== undefined)?.[name] as NonNullable<GivenOptions[K]> | undefined;
  const labels = all.toReversed().flatMap((each) => Object.entries(each.labels ?? {}));
  return {
    policy: first("policy") ?? resolvePolicy(undefined),
    timeoutMs: first("timeoutMs") ?? null,
    deadlineMs: first("deadlineMs") ?? null,
    queue: first("queue") ?? null,
    priority: first("priority") ?? null,
    labels: Object.fromEntries(labels),
    resources: first("resources") ?? null,
  };
}

export function readOptions(fields: ObjectReader, reading: DocumentReading): GivenOptions {
  const retry = fields.value("retry");
  return {
    policy: retry === undefined ? undefined : readRetry(retry, fields.at("retry"), reading),
    timeoutMs: fields.check("timeout", asFixedSpan, undefined),
    deadlineMs: fields.check("deadline", asFixedSpan, undefined),
    queue: fields.check("queue", asFixedName, undefined),
    priority: fields.check("priority", (value, at) => asInteger(value, at, { min: 0, max: 9 }), undefined),
    labels: fields.check("labels", asLabels, undefined),
    resources: fields.check("resources", toResources, undefined),
  };
}

export function asFixedSpan(value: unknown, path: string): number {
  const text = asDurationText(value, path);
  if (!isFilled(text)) return asSpan(text, path);
  throw new ConfigError({ path, given: text, allowed: 'a duration such as "30s", without a template' });
}

function asFixedName(value: unknown, path: string): string {
  const name = checkedName(value, path);
  if (!isFilled(name)) return name;
  throw new ConfigError({ path, given: name, allowed: "a name, without a template" });
}

export function asLabels(value: unknown, path: string): Readonly<Record<string, string>> {
  const entries = Object.entries(asObject(value, path));
  if (entries.length > MAX_LABELS) {
    throw new ConfigError({ path, given: null, allowed: `at most ${MAX_LABELS} labels`, shown: `${entries.length}` });
  }
  for (const [name, label] of entries) {
    const at = fieldPath(path, name);
    if (name.startsWith(RESOURCE_PREFIX)) {
      throw new ConfigError({ path: at, given: name, problem: `${show(name)} is reserved`, fix: "use resources" });
    }
    checkedName(name, at);
    checkedName(label, at, MAX_NAME);
  }
  return value as Readonly<Record<string, string>>;
}

/** The check of a policy ends at its first mistake. It is repeated without that field, so that all are reported. */
function readRetry(value: unknown, path: SourcePath, reading: DocumentReading): Policy | undefined {
  let rest = value;
  for (let round = 0; round < 20; round++) {
    try {
      return resolvePolicy(rest as PolicyInput, "retry");
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      reading.configError(error, path);
      const [, name = "", quoted = ""] = /^retry(?:\.([A-Za-z_$][\w$]*)|\[(".*)\])/.exec(error.path ?? "") ?? [];
      const wrong = name || Object.keys(Object(rest)).find((key) => show(key) === quoted);
      if (!isPlain(rest) || wrong === undefined || !Object.hasOwn(rest, wrong)) return undefined;
      rest = Object.fromEntries(Object.entries(rest).filter(([key]) => key !== wrong));
    }
  }
  return undefined;
}
