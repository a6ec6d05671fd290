/** The compiled form of a playbook, as plain JSON: what a run is pinned to. Readers of a format (`perdure/v1`, or a dialect) make
 *  it; it has no term of any format. Texts with templates stay texts, and are parsed when they are filled. It is stored once per
 *  hash, and a change of these types needs a new `format`. */
import type { Resources } from "../input/resources.ts";
import type { Policy } from "../policy/policy.ts";

export const PLAYBOOK_FORMAT = 1;
/** The reserved kind of the jobs that are runs. No worker claims it. */
export const RUN_KIND = "playbook";

export const PLAYBOOK_LIMITS = {
  steps: 1_000,
  arcs: 100,
  /** Of all steps together, like `templates`: a server must check a playbook in a fraction of a second. */
  allArcs: 10_000,
  templates: 10_000,
  /** Words and signs of its text. */
  lexemes: 100_000,
  /** Steps of one run, loop items and repeated visits included. */
  maxSteps: 10_000,
  highestMaxSteps: 100_000,
  /** Open steps of one run at a time. */
  parallel: 100,
  highestParallel: 10_000,
  concurrency: 10,
  items: 10_000,
  visits: 1_000,
  depth: 16,
  stepName: 100,
} as const;

/** What happens to other branches when a step fails and nothing handles it: they start nothing new (drain), are cancelled too
 *  (cancel), or continue (continue). The run fails in any case.
 *  @example
 *  const mode: FailureMode = "drain"; */
export type FailureMode = "drain" | "cancel" | "continue";

/** A playbook, compiled.
 *  @example
 *  const names = (playbook: Playbook) => playbook.steps.map((step) => step.name); */
export interface Playbook {
  readonly format: typeof PLAYBOOK_FORMAT;
  readonly name: string;
  /** Its path in the catalog; null for one that was never given a path. */
  readonly path: string | null;
  readonly description: string | null;
  readonly labels: Readonly<Record<string, string>>;
  /** The rules of the input; null accepts any object. */
  readonly inputs: Readonly<Record<string, InputRule>> | null;
  /** Defaults that the input is merged over; with templates, filled once, at the start. */
  readonly workload: Readonly<Record<string, unknown>>;
  /** Of the whole run, waits included. */
  readonly timeoutMs: number | null;
  readonly maxSteps: number;
  readonly parallel: number;
  /** A missing name in a value is an error (strict) or an empty text. */
  readonly undefined: "strict" | "empty";
  readonly failureMode: FailureMode;
  /** Steps by index, run one after another before the run ends as failed. */
  readonly onFailure: readonly number[];
  /** Steps by index, run one after another however the run ended. */
  readonly finally: readonly number[];
  /** A value with templates; null: the output of the step `end`, else of the last step. */
  readonly result: { readonly value: unknown } | null;
  /** The step that a run starts with, by index. */
  readonly entry: number;
  readonly steps: readonly PlaybookStep[];
  /** Names that templates may use for other names: `job.uuid` for `run.id`. Only a dialect has any. */
  readonly aliases: Readonly<Record<string, string>>;
  /** A branch that ends in a step with arcs, none of which is taken after a success, fails the run. */
  readonly mustTakeArc: boolean;
}

/** The rule of one input: a subset of JSON Schema.
 *  @example
 *  const days: InputRule = { type: "integer", default: 3, min: 1 }; */
export interface InputRule {
  readonly type?: "string" | "integer" | "number" | "boolean" | "object" | "array";
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly required?: boolean;
  /** Of a number its value, of a text or a list its length. */
  readonly min?: number;
  readonly max?: number;
  readonly items?: InputRule;
  readonly description?: string;
}

export interface PlaybookStep {
  /** Unique in the playbook. */
  readonly name: string;
  readonly description: string | null;
  /** Null for a step that only routes. */
  readonly action: StepAction | null;
  /** A condition: false skips the step. */
  readonly when: string | null;
  /** `continue`: a failure is recorded, and the arcs are evaluated as after a success, with the output null. */
  readonly onError: "fail" | "continue";
  /** How many branches must arrive before it starts; `all` waits while anything alive can still reach it. */
  readonly join: "all" | "any" | number;
  readonly loop: StepLoop | null;
  /** Values of `ctx` to set after a success, by name, with templates. */
  readonly set: Readonly<Record<string, unknown>>;
  /** Keys that its input must have, and paths that its output must have. */
  readonly assert: { readonly expects: readonly string[]; readonly returns: readonly string[] } | null;
  /** match: all true arcs, and if none is true all without `when`. first: the first that is true or has no `when`. all: all
   *  that are true or have no `when`. */
  readonly mode: "match" | "first" | "all";
  readonly arcs: readonly PlaybookArc[];
  readonly options: StepOptions;
}

export interface PlaybookArc {
  /** The next step, by index. */
  readonly to: number;
  readonly when: string | null;
  /** After what it is evaluated. A condition that names error, failure, status, … makes it `always`. */
  readonly on: "success" | "failure" | "always";
  /** Merged over the input of the next step, and visible there as `data`. With templates. */
  readonly data: Readonly<Record<string, unknown>> | null;
  /** Values of `ctx` to set when it is taken. With templates. */
  readonly set: Readonly<Record<string, unknown>>;
}

/** Options of the step's job, as a submit has them. Null: the default of a submit. */
export interface StepOptions {
  readonly policy: Policy;
  /** Of an attempt. */
  readonly timeoutMs: number | null;
  /** How long it may wait for a worker, from the moment it is ready. */
  readonly deadlineMs: number | null;
  readonly queue: string | null;
  readonly priority: number | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly resources: Resources | null;
}

export interface StepLoop {
  /** A template that gives a list, or a list with templates. */
  readonly in: unknown;
  readonly iterator: string;
  /** Items that are open at a time; 1 is one after another. */
  readonly concurrency: number;
  /** A condition for each item, with the iterator in scope. */
  readonly where: string | null;
  /** At most this many items, after `where`. */
  readonly limit: number | null;
  readonly onItemFailure: "fail" | "continue";
  /** With `continue`: more failed items than this fail the step. */
  readonly maxFailures: { readonly count: number } | { readonly percent: number } | null;
}

/** What a step does. Values may have templates, where nothing else is stated; `data` is the input that arcs may add to. */
export type StepAction =
  | {
      readonly type: "http";
      /** The fields of an `HttpInput`, and `params`. A `body` or, without one, `data` is sent: as the query of GET and HEAD, else as
       *  the body. */
      readonly request: Readonly<Record<string, unknown>>;
      readonly data: Readonly<Record<string, unknown>> | null;
    }
  | {
      readonly type: "python";
      /** The SHA-256 of the code, an asset. Code has no templates. */
      readonly code: string;
      readonly data: Readonly<Record<string, unknown>> | null;
      readonly env: Readonly<Record<string, unknown>>;
    }
  | {
      readonly type: "shell";
      /** Values are quoted by their place. */
      readonly command: string;
      readonly data: Readonly<Record<string, unknown>> | null;
      readonly env: Readonly<Record<string, unknown>>;
      readonly cwd: unknown;
    }
  | {
      readonly type: "exec";
      /** The fields of an `ExecInput`, without `command` and `shell`. */
      readonly input: Readonly<Record<string, unknown>>;
      readonly data: Readonly<Record<string, unknown>> | null;
    }
  | {
      readonly type: "postgres";
      readonly connection: string;
      /** Values become parameters. */
      readonly command: string;
      readonly data: Readonly<Record<string, unknown>> | null;
      readonly maxRows: number | null;
      readonly maxBytes: number | null;
    }
  | {
      readonly type: "task";
      /** The kind of the job. No template. */
      readonly task: string;
      readonly data: unknown;
    }
  | {
      readonly type: "playbook";
      /** A path in the catalog, with `@version` or without; it may be a template. Null with `inline`. */
      readonly path: string | null;
      /** A playbook of its own, stored within this one: a pipeline in a loop. */
      readonly inline: Playbook | null;
      readonly data: Readonly<Record<string, unknown>> | null;
      /** The output of this step of the sub-playbook is the output. Null: its result. */
      readonly returnStep: string | null;
      /** False starts a run of its own, and continues. */
      readonly wait: boolean;
    }
  | {
      readonly type: "wait";
      /** A duration, or an instant. One of them is null. */
      readonly for: unknown;
      readonly until: unknown;
      readonly data: Readonly<Record<string, unknown>> | null;
    };

export type StepType = StepAction["type"];
