/** The options of a submit in one table: how each is checked, its form on the wire, and whether a task may have a default for
 *  it. The schema of a request, the request of a client and the defaults of a task follow from it. What the engine makes of an
 *  option is in `engine/submit-item.ts`. */

import { asInteger, asList, asObject, asOneOf, asText, checkOptions, fieldPath } from "../check.ts";
import { asSpan, type Duration, toInstant, toMs } from "../duration.ts";
import { ConfigError, show } from "../errors.ts";
import { RESOURCE_PREFIX, type ResourcesInput, toResources } from "../input/resources.ts";
import { MAX_JOB_NAME } from "../job/job-name.ts";
import { MAX_KEY, MAX_NAME } from "../names.ts";
import type { PolicyInput } from "../policy/policy.ts";
import { INSTANT, recordSchema, SPAN, textSchema, type WireSchema } from "../wire-schema.ts";

/** A client of the `pg` package, or what looks like one, with a transaction begun.
 *  @example
 *  const client: TransactionClient = await pool.connect();
 *  await perdure.submit(resize, { url }, { client }); // stored when your transaction commits */
export interface TransactionClient {
  query(query: { text: string; values: unknown[]; rowMode: "array" }): Promise<{ rows: unknown[][] }>;
}

/** Where a value of a job's policy came from; of two that give one, the first counts. */
export const POLICY_SOURCES = ["submit", "task", "action", "pack", "settings"] as const;
export type PolicySource = (typeof POLICY_SOURCES)[number];
type NamedSource = Exclude<PolicySource, "submit">;
const NAMED_SOURCES = POLICY_SOURCES.filter((source) => source !== "submit");
const MAX_SOURCES = 30;

/** What a submit may say beside the input. It takes precedence over the task's own options.
 *  @example
 *  const options: SubmitOptions = { key: "resize-a", delay: "10m", retry: 5, tags: ["images"] };
 *  await perdure.submit(resize, { url }, options); */
export interface SubmitOptions {
  /** Shown to people, and found by `jobs({ name })`. Default: its action or manifest, else its kind and a short argument. */
  name?: string;
  /** At most one job per key: a second submit with the same body finds the first. */
  key?: string;
  queue?: string;
  /** 0 (first) to 9; default 5. */
  priority?: number;
  delay?: Duration;
  runAt?: Date | number;
  tags?: readonly string[];
  timeout?: Duration;
  /** How long it may be due without being started. */
  expireIn?: Duration;
  /** No run may start after this instant. */
  deadline?: Date | number;
  retry?: PolicyInput;
  /** Labels a worker must have. */
  labels?: Readonly<Record<string, string>>;
  /** What of a worker's cpu and memory it takes while it runs: it is started only where so much is left. */
  resources?: ResourcesInput;
  /** Texts to be kept with it and shown; the engine never reads them. */
  annotations?: Readonly<Record<string, string>>;
  /** For who submits in the name of another document: where values of the policy, `timeout` and `expireIn` came from, by their
   *  names. Shown by `explain`. */
  sources?: Readonly<Record<string, NamedSource>>;
  /** The job whose child it is, which must not have ended. Cancelled with it. */
  parent?: string;
  /** The id of what `upload` stored, which this job takes as its own: its command reads it as standard input. The input must
   *  have `stdinFile`. */
  upload?: string;
  /** PostgreSQL: a client of the `pg` package inside a transaction of yours on the same database. The job is stored with
   *  that transaction: there when it commits, never there if it is rolled back. A server cannot be given one. */
  client?: TransactionClient;
}

/** Of these a task may have defaults. */
export const TASK_OPTION_NAMES = ["retry", "timeout", "expireIn", "queue", "priority"] as const;
type TaskOptionName = (typeof TASK_OPTION_NAMES)[number];
export type TaskValues = Readonly<Pick<SubmitOptions, TaskOptionName>>;

/** How an option is checked and sent. */
export interface OptionRule {
  /** Spelling and plain values, the same in the library and in a client; returns instants and spans in milliseconds. Policies
   *  are resolved by the engine. */
  readonly check: (value: unknown, path: string) => unknown;
  /** Without it, it is nothing for a server. */
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
      description: "What it takes of a worker's cpu and memory: it is started only where so much is left.",
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
      "Texts to be kept with the job and shown; up to 16 KiB in all.",
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
  parent: text(100, "The job whose child it is, which must not have ended."),
  upload: text(100, "The id of an upload that the command reads as standard input; the job takes it as its own."),
  client: { check: (value: unknown) => value as TransactionClient },
} as const satisfies { readonly [K in keyof SubmitOptions]-?: OptionRule };

export type OptionName = keyof SubmitOptions;
/** What `check` makes of it. */
export type CheckedOption<K extends OptionName> = ReturnType<(typeof SUBMIT_OPTIONS)[K]["check"]>;

const OPTION_NAMES = Object.keys(SUBMIT_OPTIONS) as readonly OptionName[];
const PATHS = Object.fromEntries(OPTION_NAMES.map((name) => [name, `submit.${name}`])) as Record<OptionName, string>;
/** Those that a server takes. */
export const WIRE_OPTION_NAMES = OPTION_NAMES.filter((name) => "wire" in SUBMIT_OPTIONS[name]);

/** Checks the options of a submit, and calls back with each that is given: its name, and what its check returns. Only the
 *  given ones cost anything: most submits have few, or none. */
export function eachOption(options: SubmitOptions, take: (name: OptionName, checked: unknown) => void): void {
  checkOptions(options, OPTION_NAMES, "submit");
  if (options.delay !== undefined && options.runAt !== undefined) {
    const problem = "cannot be used together with runAt";
    throw new ConfigError({ path: "submit.delay", given: options.delay, problem });
  }
  for (const name of Object.keys(options) as OptionName[]) {
    const value = options[name];
    // An option that was given as undefined counts as not given.
    if (value !== undefined) take(name, SUBMIT_OPTIONS[name].check(value, PATHS[name]));
  }
}

/** Resources travel as labels, but nobody gives them as such. */
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
