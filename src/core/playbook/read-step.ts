/** Reads one step of a playbook: its type, options, loop and arcs. The names in its arcs are resolved when all steps are known. */
import { asInteger, asList, asOneOf, asText, isPlain } from "../check.ts";
import { ConfigError } from "../errors.ts";
import type { PlaybookStep } from "./playbook.ts";
import type { SourcePath } from "./problem.ts";
import { type ArcDraft, readNext } from "./read-arcs.ts";
import { asCondition, readLoop } from "./read-loop.ts";
import { type GivenOptions, joinedOptions, OPTION_FIELDS, readOptions } from "./read-options.ts";
import { readTool, type ToolContext, type ToolRead } from "./read-tool.ts";
import { type DocumentReading, forNames, ObjectReader, type RefusedNames } from "./reading.ts";

export const STEP_LIMITS = { description: 10_000, set: 100, assert: 100, path: 200 } as const;
export const STEP_FIELDS = [
  ...["step", "desc", "type", "tool", "data", "when", "on_error", "join", "loop", "set", "assert", "mode", "next"],
  ...OPTION_FIELDS,
] as const;

export interface StepDraft {
  readonly step: Omit<PlaybookStep, "arcs">;
  readonly arcs: readonly ArcDraft[];
}

const REFUSED: RefusedNames = {
  compensate: "is not available yet; undo with a step of onFailure",
  budget: "is not available yet; set retry.budget for a step",
  approval: "is not available yet",
  signal: "is not available yet",
  sink: "is not available; write the result with a step of its own",
  save: "is not available; write the result with a step of its own",
  case: "is not a form of perdure/v1; write when in the arcs of next",
  vars: "is not a form of perdure/v1; write set",
  auth: "is not available yet; send what the server needs in headers",
};
/** What people write who know other systems. */
const WRITE: Readonly<Record<string, string>> = {
  ...forNames(["args", "with", "payload", "parameters"], "; write data"),
  ...forNames(["retries", "attempts", "max_attempts", "maxAttempts"], "; write retry"),
  ...forNames(["run", "cmd", "cmds", "shell"], "; write command, with type: shell"),
  ...forNames(["foreach", "for_each", "with_items", "items"], "; write loop"),
  ...forNames(["on_failure", "onFailure", "catch"], '; write an arc in next with when: "{{ error != None }}"'),
  ...forNames(["sleep", "delay"], "; write a step with type: wait"),
  ...forNames(["if", "condition"], "; write when"),
  ...forNames(["depends_on", "needs"], "; write next in the step before"),
  name: "; write step",
  description: "; write desc",
  endpoint: "; write url",
  script: "; write code",
  goto: "; write next",
};

export function readStep(value: unknown, index: number, path: SourcePath, context: ToolContext): StepDraft {
  const { reading } = context;
  const part = `steps[${index}]`;
  const fields = new ObjectReader(reading, value, path, "a step");
  reading.from(part, path);
  for (const name of ["when", "set", "join"]) {
    if (fields.has(name)) reading.from(`${part}.${name}`, fields.at(name));
  }
  reading.from(`${part}.name`, fields.at("step"));

  const name = fields.required("step", (given, at) => asText(given, at, 1_000), "");
  const tool = readTool(fields, part, context);
  const given = readOptions(fields, reading);
  const loop = fields.value("loop");
  const mode = fields.check("mode", asMode, null);
  const next = readNext(fields.value("next"), fields.at("next"), part, reading);
  if (mode !== null && next.mode !== null && mode !== next.mode) {
    reading.error("invalid_value", fields.at("mode"), `mode: is "${mode}" here and "${next.mode}" in next; remove one`);
  }
  const step: StepDraft["step"] = {
    name,
    description: fields.check("desc", (text, at) => asText(text, at, STEP_LIMITS.description), null),
    // What has a mistake counts as something that is done: the checks of the graph are about the others.
    action: tool.isWrong ? { type: "task", task: "", data: null } : tool.action,
    when: fields.check("when", asCondition, null),
    onError: fields.check("on_error", (word, at) => asOneOf(word, ["fail", "continue"] as const, at), "fail"),
    join: fields.check("join", asJoin, "all"),
    loop: loop === undefined ? null : readLoop(loop, fields.at("loop"), `${part}.loop`, reading),
    set: fields.object("set", STEP_LIMITS.set) ?? {},
    assert: readAssert(fields, reading),
    mode: mode ?? next.mode ?? "match",
    options: optionsOf(tool, given, context.defaults),
  };
  refuseWithoutEffect(step, tool, fields, reading);
  fields.end(tool.of, { ...REFUSED, ...tool.refused }, { ...tool.elsewhere, ...WRITE });
  return { step, arcs: next.arcs };
}

/** Defaults apply to what has a job. */
function optionsOf(tool: ToolRead, given: GivenOptions, defaults: GivenOptions): PlaybookStep["options"] {
  const type = tool.action?.type;
  if (type === undefined || type === "wait" || type === "playbook") return joinedOptions([given]);
  return joinedOptions([given, tool.options, defaults]);
}

const JOB_FIELDS: readonly string[] = [...OPTION_FIELDS];

/** A field that would be ignored is a mistake. */
function refuseWithoutEffect(
  step: StepDraft["step"],
  tool: ToolRead,
  fields: ObjectReader,
  reading: DocumentReading,
): void {
  if (tool.isWrong) return;
  const type = step.action?.type;
  const refuse = (names: readonly string[], why: string) => {
    for (const name of names) {
      if (fields.has(name)) reading.error("invalid_value", fields.at(name), `${name}: has no effect on ${why}`);
    }
  };
  if (type === undefined) refuse([...JOB_FIELDS, "loop", "on_error", "data"], "a step without a type");
  else if (type === "wait") refuse([...JOB_FIELDS, "loop", "on_error"], "a wait");
  else if (type === "playbook") refuse(JOB_FIELDS, "a sub-playbook; set it there");
}

export function asMode(value: unknown, path: string): PlaybookStep["mode"] {
  return asOneOf(value, ["match", "first", "all"] as const, path);
}

function asJoin(value: unknown, path: string): PlaybookStep["join"] {
  if (value === "all" || value === "any") return value;
  if (typeof value === "number") return asInteger(value, path, { min: 1, max: 1_000 });
  throw new ConfigError({ path, given: value, allowed: '"all", "any" or a number of branches' });
}

function readAssert(fields: ObjectReader, reading: DocumentReading): PlaybookStep["assert"] {
  const value = fields.value("assert");
  if (value === undefined) return null;
  const within = new ObjectReader(reading, value, fields.at("assert"), "assert");
  const names = (name: string) =>
    within.check(
      name,
      (list, at) => asList(list, at, (each, where) => asText(each, where, STEP_LIMITS.path), STEP_LIMITS.assert),
      [],
    );
  const assert = { expects: names("expects"), returns: names("returns") };
  const isEmpty = isPlain(value) && !within.has("expects") && !within.has("returns");
  if (isEmpty) reading.error("invalid_value", fields.at("assert"), "assert: must have expects, returns or both");
  within.end("assert");
  return assert;
}
