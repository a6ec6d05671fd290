/** The JSON Schema (draft 2020-12) of a playbook in the format `perdure/v1`, for editors. It accepts all that the reader accepts, and
 *  what has wrong names, arcs or templates too: those are found by `perdure validate` only. */
import type { WireSchema } from "../wire-schema.ts";
import { PLAYBOOK_LIMITS } from "./playbook.ts";
import { ARC_EVENTS, MODES } from "./read-arcs.ts";
import { INPUT_LIMITS, INPUT_TYPES } from "./read-inputs.ts";
import { API_VERSION, WORKBOOK_LIMIT } from "./read-playbook.ts";
import { BUILT_IN_TYPES } from "./read-tool.ts";
import { actionSchemas } from "./schema-actions.ts";

const NAME = { type: "string", minLength: 1, maxLength: 200 };
const STEP_NAME = { type: "string", pattern: "^[A-Za-z_][\\w.-]{0,99}$" };
const CONDITION = { anyOf: [{ type: "string", minLength: 1 }, { type: "boolean" }] };
const ref = (name: string): WireSchema => ({ $ref: `#/$defs/${name}` });
const described = (schema: WireSchema, description: string): WireSchema => ({ ...schema, description });
const oneOf = (names: readonly string[], description: string): WireSchema => ({ enum: names, description });
const count = (max: number, description: string, min = 1): WireSchema => ({
  ...{ type: "integer", minimum: min, maximum: max },
  description,
});
const strict = (properties: Readonly<Record<string, WireSchema>>, required: readonly string[] = []): WireSchema => ({
  ...{ type: "object", properties, additionalProperties: false },
  ...(required.length === 0 ? {} : { required }),
});
/** A field without a value, as in `next:`, counts as not given. */
const orNothing = ({ description, ...schema }: WireSchema): WireSchema => ({
  anyOf: [schema, { type: "null" }],
  ...(description === undefined ? {} : { description }),
});
/** All but those that must be given may be empty. */
const optional = (properties: Readonly<Record<string, WireSchema>>, required: readonly string[] = []) =>
  Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => [name, required.includes(name) ? schema : orNothing(schema)]),
  );
const fields = (properties: Readonly<Record<string, WireSchema>>, required: readonly string[] = []): WireSchema =>
  strict({ ...optional(properties, required) }, required);

const HANDLERS = { anyOf: [STEP_NAME, { type: "array", items: STEP_NAME, maxItems: 100 }] };
const VALUES = { type: "object", maxProperties: 1_000 };

const OPTIONS = {
  retry: described(ref("retry"), "How often and when a failed attempt is repeated. Default: one attempt."),
  timeout: described(ref("duration"), "Of an attempt, as in 30s."),
  deadline: described(ref("duration"), "How long the step may wait for a worker."),
  queue: described(NAME, "The queue of its job."),
  priority: count(9, "0 (first) to 9; default 5.", 0),
  labels: described(ref("labels"), "Labels that a worker must have."),
  resources: described(
    strict({
      cpu: { type: "number", minimum: 0, maximum: 100_000 },
      memory: { anyOf: [{ type: "string" }, { type: "number" }], description: 'Bytes, or text as in "512m" or "2g".' },
    }),
    "The cpu and memory that it takes while it runs.",
  ),
};

const DEFINITIONS: Readonly<Record<string, WireSchema>> = {
  duration: {
    ...{ type: "string", pattern: "^\\s*\\d{1,15}(\\.\\d{1,6})?\\s*(ms|s|m|h|d)\\s*$" },
    description: 'A number with a unit: "500ms", "30s", "5m", "2h", "1d".',
  },
  labels: { type: "object", additionalProperties: NAME, maxProperties: 20 },
  retry: {
    anyOf: [
      { const: false },
      { type: "integer", minimum: 1, maximum: 1_000_000 },
      { type: "object", description: "A retry policy, as in { maxAttempts: 5, backoff: { initial: 1s, max: 1m } }." },
    ],
  },
  input: fields({
    type: oneOf(INPUT_TYPES, "The type of the value."),
    enum: { type: "array", minItems: 1, maxItems: INPUT_LIMITS.enum, description: "All values that it may have." },
    required: { type: "boolean", description: "It must be given, unless it has a default." },
    min: { type: "number", description: "Of a number its value, of a text or a list its length." },
    max: { type: "number", description: "Of a number its value, of a text or a list its length." },
    items: described(ref("input"), "The rule of the items of a list."),
    description: { type: "string", minLength: 1, maxLength: INPUT_LIMITS.description },
    default: { description: "The value where none is given." },
  }),
  loop: fields(
    {
      in: {
        ...{ anyOf: [{ type: "string" }, { type: "array", maxItems: PLAYBOOK_LIMITS.items }] },
        description: "A list, or a template that gives one.",
      },
      iterator: {
        type: "string",
        pattern: "^[A-Za-z_]\\w{0,99}$",
        description: "The name of the item. Default: item.",
      },
      mode: oneOf(["parallel", "sequential"], "Default: parallel."),
      concurrency: count(PLAYBOOK_LIMITS.highestParallel, "Items at a time. Default: 10."),
      where: described(CONDITION, "Only the items for which it is true."),
      limit: count(PLAYBOOK_LIMITS.items, "At most this many items, after where."),
      onItemFailure: oneOf(["fail", "continue"], "fail (default): no more items start. continue: all items run."),
      maxFailures: {
        ...{
          anyOf: [
            { type: "integer", minimum: 0 },
            { type: "string", pattern: "^\\s*\\d{1,3}(\\.\\d{1,3})?\\s*%\\s*$" },
          ],
        },
        description: "With continue: more failed items than this fail the step.",
      },
    },
    ["in"],
  ),
  arc: {
    anyOf: [
      STEP_NAME,
      fields(
        {
          step: described(STEP_NAME, "The next step."),
          when: described(
            CONDITION,
            "A condition. One that names error, failure, success, status, status_code, exit_code or signal is evaluated after a failure too.",
          ),
          on: oneOf(ARC_EVENTS, "After what it is evaluated. Default: by its condition."),
          data: described(VALUES, "Merged over the input of the next step, and visible there as data."),
          set: described(VALUES, "Values of ctx to set when it is taken."),
        },
        ["step"],
      ),
    ],
  },
  next: {
    anyOf: [
      ref("arc"),
      { type: "array", items: ref("arc"), maxItems: PLAYBOOK_LIMITS.arcs },
      fields({
        spec: fields({ mode: ref("mode") }),
        arcs: {
          anyOf: [ref("arc"), { type: "array", items: ref("arc"), maxItems: PLAYBOOK_LIMITS.arcs }],
        },
      }),
    ],
  },
  mode: oneOf(
    MODES,
    "match: all arcs that are true, and if none is, all without when. first: the first that is true or has no when. " +
      "all: all that are true or have no when.",
  ),
};

const STEP = {
  step: described(STEP_NAME, "Its name, unique in the playbook. Templates read its output by this name."),
  desc: { type: "string", minLength: 1, maxLength: 10_000 },
  when: described(CONDITION, "A condition; if it is false, the step is skipped."),
  data: { description: "The input of the step, by name." },
  ...OPTIONS,
  on_error: oneOf(
    ["fail", "continue"],
    "continue: a failure is recorded, and the arcs are evaluated as after a success.",
  ),
  join: {
    ...{ anyOf: [{ enum: ["all", "any"] }, { type: "integer", minimum: 1, maximum: 1_000 }] },
    description:
      "How many branches must arrive before it starts. all (default) waits while anything can still reach it.",
  },
  loop: described(ref("loop"), "Repeats the step for each item of a list."),
  set: described({ ...VALUES, maxProperties: 100 }, "Values of ctx to set after a success."),
  assert: described(
    fields({
      expects: { type: "array", items: NAME, maxItems: 100, description: "Keys that its input must have." },
      returns: { type: "array", items: NAME, maxItems: 100, description: "Paths that its output must have." },
    }),
    "A missing key fails the step.",
  ),
  mode: ref("mode"),
  next: described(ref("next"), "What follows: a step, a list of steps, or arcs with conditions."),
};

/** Of a step, or of a tool of the workbook. `field`: where its type is. */
function typed(
  common: Readonly<Record<string, WireSchema>>,
  required: readonly string[],
  types: readonly string[] = BUILT_IN_TYPES,
): WireSchema {
  const type = {
    ...{ anyOf: [{ enum: types }, { type: "string" }] },
    description:
      "What it does. Without a type a step only routes. Other types are tasks, by the setting playbooks.tools.",
  };
  const all = Object.entries(actionSchemas(ref)).filter(([name]) => types.includes(name));
  const actions = Object.fromEntries(all);
  const others = { properties: { type: { type: "string", not: { enum: BUILT_IN_TYPES } } }, required: ["type"] };
  return {
    type: "object",
    properties: { ...optional(common, required), type: orNothing(type), tool: orNothing(toolSchema(actions)) },
    required,
    allOf: [
      ...Object.entries(actions).map(([name, { properties, required: needs }]) => ({
        if: { properties: { type: { const: name } }, required: ["type"] },
        // biome-ignore lint/suspicious/noThenProperty: JSON Schema says "then"; a schema is never awaited.
        then: { properties: optional(properties, needs), required: needs },
      })),
      // biome-ignore lint/suspicious/noThenProperty: as above.
      { if: others, then: { additionalProperties: true } },
    ],
    unevaluatedProperties: false,
  };
}

const TOOL_TYPES = BUILT_IN_TYPES.filter((name) => !["workbook", "iterator", "noop"].includes(name));

type Actions = ReturnType<typeof actionSchemas>;

/** `tool: { kind, … }`: the type and its fields in an object of their own. */
function toolSchema(actions: Actions): WireSchema {
  // The loop of an iterator is a field of the step.
  const kinds = Object.entries(actions).filter(([name]) => name !== "iterator");
  return {
    type: "object",
    properties: {
      kind: { anyOf: [{ enum: BUILT_IN_TYPES }, { type: "string" }], description: "The type." },
      data: { description: "The input, by name." },
    },
    required: ["kind"],
    allOf: [
      ...kinds.map(([name, { properties, required }]) => ({
        if: { properties: { kind: { const: name } } },
        // biome-ignore lint/suspicious/noThenProperty: as above.
        then: { properties: optional(properties, required), required },
      })),
      {
        if: { properties: { kind: { not: { enum: BUILT_IN_TYPES } } } },
        // biome-ignore lint/suspicious/noThenProperty: as above.
        then: { additionalProperties: true },
      },
    ],
    unevaluatedProperties: false,
  };
}

let made: WireSchema | null = null;

/** The schema, as plain JSON. */
export function playbookSchema(): WireSchema {
  made ??= makeSchema();
  return made;
}

function makeSchema(): WireSchema {
  const { highestMaxSteps, highestParallel, steps } = PLAYBOOK_LIMITS;
  const tool = {
    name: described(NAME, "The name by which steps of the type workbook use it."),
    desc: { type: "string", minLength: 1 },
    data: { description: "Its input, by name; the data of a step is merged over it." },
    ...OPTIONS,
  };
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "A playbook of Perdure",
    ...strict(
      {
        apiVersion: { const: API_VERSION },
        kind: { const: "Playbook" },
        metadata: fields(
          {
            name: described(NAME, "Shown to people."),
            path: {
              ...{ type: "string", pattern: "^[A-Za-z0-9_][\\w.-]*(/[A-Za-z0-9_][\\w.-]*)*$", maxLength: 200 },
              description: "Its path in the catalog, as in shop/orders.",
            },
            description: { type: "string", minLength: 1, maxLength: 10_000 },
            labels: ref("labels"),
          },
          ["name"],
        ),
        ...optional({
          inputs: {
            type: "object",
            propertyNames: { pattern: "^[A-Za-z_]\\w{0,99}$" },
            additionalProperties: orNothing(ref("input")),
            maxProperties: INPUT_LIMITS.inputs,
            description: "The rules of the input. Without them, any object is accepted.",
          },
          workload: described(VALUES, "Defaults that the input is merged over. Filled once, at the start."),
          defaults: described(fields(OPTIONS), "Options of every step that has a job."),
          timeout: described(ref("duration"), "Of the whole run, waits included."),
          maxSteps: count(highestMaxSteps, "Steps of one run, loop items included. Default: 10000."),
          parallel: count(highestParallel, "Open steps at a time. Default: 100."),
          undefined: oneOf(
            ["strict", "empty"],
            "A missing name in a value: an error (strict, default) or an empty text.",
          ),
          failureMode: oneOf(
            ["drain", "cancel", "continue"],
            "After a failure that nothing handles, other branches start nothing new (drain, default), are cancelled, or continue.",
          ),
          onFailure: described(HANDLERS, "Steps that run before the run ends as failed."),
          finally: described(HANDLERS, "Steps that run however the run ended."),
          result: { description: "The result of the run. Default: the output of the step end, else of the last step." },
          workbook: {
            ...{ type: "array", items: typed(tool, ["name"], TOOL_TYPES), maxItems: WORKBOOK_LIMIT },
            description: "Tools by name.",
          },
        }),
        workflow: {
          ...{ type: "array", items: ref("step"), minItems: 1, maxItems: steps },
          description: "The steps. A run begins with the step start, else with the first.",
        },
      },
      ["apiVersion", "kind", "metadata", "workflow"],
    ),
    $defs: { ...DEFINITIONS, step: typed(STEP, ["step"]) },
  };
}
