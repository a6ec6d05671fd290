/** Attune's action files, with the keys of its document (`name`, `runtime`, `entrypoint`) or the newer ones (`ref`,
 *  `runner_type`, `entry_point`, `timeout`). One thing under both names is refused, since one of them would not be read. */
import { asBoolean, asInteger, asList, asObject, asText, type Fields, fieldPath, nearest } from "../../core/check.ts";
import { ConfigError, show } from "../../core/errors.ts";
import { type AttunePack, actionRef } from "./pack.ts";
import { ANY_PARAMETERS, type Parameters, readParameters } from "./parameters.ts";
import { asRetries, type RetryWords, readRetry } from "./retry.ts";
import { notedKeys, readSelector } from "./words.ts";

export const RUNTIMES = ["python", "shell", "node"] as const;
export type Runtime = (typeof RUNTIMES)[number];

export interface AttuneAction {
  readonly ref: string;
  readonly runtime: Runtime;
  /** As written, and under which of its names. */
  readonly entry: { readonly text: string; readonly key: "entrypoint" | "entry_point" };
  /** Null: the global one. */
  readonly timeoutSecs: number | null;
  readonly retry: RetryWords;
  readonly parameters: Parameters;
  readonly labels: Readonly<Record<string, string>>;
  readonly tags: readonly string[];
  readonly notes: readonly string[];
}

const TOLD = ["label", "description", "examples", "output_schema", "output", "meta"];
const NOTED: Readonly<Record<string, string>> = {
  output_format: "output is kept as it is; a result is what the action writes to $PERDURE_RESULT_FILE",
  worker_tolerations: "workers have no taints here",
  worker_affinity: "which worker is best is not weighed; give labels that it must have",
  log_retention_policy: "logs are kept for as long as the server's settings say",
  log_retention_limit: "logs are kept for as long as the server's settings say",
  default_execution_permission_set_refs: "an action may do what its worker's user may do",
  runtime_version: "a worker declares its runtime without a version",
};
const OWN = [
  ...["name", "ref", "runtime", "runner_type", "entrypoint", "entry_point", "timeout_seconds", "timeout"],
  ...["max_retries", "retry", "parameters", "enabled", "tags", "worker_selector"],
  ...["parameter_delivery", "parameter_format"],
];
const KEYS = [...OWN, ...TOLD, ...Object.keys(NOTED)];

/** A year: more is surely a slip of units. */
const MAX_SECS = 31_536_000;

export function readAction(document: unknown, pack: AttunePack | null): AttuneAction {
  const fields = asObject(document, "", KEYS);
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
    notes: [...notedKeys(fields, NOTED, ""), ...deliveryNotes(fields), ...parameters.notes],
  };
}

/** Null is what its table says where nothing was given: "NULL = use global TTL". */
function given(fields: Fields<string>, key: string): boolean {
  return fields[key] !== undefined && fields[key] !== null;
}

/** The name under which it is there; the old one if it is not there at all. */
function oneOf<A extends string, B extends string>(fields: Fields<string>, old: A, newer: B): A | B {
  if (!given(fields, newer)) return old;
  if (!given(fields, old)) return newer;
  const problem = `${show(newer)} and ${show(old)} are two names of the same thing`;
  throw new ConfigError({ path: newer, given: fields[newer], problem, allowed: "one of them" });
}

/** Many files of theirs have both, the name and, before it, the pack. That is one thing said twice. */
function refOf(fields: Fields<string>, pack: AttunePack | null): string {
  const [byRef, byName] = (["ref", "name"] as const).map((key) =>
    given(fields, key) ? actionRef(fields[key], key, pack?.ref ?? null) : null,
  );
  if (byRef == null && byName == null) {
    const allowed = "name, or ref with the pack before it";
    throw new ConfigError({ path: fieldPath("", "name"), given: undefined, problem: "it is missing", allowed });
  }
  if (byRef == null || byName == null) return (byRef ?? byName) as string;
  if (byRef === byName || byRef.endsWith(`.${byName}`)) return byRef;
  const problem = `"ref" says ${show(byRef)}, "name" says ${show(byName)}`;
  throw new ConfigError({ path: "name", given: byName, problem, allowed: "one of them, or the same in both" });
}

function asRuntime(value: unknown, path: string): Runtime {
  const word = typeof value === "string" ? value.toLowerCase() : value;
  const found = RUNTIMES.find((runtime) => runtime === (word === "nodejs" ? "node" : word));
  if (found !== undefined) return found;
  const near = typeof word === "string" ? nearest(word, RUNTIMES) : null;
  throw new ConfigError({ path, given: value, allowed: `${RUNTIMES.join(", ")} (also called nodejs)`, nearest: near });
}

/** `max_retries` stands beside the other keys; in a `retry` of the action it may stand too, but not in both. */
function retryOf(fields: Fields<string>): RetryWords {
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
    return word === known[0] ? [] : [`${key}: not ${word}: parameters come as JSON on standard input`];
  });
}
