/** Reads the type of a step, and with it what the step does: a type of this version, a task that is used as a type, a tool of the
 *  workbook, or the body of an iterator. */
import { asText, isPlain } from "../check.ts";
import { show } from "../errors.ts";
import type { StepAction } from "./playbook.ts";
import type { SourcePath } from "./problem.ts";
import { ACTION_FIELDS, ACTIONS, isFilled, REFUSED_BY_TYPE } from "./read-action.ts";
import { type GivenOptions, OPTION_FIELDS, readOptions } from "./read-options.ts";
import { type DocumentReading, forNames, ObjectReader, type RefusedNames } from "./reading.ts";

export interface ToolContext {
  readonly reading: DocumentReading;
  /** Stores code, and returns its name. */
  readonly asset: (code: string) => string;
  /** Kinds of tasks by the type that means each. */
  readonly tools: Readonly<Record<string, string>>;
  readonly defaults: GivenOptions;
  /** Tools by name. */
  readonly workbook: ReadonlyMap<string, WorkbookTool>;
}

export interface ToolRead {
  /** Null for a step that only routes, and for one with a mistake. */
  readonly action: StepAction | null;
  /** The type has a mistake, which was reported. */
  readonly isWrong: boolean;
  /** Of a tool of the workbook. */
  readonly options: GivenOptions | null;
  /** `an http step`, for messages. */
  readonly of: string;
  readonly refused: RefusedNames;
  readonly elsewhere: Readonly<Record<string, string>>;
}

export interface WorkbookTool {
  readonly action: StepAction | null;
  readonly options: GivenOptions;
  readonly path: SourcePath;
  /** Places of the parts of its action, by keys that begin with `.`. */
  readonly places: ReadonlyMap<string, SourcePath>;
}

/** What no type of this version is, with a sentence each. */
const REFUSED_TYPES: RefusedNames = {
  approval: "is not available yet",
  signal: "is not available yet; a wait is for a time",
  container: 'is not built in; run it with exec, as in argv: ["docker", "run", …]',
  secrets: "are not available yet; workers resolve connections",
  ...forNames(["bash", "sh", "cmd", "command", "script", "run"], "is not a type; write shell"),
  ...forNames(["rest", "api", "request"], "is not a type; write http"),
  ...forNames(["sql", "pg", "psql", "postgresql"], "is not a type; write postgres"),
  ...forNames(["sleep", "delay", "timer"], "is not a type; write wait"),
  ...forNames(["loop", "foreach", "map"], "is not a type; repeat a step with its field loop"),
  ...forNames(["if", "switch", "choice", "parallel"], "is not a type; leave it out, and write arcs in next"),
  start: "is not a type; leave the type out, and the step only routes",
  end: "is not a type; leave the type out, and the step only routes",
};
const OTHER_TYPES = ["workbook", "iterator", "noop"];
export const BUILT_IN_TYPES: readonly string[] = [...Object.keys(ACTIONS), ...OTHER_TYPES];
const WORKBOOK_FIELDS: readonly string[] = ["name", "desc", "type", "tool", "data", ...OPTION_FIELDS];
const STEP_ONLY: readonly string[] = ["step", "when", "on_error", "join", "loop", "set", "assert", "mode", "next"];
const NOTHING: ToolRead = { action: null, isWrong: false, options: null, of: "", refused: {}, elsewhere: {} };
const ROUTE: ToolRead = { ...NOTHING, of: "a step without a type", elsewhere: fieldsElsewhere(null) };
const WRONG: ToolRead = { ...NOTHING, isWrong: true, of: "a step" };

/** For each field of a type, that it belongs to it. */
function fieldsElsewhere(type: string | null): Readonly<Record<string, string>> {
  const owners = new Map<string, string[]>();
  for (const [owner, names] of Object.entries(ACTION_FIELDS)) {
    if (owner === type) continue;
    for (const name of names) owners.set(name, [...(owners.get(name) ?? []), owner]);
  }
  return Object.fromEntries(
    [...owners].map(([name, types]) => [name, `; it is a field of the type ${types.join(", ")}`]),
  );
}

/** `part` is the key of the step in the sources. */
export function readTool(step: ObjectReader, part: string, context: ToolContext): ToolRead {
  const { reading } = context;
  const type = step.value("type");
  const tool = step.value("tool");
  if (tool === undefined) {
    if (type === undefined) return ROUTE;
    return readTyped(type, step.at("type"), step, step, `${part}.action`, context);
  }
  if (type !== undefined) {
    reading.error("invalid_value", step.at("tool"), "tool: cannot be used together with type");
    return ignoreAll(step, WRONG);
  }
  if (Array.isArray(tool)) {
    const message = "tool: a list of tools is not a form of perdure/v1; write steps, one after another";
    reading.error("keyword_refused", step.at("tool"), message);
    return WRONG;
  }
  const fields = new ObjectReader(reading, tool, step.at("tool"), "tool");
  const kind = fields.value("kind");
  if (kind === undefined) {
    if (isPlain(tool))
      reading.error("invalid_value", fields.at("kind"), "kind: is missing; must be the type of the tool");
    return WRONG;
  }
  const data = fields.has("data") || !step.has("data") ? fields : step;
  const read = readTyped(kind, fields.at("kind"), fields, data, `${part}.action`, context);
  if (!read.isWrong) fields.end(read.of, read.refused, read.elsewhere);
  return { ...read, of: "a step with a tool", elsewhere: { ...read.elsewhere, ...TOOL_FIELDS } };
}

const TOOL_FIELDS = Object.fromEntries(
  Object.values(ACTION_FIELDS)
    .flat()
    .map((name) => [name, "; write it in tool"]),
);

/** Of a step whose type is wrong, the fields of a type cannot be judged. */
function ignoreAll(fields: ObjectReader, read: ToolRead): ToolRead {
  for (const name of fields.names) if (!STEP_ONLY.includes(name)) fields.value(name);
  return read;
}

function readTyped(
  type: unknown,
  typePath: SourcePath,
  fields: ObjectReader,
  data: ObjectReader,
  part: string,
  context: ToolContext,
): ToolRead {
  const { reading, asset, tools } = context;
  const name = typeof type === "string" ? type : "";
  if (Object.hasOwn(ACTIONS, name)) {
    const read = ACTIONS[name] as (typeof ACTIONS)[string];
    reading.from(part, fields.path);
    const action = withData(read({ reading, fields, part, asset }), fields, data, part, reading);
    const of = `${/^[aeiou]/.test(name) || name === "http" ? "an" : "a"} ${name} step`;
    return { ...NOTHING, action, of, refused: REFUSED_BY_TYPE[name] ?? {}, elsewhere: fieldsElsewhere(name) };
  }
  if (name === "noop") return { ...ROUTE, of: "a noop step" };
  if (name === "workbook") return readWorkbookStep(fields, data, part, context);
  if (name === "iterator") return readIterator(fields, part, context);
  if (Object.hasOwn(tools, name)) {
    reading.from(part, fields.path);
    return { ...NOTHING, action: taskOfTool(tools[name] as string, fields, data, part, reading), of: `a ${name} step` };
  }
  if (name !== "" && Object.hasOwn(REFUSED_TYPES, name)) {
    reading.error("keyword_refused", typePath, `type: ${name} ${REFUSED_TYPES[name]}`);
  } else {
    const known = [...BUILT_IN_TYPES, ...Object.keys(tools)];
    const hint =
      reading.hint(name, known) ||
      `; must be one of ${known.slice(0, 20).join(", ")}, or a type of the setting playbooks.tools`;
    reading.error("tool_unknown", typePath, `unknown type ${show(type)}${hint}`);
  }
  return ignoreAll(fields, WRONG);
}

/** A step with `tool` may have its data beside it. */
function withData(
  action: StepAction,
  fields: ObjectReader,
  data: ObjectReader,
  part: string,
  reading: DocumentReading,
): StepAction {
  if (data === fields) return action;
  reading.from(`${part}.data`, data.at("data"));
  if (action.type === "task") return { ...action, data: data.value("data") ?? null };
  return { ...action, data: data.object("data", 1_000) ?? null };
}

/** All fields that are not those of a step are the data of the task, with `data` over them. */
function taskOfTool(
  task: string,
  fields: ObjectReader,
  data: ObjectReader,
  part: string,
  reading: DocumentReading,
): StepAction {
  const others = fields.names.filter(
    (name) => !STEP_ONLY.includes(name) && !WORKBOOK_FIELDS.includes(name) && name !== "kind" && fields.has(name),
  );
  for (const name of others) reading.from(`${part}.data.${name}`, fields.at(name));
  const own = data.value("data");
  if (own === undefined) reading.from(`${part}.data`, fields.path);
  else reading.from(`${part}.data`, data.at("data"));
  if (others.length === 0) return { type: "task", task, data: own ?? null };
  if (own !== undefined && !isPlain(own)) {
    reading.error("invalid_value", data.at("data"), `data: must be an object; got ${show(own)}`);
  }
  const rest = others.map((name) => [name, fields.value(name)] as const);
  return { type: "task", task, data: { ...Object.fromEntries(rest), ...(isPlain(own) ? own : {}) } };
}

function readWorkbookStep(fields: ObjectReader, data: ObjectReader, part: string, context: ToolContext): ToolRead {
  const { reading, workbook } = context;
  const wrong = { ...WRONG, of: "a workbook step" };
  if (fields.has("name") && fields.has("task")) {
    reading.error("invalid_value", fields.at("task"), "task: cannot be used together with name");
  }
  const field = fields.has("task") && !fields.has("name") ? "task" : "name";
  fields.value(field === "task" ? "name" : "task");
  const name = fields.required(field, (value, at) => asText(value, at, 1_000), null);
  const own = data.object("data", 1_000);
  if (name === null) return wrong;
  const tool = workbook.get(name);
  if (tool === undefined) {
    const hint = reading.hint(name, [...workbook.keys()], true);
    reading.error("tool_unknown", fields.at(field), `the workbook has no tool ${show(name)}${hint}`);
    return wrong;
  }
  return { ...NOTHING, ...usedTool(tool, own, data.at("data"), part, reading), of: "a workbook step" };
}

/** The action of a tool with more data. */
function usedTool(
  tool: WorkbookTool,
  own: Readonly<Record<string, unknown>> | undefined,
  ownPath: SourcePath,
  part: string,
  reading: DocumentReading,
): Pick<ToolRead, "action" | "options" | "isWrong"> {
  reading.from(part, tool.path);
  for (const [key, path] of tool.places) reading.from(`${part}${key}`, path);
  const { action, options } = tool;
  if (action === null) return { action, options, isWrong: true }; // reported in the workbook
  if (own === undefined) return { action, options, isWrong: false };
  for (const name of Object.keys(own)) reading.from(`${part}.data.${name}`, [...ownPath, name]);
  const given = action.data;
  if (given !== null && !isPlain(given)) {
    reading.error(
      "invalid_value",
      ownPath,
      "data: the tool's own data is not an object, so nothing can be added to it",
    );
    return { action, options, isWrong: false };
  }
  return { action: { ...action, data: { ...given, ...own } } as StepAction, options, isWrong: false };
}

/** The body of a loop: a tool, or the name of one in the workbook. */
function readIterator(fields: ObjectReader, part: string, context: ToolContext): ToolRead {
  const { reading, workbook } = context;
  const of = "an iterator step";
  const task = fields.value("task");
  const path = fields.at("task");
  if (!fields.has("loop")) {
    reading.error("invalid_value", fields.at("loop"), "loop: is missing; an iterator is the loop of another tool");
  }
  if (typeof task === "string") {
    const tool = workbook.get(task);
    const own = fields.object("data", 1_000);
    if (tool !== undefined) return { ...NOTHING, ...usedTool(tool, own, fields.at("data"), part, reading), of };
    const hint = reading.hint(task, [...workbook.keys()], true);
    reading.error("tool_unknown", path, `the workbook has no tool ${show(task)}${hint}`);
    return { ...WRONG, of };
  }
  const body = new ObjectReader(reading, task ?? {}, path, "task");
  const type = body.value("type");
  if (type === undefined) {
    const message =
      "task: is missing; must be a tool such as { type: http, url: … }, or the name of one in the workbook";
    if (task === undefined) reading.error("invalid_value", path, message);
    else if (isPlain(task)) reading.error("invalid_value", body.at("type"), "type: is missing");
    return { ...WRONG, of };
  }
  if (type === "iterator") {
    reading.error("keyword_refused", body.at("type"), "type: an iterator cannot have another; write a sub-playbook");
    return { ...WRONG, of };
  }
  const data = body.has("data") || !fields.has("data") ? body : fields;
  const read = readTyped(type, body.at("type"), body, data, part, context);
  if (!read.isWrong) body.end(read.of, read.refused, read.elsewhere);
  if (read.action === null && !read.isWrong) {
    reading.error("invalid_value", body.at("type"), "type: the body of a loop cannot be a noop");
    return { ...WRONG, of };
  }
  return { ...read, of };
}

/** Reads the tools of the workbook. `index` is that of an item of the list. */
export function readWorkbookTool(
  value: unknown,
  path: SourcePath,
  index: number,
  context: ToolContext,
): { readonly name: string; readonly tool: WorkbookTool } | null {
  const { reading } = context;
  const fields = new ObjectReader(reading, value, path, "a tool");
  const name = fields.required("name", (given, at) => asText(given, at, 100), null);
  if (name !== null && isFilled(name))
    reading.error("invalid_value", fields.at("name"), "name: cannot have a template");
  fields.check("desc", (text, at) => asText(text, at, 10_000), null);
  const part = `workbook[${index}]`;
  const type = fields.value("type");
  const isNested = type === "workbook" || type === "iterator" || type === "noop";
  if (isNested) reading.error("keyword_refused", fields.at("type"), `type: ${type} is not for tools of the workbook`);
  const read = isNested ? ignoreAll(fields, WRONG) : readTool(fields, part, { ...context, workbook: new Map() });
  const options = readOptions(fields, reading);
  if (read === ROUTE)
    reading.error("invalid_value", fields.at("type"), "type: is missing; must be the type of the tool");
  if (!read.isWrong) fields.end(read.of.replace(/step$/, "tool"), read.refused, read.elsewhere);
  const prefix = `${part}.action`;
  const keys = [...reading.sources].filter(([key]) => key.startsWith(prefix));
  const places = new Map(keys.map(([key, at]) => [key.slice(prefix.length), at]));
  return name === null ? null : { name, tool: { action: read.action, options, path, places } };
}
