/** The tool of a step with its fields, wherever they stand: in the step, in `tool`, in the task of an iterator, in a pipeline or in
 *  the workbook. */
import { isPlain } from "../../../core/check.ts";
import type { SourcePath } from "../../../core/playbook/problem.ts";
import { ACTION_FIELDS, isKnownTool, type NamedTool, REFUSED_FIELDS } from "./action.ts";
import type { Draft, Raw } from "./draft.ts";
import type { PipelineTask } from "./pipeline.ts";

export interface NoetlWorkbookTool {
  readonly fields: Raw;
  readonly path: SourcePath;
}

const TOOL_FIELDS = [
  "kind",
  "type",
  "spec",
  "retry",
  "retry_when",
  "stop_when",
  "assert",
  "desc",
  "description",
  "sink",
  "save",
  "label",
  ...ACTION_FIELDS,
];
/** Fields that a tool has of its own. */
const NOT_INHERITED: ReadonlySet<string> = new Set([
  "step",
  "desc",
  "description",
  "type",
  "tool",
  "next",
  "when",
  "condition",
  "pass",
  "loop",
  "case",
  "label",
  "set",
  "set_ctx",
  "set_iter",
  "vars",
]);

/** The tool of a step with its fields: in the step itself, in `tool`, or in the `task` of an iterator. */
export interface ToolBody {
  readonly tool: NamedTool | null;
  readonly fields: Raw;
  readonly path: SourcePath;
  /** Of a pipeline: its tasks. */
  readonly pipeline: readonly unknown[] | null;
}

export function bodyOf(draft: Draft, fields: Raw, path: SourcePath, isIterator: boolean): ToolBody {
  if (isIterator) {
    const task = fields.task ?? fields.run;
    const inner = draft.object(task, [...path, "task"], "the tool of each item, as in { tool: http, … }");
    return inner === null
      ? { tool: null, fields: {}, path, pipeline: null }
      : toolBody(draft, inner, [...path, "task"]);
  }
  if (Array.isArray(fields.tool)) return pipelineBody(draft, fields, [...path, "tool"]);
  if (isPlain(fields.tool)) {
    const inherited = Object.fromEntries(Object.entries(fields).filter(([name]) => !NOT_INHERITED.has(name)));
    const inner = toolBody(draft, Object.assign(Object.create(null), fields.tool) as Raw, [...path, "tool"]);
    return { ...inner, fields: mergedFields(inherited, inner.fields) };
  }
  const given = draft.one(fields, path, ["type", "tool"]);
  if (given === null) return { tool: null, fields, path, pipeline: null };
  const name = draft.text(given.value, [...path, given.name], 100);
  return { tool: name === null ? null : { name, path: [...path, given.name] }, fields, path, pipeline: null };
}

const DATA_NAMES = ["data", "payload", "input", "with", "args"];

/** Arguments of the step are added to those of its tool, which count more. */
function mergedFields(outer: Raw, inner: Raw): Raw {
  const merged: Record<string, unknown> = { ...outer, ...inner };
  for (const name of DATA_NAMES) {
    if (isPlain(outer[name]) && isPlain(inner[name]))
      merged[name] = { ...(outer[name] as Raw), ...(inner[name] as Raw) };
  }
  return merged;
}

export function toolBody(draft: Draft, fields: Raw, path: SourcePath): ToolBody {
  const given = draft.one(fields, path, ["kind", "tool", "type"]);
  // An unknown tool is one problem, whatever fields it has.
  if (typeof given?.value !== "string" || isKnownTool(given.value)) {
    draft.known(fields, path, [...TOOL_FIELDS, "tool"], REFUSED_FIELDS);
  }
  if (given === null) {
    draft.problem("invalid_value", [...path, "kind"], "is missing; a tool needs a kind, as in kind: http");
    return { tool: null, fields, path, pipeline: null };
  }
  const name = draft.text(given.value, [...path, given.name], 100);
  return { tool: name === null ? null : { name, path: [...path, given.name] }, fields, path, pipeline: null };
}

/** A pipeline of one task is that task. */
function pipelineBody(draft: Draft, fields: Raw, path: SourcePath): ToolBody {
  const tasks = draft.list(fields.tool, path, 100);
  if (tasks.length !== 1) {
    if (tasks.length === 0) draft.problem("invalid_value", path, "is an empty list; write at least one tool");
    return { tool: null, fields, path, pipeline: tasks };
  }
  const [task] = pipelineTasks(draft, tasks, path);
  if (task === undefined) return { tool: null, fields: {}, path, pipeline: null };
  const inherited = Object.fromEntries(Object.entries(fields).filter(([name]) => !NOT_INHERITED.has(name)));
  const inner = toolBody(draft, task.fields, task.path);
  return { ...inner, fields: mergedFields(inherited, inner.fields) };
}

/** `[{ LABEL: { kind, … } }]` or `[{ name: LABEL, kind, … }]`. */
export function pipelineTasks(draft: Draft, tasks: readonly unknown[], path: SourcePath): PipelineTask[] {
  return tasks.flatMap((one, i): PipelineTask[] => {
    const at = [...path, i];
    const fields = draft.object(one, at);
    if (fields === null) return [];
    if (fields.kind !== undefined || fields.tool !== undefined || fields.type !== undefined) {
      const { name, ...rest } = fields;
      return [{ label: typeof name === "string" ? name : `task_${i + 1}`, fields: rest, path: at }];
    }
    const entries = Object.entries(fields);
    const [first] = entries;
    if (entries.length !== 1 || first === undefined || !isPlain(first[1])) {
      draft.invalid(at, one, "one tool, as in { fetch: { kind: http, … } }");
      return [];
    }
    return [{ label: first[0], fields: Object.assign(Object.create(null), first[1]) as Raw, path: [...at, first[0]] }];
  });
}

/** The tool of the workbook that a step names; its own fields count more. */
export function fromWorkbook(draft: Draft, body: ToolBody, workbook: ReadonlyMap<string, NoetlWorkbookTool>): ToolBody {
  const given = draft.one(body.fields, body.path, ["name", "task"]);
  const name = given === null ? null : draft.text(given.value, [...body.path, given.name], 200);
  const found = name === null ? undefined : workbook.get(name);
  if (found === undefined) {
    const known = [...workbook.keys()].join(", ");
    const what =
      name === null
        ? "is missing; name a tool of the workbook"
        : `"${name}" is not in the workbook; it has ${known || "no tools"}`;
    draft.problem(name === null ? "invalid_value" : "unknown_name", [...body.path, given?.name ?? "name"], what);
    return { ...body, tool: null };
  }
  const inner = isPlain(found.fields.tool)
    ? toolBody(draft, Object.assign(Object.create(null), found.fields.tool) as Raw, [...found.path, "tool"])
    : toolBody(draft, withoutName(found.fields), found.path);
  const { name: _, task: __, tool: ___, type: ____, kind: _____, ...own } = body.fields;
  const outer = isPlain(found.fields.tool) ? mergedFields(withoutTool(found.fields), inner.fields) : inner.fields;
  return { ...inner, fields: mergedFields(inner.tool?.name === "http" ? outer : underNames(outer, own), own) };
}

/** The arguments of the tool under the name that the step uses for its own, which count more. */
function underNames(outer: Raw, own: Raw): Raw {
  const used = DATA_NAMES.find((name) => isPlain(own[name]));
  if (used === undefined) return outer;
  const given = DATA_NAMES.filter((name) => isPlain(outer[name]));
  if (given.length === 0) return outer;
  const rest = Object.entries(outer).filter(([name]) => !given.includes(name));
  return { ...Object.fromEntries(rest), [used]: Object.assign({}, ...given.map((name) => outer[name])) };
}

function withoutName({ name: _, ...fields }: Raw): Raw {
  return fields;
}

function withoutTool({ name: _, tool: __, ...fields }: Raw): Raw {
  return fields;
}
