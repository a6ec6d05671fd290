/** The options of a submit in one table: the check of each, its schema on the wire, and whether a task may have a default for it.
 *  The schema of a request, the request of a client and the defaults of a task are derived from it; `engine/submit-item.ts`
 *  applies the options. */

import { asInteger, asList, asObject, asOneOf, asText, checkOptions, fieldPath } from "../check.ts";
import { asSpan, type Duration, toInstant, toMs } from "../duration.ts";
import { ConfigError, show } from "../errors.ts";
import { RESOURCE_PREFIX, type ResourcesInput, toResources } from "../input/resources.ts";
import { MAX_JOB_NAME } from "../job/job-name.ts";
import { MAX_KEY, MAX_NAME } from "../names.ts";
import type { PolicyInput } from "../policy/policy.ts";
import { INSTANT, recordSchema, SPAN, textSchema, type WireSchema } from "../wire-schema.ts";

/** A client of the `pg` package, or a compatible one, in a transaction.
 *  @example
 *  const client: TransactionClient = await pool.connect();
 *  await perdure.submit(resize, { url }, { client }); // stored when your transaction commits */
export interface TransactionClient {
  query(query: { text: string; values: unknown[]; rowMode: "array" }): Promise<{ rows: unknown[][] }>;
}

/** The sources of the values of a job's policy; the first that has a value wins. */
export const POLICY_SOURCES = ["submit", "task", "action", "pack", "settings"] as const;
export type PolicySource = (typeof POLICY_SOURCES)[number];
type NamedSource = Exclude<PolicySource, "submit">;
const NAMED_SOURCES = POLICY_SOURCES.filter((source) => source !== "submit");
const MAX_SOURCES = 30;

/** The options of a submit. They override those of the task.
 *  @example
 *  const options: SubmitOptions = { key: "resize-a", delay: "10m", retry: 5, tags: ["images"] };
 *  await perdure.submit(resize, { url }, options); */
export interface SubmitOptions {
  /** A name for display and for `jobs({ name })`. Default: its action or manifest, else its kind and a short argument. */
  name?: string;
  /** At most one job per key: a second submit with the same body returns the first. */
  key?: string;
  queue?: string;
  /** 0 (first) to 9; default 5. */
  priority?: number;
  delay?: Duration;
  runAt?: Date | number;
  tags?: readonly string[];
  timeout?: Duration;
  /** How long it may be due before a worker must start it. */
  expireIn?: Duration;
  /** No attempt may start after this instant. */
  deadline?: Date | number;
  retry?: PolicyInput;
  /** Labels a worker must have. */
  labels?: Readonly<Record<string, string>>;
  /** The cpu and memory that it takes while it runs: it starts only on a worker with that much left. */
  resources?: ResourcesInput;
  /** Texts that are stored and shown with it; the engine never reads them. */
  annotations?: Readonly<Record<string, string>>;
  /** For submits from another document: where values of the policy, `timeout` and `expireIn` came from, by their names. `explain`
   *  shows it. */
  sources?: Readonly<Record<string, NamedSource>>;
  /** The parent job, which must not have ended. A cancel of the parent cancels it too. */
  parent?: string;
  /** The id of an upload that becomes part of this job: its command reads it as standard input. Requires `stdinFile` in the
   *  input. */
  upload?: string;
  /** PostgreSQL: a client of the `pg` package in your transaction on the same database. The job is stored when that commits, and
   *  never if it is rolled back. Not available with a server. */
  client?: TransactionClient;
}

/** The options that a task may have defaults for. */
export const TASK_OPTION_NAMES = ["retry", "timeout", "expireIn", "queue", "priority"] as const;
type TaskOptionName = (typeof TASK_OPTION_NAMES)[number];
export type TaskValues = Readonly<Pick<SubmitOptions, TaskOptionName>>;

/** How an option is checked and sent. */
export interface OptionRule {
  /** Checks the value, the same in the library and in a client; returns instants and durations in milliseconds. The engine
   *  resolves policies. */
  readonly check: (value: unknown, path: string) => unknown;
  /** Absent where a server does not accept it. */
  readonly wire?: WireSchema;
}

const instant = { check: toInstant, wire: INSTANT };
const span = { check: asSpan, wire: SPAN };
const text = (most: number, description?: string) => ({
  check: (value: unknown, path: string) => asText(value, path, most),
  wire: textSchema(most, description),
});

export const SUBMIT_OPTIONS = {
  name: text(MAX_JOB_NAME, "Shown to people. Default: its action or manifest, else its kind and a short argument."),
  key: text(MAX_KEY, "At most one job per key."),
  queue: text(MAX_NAME),
  priority: {
    check: (value: unknown, path: string) => asInteger(value, path, { min: 0, max: 9 }),
    wire: { type: "integer", minimum: 0, maximum: 9 },
  },
  delay: { check: toMs, wire: SPAN },
  runAt: instant,
  tags: {
    check: (value: unknown, path: string) => asList(value, path, (tag, at) => asText(tag, at, MAX_NAME), 20),
    wire: { type: "array", items: textSchema(MAX_NAME), maxItems: 20 },
  },
  timeout: span,
  expireIn: span,
  deadline: instant,
  retry: {
    check: (value: unknown) => value as PolicyInput,
    wire: {
      description:
        "How often and when to retry: a number of attempts, false for one, or an object as in the guide on retry policies, " +
        'such as {"maxAttempts": 5, "backoff": {"initial": "1s", "factor": 2, "max": "1m"}}.',
    },
  },
  labels: {
    check: asLabels,
    wire: recordSchema(textSchema(MAX_NAME), 20, "Names and values; a worker must have all labels of a job."),
  },
  resources: {
    check: toResources,
    wire: {
      type: "object",
      properties: {
        cpu: { type: "number", minimum: 0, maximum: 100_000, description: "Cpus, as in 0.5." },
        memory: {
          anyOf: [
            { type: "number", minimum: 0 },
            { type: "string", maxLength: 40 },
          ],
          description: 'Bytes, or a text as in "512m" or "2g".',
        },
      },
      additionalProperties: false,
      description: "The cpu and memory that it takes while it runs: it starts only on a worker with that much left.",
    },
  },
  annotations: {
    check: (value: unknown, path: string) => {
      asObject(value, path);
      return value as Readonly<Record<string, string>>;
    },
    wire: recordSchema(
      { type: "string", maxLength: 16_384 },
      32,
      "Texts that are stored and shown with the job; up to 16 KiB in all.",
    ),
  },
  sources: {
    check: asSources,
    wire: recordSchema(
      { type: "string", enum: NAMED_SOURCES },
      MAX_SOURCES,
      "Where values of the policy, timeout and expireIn came from, by their names; shown by explain.",
    ),
  },
  parent: text(100, "The parent job, which must not have ended."),
  upload: text(100, "The id of an upload that becomes part of the job: its command reads it as standard input."),
  client: { check: (value: unknown) => value as TransactionClient },
} as const satisfies { readonly [K in keyof SubmitOptions]-?: OptionRule };

export type OptionName = keyof SubmitOptions;
/** The return type of its check. */
export type CheckedOption<K extends OptionName> = ReturnType<(typeof SUBMIT_OPTIONS)[K]["check"]>;

const OPTION_NAMES = Object.keys(SUBMIT_OPTIONS) as readonly OptionName[];
const PATHS = Object.fromEntries(OPTION_NAMES.map((name) => [name, `submit.${name}`])) as Record<OptionName, string>;
/** The options that a server accepts. */
export const WIRE_OPTION_NAMES = OPTION_NAMES.filter((name) => "wire" in SUBMIT_OPTIONS[name]);

/** Checks the options of a submit and calls `take` with the name and the checked value of each. Only given options cost time, as
 *  most submits have few or none. */
export function eachOption(options: SubmitOptions, take: (name: OptionName, checked: unknown) => void): void {
  checkOptions(options, OPTION_NAMES, "submit");
  if (options.delay !== undefined && options.runAt !== undefined) {
    const problem = "cannot be used together with runAt";
    throw new ConfigError({ path: "submit.delay", given: options.delay, problem });
  }
  for (const name of Object.keys(options) as OptionName[]) {
    const value = options[name];
    // An undefined option counts as not given.
    if (value !== undefined) take(name, SUBMIT_OPTIONS[name].check(value, PATHS[name]));
  }
}

/** Labels of resources are reserved: they are set by the option `resources`. */
function asLabels(value: unknown, path: string): Readonly<Record<string, string>> {
  const reserved = Object.keys(asObject(value, path)).find((name) => name.startsWith(RESOURCE_PREFIX));
  if (reserved === undefined) return value as Readonly<Record<string, string>>;
  const problem = `${show(reserved)} is reserved`;
  throw new ConfigError({ path, given: reserved, problem, fix: "use the option resources" });
}

function asSources(value: unknown, path: string): Readonly<Record<string, NamedSource>> {
  const entries = Object.entries(asObject(value, path));
  if (entries.length > MAX_SOURCES) {
    const shown = `${entries.length} names`;
    throw new ConfigError({
      path,
      given: entries.length,
      allowed: `an object with at most ${MAX_SOURCES} names`,
      shown,
    });
  }
  for (const [name, source] of entries) {
    asText(name, path, 50);
    asOneOf(source, NAMED_SOURCES, fieldPath(path, name));
  }
  return value as Readonly<Record<string, NamedSource>>;
}
