/** Manifests of Attune packs and actions: their names, fields and checks. */
import { asBoolean, asInteger, asList, asObject, asText, type Fields, fieldPath, nearest } from "../../core/check.ts";
import { ConfigError, show } from "../../core/errors.ts";
import { ANY_PARAMETERS, type Parameters, readParameters } from "./parameters.ts";
import { type AttuneRetryFields, asRetries, readRetry } from "./retry.ts";

// Fields that actions and packs have in common.

/** The annotation with the name of the action, prefixed with its pack's. */
export const ACTION = "attune/action";

const MAX_LABELS = 10;
/** Labels that Perdure's workers use. */
const RESERVED = /^(runtime|resource)\//;

/** `worker_selector`: labels that a worker must have, exactly. */
function readSelector(value: unknown, path: string): Record<string, string> {
  const at = fieldPath(path, "worker_selector");
  const entries = Object.entries(asObject(value, at));
  if (entries.length > MAX_LABELS) {
    throw new ConfigError({ path: at, given: entries.length, allowed: `at most ${MAX_LABELS} labels` });
  }
  const labels: Record<string, string> = Object.create(null);
  for (const [name, text] of entries) {
    const where = fieldPath(at, name);
    if (RESERVED.test(name)) {
      throw new ConfigError({
        path: where,
        given: name,
        allowed: "a name that does not start with runtime/ or resource/",
      });
    }
    labels[asText(name, where, 200)] = asText(text, where, 200);
  }
  return labels;
}

/** A note for each key that has no effect. */
function notedKeys(fields: Fields<string>, noted: Readonly<Record<string, string>>, path: string): string[] {
  return Object.entries(noted)
    .filter(([key]) => fields[key] !== undefined)
    .map(([key, why]) => `${fieldPath(path, key)}: ${why}`);
}

// A pack is a folder with `pack.yaml`, and its actions in `actions/`. The pack's name, retries and worker selector are
// used; other fields are for people, or are reported in a note. A mistake in the manifest has a path that begins with
// `PACK_FILE`, because it is in another document than the action.

/** Relative to an action's folder. */
export const PACK_FILE = "../pack.yaml";

interface AttunePack {
  readonly ref: string;
  readonly retry: AttuneRetryFields;
  /** Labels that its workers must have. */
  readonly labels: Readonly<Record<string, string>>;
  readonly notes: readonly string[];
}

/** For people, or for parts of Attune that do not affect how an action runs. */
const PACK_SHOWN = [
  ...["label", "description", "version", "author", "email", "license", "url", "homepage", "keywords", "tags", "meta"],
  ...["system", "is_standard", "standard", "conf_schema", "runtime_deps", "dependencies", "python_versions"],
];
const PACK_NOTED: Readonly<Record<string, string>> = {
  config: "not passed to actions; use parameters",
  worker_tolerations: "not supported; workers have no taints",
  worker_affinity: "not supported; use worker_selector for labels that a worker must have",
};
const PACK_KEYS = ["ref", "name", "enabled", "retry", "worker_selector", ...PACK_SHOWN, ...Object.keys(PACK_NOTED)];

export function readPack(value: unknown, path: string): AttunePack {
  const fields = asObject(value, path, PACK_KEYS);
  const ref = packRef(fields, path);
  if (fields.enabled !== undefined && !asBoolean(fields.enabled, fieldPath(path, "enabled"))) {
    const at = fieldPath(path, "enabled");
    throw new ConfigError({ path: at, given: false, problem: `the pack ${show(ref)} is not enabled`, allowed: "true" });
  }
  return {
    ref,
    retry: fields.retry == null ? {} : readRetry(fields.retry, fieldPath(path, "retry")),
    labels: fields.worker_selector === undefined ? {} : readSelector(fields.worker_selector, path),
    notes: notedKeys(fields, PACK_NOTED, path),
  };
}

const PACK_REF = /^[A-Za-z][A-Za-z0-9_-]*$/;

/** Packs have a `name` for people besides their `ref`; older ones have only a name. */
export function packRef(fields: Fields<string>, path: string): string {
  const key = fields.ref === undefined ? "name" : "ref";
  const at = fieldPath(path, key);
  const text = asText(fields[key], at, 100);
  if (fields.name !== undefined) asText(fields.name, fieldPath(path, "name"), 200);
  if (PACK_REF.test(text)) return text;
  throw new ConfigError({ path: at, given: text, allowed: "letters, digits, _ and -, beginning with a letter" });
}

const ACTION_NAME = /^[A-Za-z0-9_][A-Za-z0-9_-]*$/;
const ACTION_REF = /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/;

/** `mypack.name`. A name that already includes the pack is kept. */
export function actionRef(given: unknown, path: string, pack: string | null): string {
  const text = asText(given, path, 200);
  if (pack === null) {
    if (ACTION_REF.test(text)) return text;
    throw new ConfigError({ path, given: text, allowed: "letters, digits, _, - and dots" });
  }
  const bare = text.startsWith(`${pack}.`) ? text.slice(pack.length + 1) : text;
  if (ACTION_NAME.test(bare)) return `${pack}.${bare}`;
  const allowed = `letters, digits, _ and -, optionally with the prefix ${pack}.`;
  const near = nearest(text.split(".")[0] ?? "", [pack]);
  throw new ConfigError({ path, given: text, allowed, nearest: near === null ? null : `${pack}.` });
}

// Action files have the keys of Attune's document (`name`, `runtime`, `entrypoint`) or the newer ones (`ref`,
// `runner_type`, `entry_point`, `timeout`). Both names of one value together are refused, because one of them would be
// ignored.

const RUNTIMES = ["python", "shell", "node"] as const;
export type Runtime = (typeof RUNTIMES)[number];

export interface AttuneAction {
  readonly ref: string;
  readonly runtime: Runtime;
  /** As written, and the key it was given under. */
  readonly entry: { readonly text: string; readonly key: "entrypoint" | "entry_point" };
  /** Null: the global timeout. */
  readonly timeoutSecs: number | null;
  readonly retry: AttuneRetryFields;
  readonly parameters: Parameters;
  readonly labels: Readonly<Record<string, string>>;
  readonly tags: readonly string[];
  readonly notes: readonly string[];
}

const ACTION_SHOWN = ["label", "description", "examples", "output_schema", "output", "meta"];
const ACTION_NOTED: Readonly<Record<string, string>> = {
  output_format: "output is kept unchanged; the result is what the action writes to $PERDURE_RESULT_FILE",
  worker_tolerations: "not supported; workers have no taints",
  worker_affinity: "not supported; use worker_selector for labels that a worker must have",
  log_retention_policy: "logs are kept as configured on the server",
  log_retention_limit: "logs are kept as configured on the server",
  default_execution_permission_set_refs: "an action has the permissions of its worker's user",
  runtime_version: "ignored; workers declare a runtime without its version",
};
const OWN = [
  ...["name", "ref", "runtime", "runner_type", "entrypoint", "entry_point", "timeout_seconds", "timeout"],
  ...["max_retries", "retry", "parameters", "enabled", "tags", "worker_selector"],
  ...["parameter_delivery", "parameter_format"],
];
const ACTION_KEYS = [...OWN, ...ACTION_SHOWN, ...Object.keys(ACTION_NOTED)];

/** A year: more is probably a wrong unit. */
const MAX_SECS = 31_536_000;

export function readAction(document: unknown, pack: AttunePack | null): AttuneAction {
  const fields = asObject(document, "", ACTION_KEYS);
  const ref = refOf(fields, pack);
  if (given(fields, "enabled") && !asBoolean(fields.enabled, "enabled")) {
    const problem = `the action ${show(ref)} is not enabled`;
    throw new ConfigError({ path: "enabled", given: false, problem, allowed: "true, to submit it" });
  }
  const runtimeKey = oneOf(fields, "runtime", "runner_type");
  const entryKey = oneOf(fields, "entrypoint", "entry_point");
  const timeoutKey = oneOf(fields, "timeout_seconds", "timeout");
  const timeout = fields[timeoutKey] ?? null;
  const parameters = given(fields, "parameters") ? readParameters(fields.parameters, "parameters") : ANY_PARAMETERS;
  return {
    ref,
    runtime: asRuntime(fields[runtimeKey], runtimeKey),
    entry: { text: asText(fields[entryKey], entryKey, 1_000), key: entryKey },
    timeoutSecs: timeout === null ? null : asInteger(timeout, timeoutKey, { min: 1, max: MAX_SECS }),
    retry: retryOf(fields),
    parameters,
    labels: given(fields, "worker_selector") ? readSelector(fields.worker_selector, "") : {},
    tags: given(fields, "tags") ? asList(fields.tags, "tags", (tag, path) => asText(tag, path, 200), 20) : [],
    notes: [...notedKeys(fields, ACTION_NOTED, ""), ...deliveryNotes(fields), ...parameters.notes],
  };
}

/** Null is allowed: "NULL = use global TTL". */
function given(fields: Fields<string>, key: string): boolean {
  return fields[key] !== undefined && fields[key] !== null;
}

/** The key that is present; the old one if neither is. */
function oneOf<A extends string, B extends string>(fields: Fields<string>, old: A, newer: B): A | B {
  if (!given(fields, newer)) return old;
  if (!given(fields, old)) return newer;
  const problem = `${show(newer)} and ${show(old)} are two names of the same field`;
  throw new ConfigError({ path: newer, given: fields[newer], problem, allowed: "one of them" });
}

/** Many Attune files have both the name and the full reference; they must agree. */
function refOf(fields: Fields<string>, pack: AttunePack | null): string {
  const [byRef, byName] = (["ref", "name"] as const).map((key) =>
    given(fields, key) ? actionRef(fields[key], key, pack?.ref ?? null) : null,
  );
  if (byRef == null && byName == null) {
    const fix = "set name, or ref with the pack as prefix";
    throw new ConfigError({ path: fieldPath("", "name"), given: undefined, problem: "is missing", fix });
  }
  if (byRef == null || byName == null) return (byRef ?? byName) as string;
  if (byRef === byName || byRef.endsWith(`.${byName}`)) return byRef;
  const problem = `"ref" is ${show(byRef)}, "name" is ${show(byName)}`;
  throw new ConfigError({ path: "name", given: byName, problem, allowed: "one of them, or the same in both" });
}

function asRuntime(value: unknown, path: string): Runtime {
  const word = typeof value === "string" ? value.toLowerCase() : value;
  const found = RUNTIMES.find((runtime) => runtime === (word === "nodejs" ? "node" : word));
  if (found !== undefined) return found;
  const near = typeof word === "string" ? nearest(word, RUNTIMES) : null;
  throw new ConfigError({ path, given: value, allowed: `${RUNTIMES.join(", ")} (also called nodejs)`, nearest: near });
}

/** `max_retries` may be at the top or in `retry`, but not in both. */
function retryOf(fields: Fields<string>): AttuneRetryFields {
  const words = given(fields, "retry") ? readRetry(fields.retry, "retry") : {};
  if (!given(fields, "max_retries")) return words;
  const maxRetries = asRetries(fields.max_retries, "max_retries");
  if (words.maxRetries === undefined) return { ...words, maxRetries };
  const problem = '"max_retries" is in "retry" too';
  throw new ConfigError({ path: "max_retries", given: maxRetries, problem, allowed: "one of them" });
}

const DELIVERIES = ["stdin", "env", "file"];
const FORMATS = ["json", "dotenv", "yaml"];

function deliveryNotes(fields: Fields<string>): string[] {
  const wishes: readonly (readonly [string, readonly string[]])[] = [
    ["parameter_delivery", DELIVERIES],
    ["parameter_format", FORMATS],
  ];
  return wishes.flatMap(([key, known]) => {
    if (!given(fields, key)) return [];
    const word = fields[key];
    if (typeof word !== "string" || !known.includes(word)) {
      throw new ConfigError({ path: key, given: word, allowed: known.join(", ") });
    }
    return word === known[0]
      ? []
      : [`${key}: ${word} is not supported; parameters are passed as JSON on standard input`];
  });
}
