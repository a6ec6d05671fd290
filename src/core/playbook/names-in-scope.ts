/** The names that templates of a playbook can use, by place. Steps, workload keys and declared inputs are names too. */

/** Everywhere but in the workload, where only those marked exist: it is filled before anything else. */
export const RUN_NAMES = ["inputs", "workload", "ctx", "execution_id", "run", "now"] as const;
export const START_NAMES = ["inputs", "execution_id", "run", "now"] as const;
/** In steps and arcs. */
export const STEP_NAMES = ["data"] as const;
/** In the items of a loop, beside its iterator. */
export const LOOP_NAMES = ["loop"] as const;
/** After a step: in its arcs, and in `set`. */
export const RESULT_NAMES = [
  "result",
  "error",
  "failure",
  "success",
  "status",
  "status_code",
  "exit_code",
  "signal",
  "attempt",
] as const;
/** A condition of an arc that uses one of these is evaluated after a failure too. */
export const FAILURE_NAMES: ReadonlySet<string> = new Set([
  "error",
  "failure",
  "success",
  "status",
  "status_code",
  "exit_code",
  "signal",
]);
const WORDS = ["and", "or", "not", "in", "is", "if", "else", "true", "True", "false", "False", "none", "None", "null"];

/** What no step and no iterator can be called. */
export const RESERVED_NAMES: ReadonlySet<string> = new Set([
  ...[...RUN_NAMES, ...STEP_NAMES, ...LOOP_NAMES, ...RESULT_NAMES, "secret"],
  ...WORDS,
]);

/** The members of names that have no others. */
export const MEMBERS: Readonly<Record<string, readonly string[]>> = {
  run: ["id"],
  loop: ["index", "size", "first", "last"],
};

/** Names of steps: a name that a template can use has only letters, digits and `_`. */
export const STEP_NAME = /^[A-Za-z_][\w.-]{0,99}$/;
/** Names of iterators, inputs and values of `ctx`. */
export const VARIABLE_NAME = /^[A-Za-z_]\w{0,99}$/;
