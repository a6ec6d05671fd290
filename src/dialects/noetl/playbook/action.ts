/** What a step of NoETL does, as an action of a compiled playbook. A tool that is not built in can be served by workers under the
 *  setting `playbooks.tools`. */
import { isPlain, nearest } from "../../../core/check.ts";
import { show } from "../../../core/errors.ts";
import type { StepAction } from "../../../core/playbook/playbook.ts";
import type { SourcePath } from "../../../core/playbook/problem.ts";
import type { Draft, Raw, Refusal } from "./draft.ts";

/** Fields of a tool, wherever they stand: in the step (v1), in `tool`, in a `task` or in the workbook. */
export const ACTION_FIELDS = [
  ...["args", "data", "input", "with", "payload", "params", "headers", "method", "url", "endpoint", "uri", "body"],
  ...["code", "script", "code_b64", "env", "command", "commands", "command_b64", "cmds", "query", "sql"],
  ...["auth", "credential", "connection", "path", "playbook", "return_step", "task", "name", "cwd"],
  ...["storage", "timeout", "timeout_seconds", "set", "set_ctx", "set_iter", "vars"],
] as const;

/** Fields of a tool that cannot be kept. */
export const REFUSED_FIELDS: Readonly<Record<string, Refusal>> = {
  packages: ["keyword_refused", "packages cannot be installed by a step; install them where the worker runs"],
  libs: ["keyword_refused", "libraries cannot be loaded by a step; import them in the code"],
  credentials: [
    "credential",
    "credentials are not in playbooks; use `auth: NAME` of a postgres step, or `env` of the worker",
  ],
  secret: ["keyword_refused", "secrets in playbooks are not supported yet; put them into the worker's environment"],
  script_uri: ["keyword_refused", "code from an address is not supported; write it into `code`"],
  keychain: ["keyword_refused", "keychain is not supported; put secrets into the worker's environment"],
  stream: ["keyword_refused", "stream is not supported"],
  table: ["save_storage", "tables are written by a postgres step with `command: insert …`"],
  ...Object.fromEntries(
    ["db_host", "db_port", "db_user", "db_password", "db_name", "db_schema", "db_conn_string"].map((name) => [
      name,
      [
        "credential",
        `${name}: the database is a connection of the worker; use \`auth: NAME\` and --connection NAME=URL`,
      ],
    ]),
  ),
};

/** Whether the fields of a tool are known here. */
export function isKnownTool(name: string): boolean {
  return ROUTERS.has(name) || [...BUILT_IN, "bash", "workbook", "iterator", "save"].includes(name);
}

export const BUILT_IN = ["http", "python", "shell", "postgres", "playbook"] as const;
/** Steps that run nothing. */
const ROUTERS: ReadonlySet<string> = new Set(["start", "end", "router", "noop", "route"]);
const MAX_TEXT = 131_072;
const MAX_CODE = 1_048_576;

export interface NamedTool {
  readonly name: string;
  readonly path: SourcePath;
}

/** The action of a tool; null for one that runs nothing, and after a problem. */
export function readAction(draft: Draft, tool: NamedTool, fields: Raw, path: SourcePath): StepAction | null {
  const { name } = tool;
  if (ROUTERS.has(name)) return null;
  if (name === "save") {
    if (fields.storage !== undefined && fields.storage !== "event_log") {
      draft.problem(
        "save_storage",
        [...path, "storage"],
        "results are stored in the run; write them elsewhere with a step of their own (type: postgres, or a task)",
      );
    }
    return null;
  }
  switch (name) {
    case "http":
      return httpAction(draft, fields, path);
    case "python":
      return pythonAction(draft, fields, path);
    case "shell":
    case "bash":
      return shellAction(draft, fields, path);
    case "postgres":
      return postgresAction(draft, fields, path);
    case "playbook":
      return playbookAction(draft, fields, path);
  }
  const kind = Object.hasOwn(draft.context.tools, name) ? draft.context.tools[name] : undefined;
  if (kind !== undefined) return { type: "task", task: kind, data: withoutRouting(fields) };
  const near = nearest(name, [...BUILT_IN, "workbook", "iterator", "noop"]);
  const hint = near === null ? "" : `; did you mean "${near}"?`;
  const example = /^[\w.-]{1,60}$/.test(name) ? `{ ${name}: my-${name} }` : "{ NAME: TASK }";
  const fix = `map it to a task kind with the setting playbooks.tools, as in playbooks.tools: ${example}`;
  draft.problem(
    "tool_unknown",
    tool.path,
    `tool ${show(name)} is not built in${hint === "" ? `; ${fix}` : `${hint} Else ${fix}`}`,
  );
  return null;
}

const ROUTING: ReadonlySet<string> = new Set([
  "step",
  "desc",
  "type",
  "tool",
  "kind",
  "next",
  "retry",
  "when",
  "loop",
  "case",
  "spec",
]);

function withoutRouting(fields: Raw): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !ROUTING.has(name)));
}

/** `args`, `data`, `input`, `with` and `payload` mean the same; several of them are merged, the later over the earlier. */
export function readData(
  draft: Draft,
  fields: Raw,
  path: SourcePath,
  names: readonly string[] = ["data", "payload", "input", "with", "args"],
): Readonly<Record<string, unknown>> | null {
  let data: Record<string, unknown> | null = null;
  for (const name of names) {
    const value = fields[name];
    if (value === undefined || value === null) continue;
    if (typeof value === "string" && /^\s*\{\{[\s\S]*\}\}\s*$/.test(value)) {
      data = Object.assign(data ?? {}, { [name]: value });
      draft.note(`a template for the whole of \`${name}\` is passed as the argument \`${name}\``);
      continue;
    }
    const object = draft.object(value, [...path, name]);
    // A null is a place for a value that is passed under another of these names.
    for (const [key, one] of Object.entries(object ?? {})) {
      data ??= {};
      if (one !== null || !Object.hasOwn(data, key)) data[key] = one;
    }
  }
  return data;
}

function httpAction(draft: Draft, fields: Raw, path: SourcePath): StepAction | null {
  const url = draft.one(fields, path, ["url", "endpoint", "uri"]);
  if (url === null) {
    draft.problem("invalid_value", [...path, "url"], "is missing; an http step needs a url");
    return null;
  }
  for (const name of ["auth", "credential"]) {
    if (fields[name] === undefined || fields[name] === null) continue;
    const message = `${name} of an http step is not supported yet; send the header with the worker's own task`;
    draft.problem("credential", [...path, name], message);
  }
  const text = draft.text(url.value, [...path, url.name], 8_192);
  const request: Record<string, unknown> = { url: text };
  if (fields.method !== undefined) request.method = fields.method;
  const headers = fields.headers === undefined ? null : draft.object(fields.headers, [...path, "headers"]);
  if (headers !== null) request.headers = headers;
  const params = fields.params === undefined ? null : draft.object(fields.params, [...path, "params"]);
  if (params !== null) request.params = params;
  const body = fields.body ?? fields.payload;
  // `data` may be written in parts: `{ query: {…}, body: {…} }`.
  const data = fields.data;
  if (
    isPlain(data) &&
    Object.keys(data).length > 0 &&
    Object.keys(data).every((key) => key === "query" || key === "body")
  ) {
    const parts = data as { readonly query?: unknown; readonly body?: unknown };
    if (parts.query !== undefined)
      request.params = { ...(params ?? {}), ...(draft.object(parts.query, [...path, "data", "query"]) ?? {}) };
    if (parts.body !== undefined) request.body = parts.body;
    return { type: "http", request, data: readData(draft, fields, path, ["input", "with", "args"]) };
  }
  if (body !== undefined && body !== null) request.body = body;
  if (data !== undefined && data !== null && !isPlain(data) && body === undefined) request.body = data;
  const names = isPlain(data) ? ["data", "input", "with", "args"] : ["input", "with", "args"];
  return { type: "http", request, data: readData(draft, fields, path, names) };
}

function pythonAction(draft: Draft, fields: Raw, path: SourcePath): StepAction | null {
  const code = readCode(draft, fields, path);
  const env = fields.env === undefined ? null : draft.object(fields.env, [...path, "env"]);
  const data = readData(draft, fields, path);
  return code === null ? null : { type: "python", code: draft.asset(code), data, env: env ?? {} };
}

function readCode(draft: Draft, fields: Raw, path: SourcePath): string | null {
  const given = draft.one(fields, path, ["code", "script", "code_b64"]);
  if (given === null) {
    draft.problem("invalid_value", [...path, "code"], "is missing; a python step needs code");
    return null;
  }
  const at = [...path, given.name];
  if (isPlain(given.value)) {
    draft.problem("keyword_refused", at, "code from a file or an address is not supported; write it into `code`");
    return null;
  }
  const text = draft.text(given.value, at, MAX_CODE);
  return text === null || given.name !== "code_b64" ? text : decoded(draft, text, at);
}

function decoded(draft: Draft, base64: string, path: SourcePath): string | null {
  try {
    const bytes = Uint8Array.from(atob(base64.replace(/\s+/g, "")), (char) => char.charCodeAt(0));
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    draft.problem("invalid_value", path, "must be UTF-8 text in base64");
    return null;
  }
}

function shellAction(draft: Draft, fields: Raw, path: SourcePath): StepAction | null {
  const given = draft.one(fields, path, ["command", "cmds", "commands", "command_b64"]);
  if (given === null) {
    draft.problem("invalid_value", [...path, "command"], "is missing; a shell step needs a command");
    return null;
  }
  const command = commandText(draft, given.name, given.value, [...path, given.name], "\n");
  const env = fields.env === undefined ? null : draft.object(fields.env, [...path, "env"]);
  const data = readData(draft, fields, path);
  if (command === null) return null;
  return { type: "shell", command, data, env: env ?? {}, cwd: fields.cwd ?? null };
}

/** Of several commands, one that fails ends the step. */
function commandText(draft: Draft, name: string, value: unknown, path: SourcePath, joint: string): string | null {
  if (Array.isArray(value)) {
    const lines = draft.list(value, path, 1_000).map((line, i) => draft.text(line, [...path, i], MAX_TEXT));
    if (lines.length === 0) draft.problem("invalid_value", path, "is an empty list; write at least one command");
    if (lines.length === 0 || lines.includes(null)) return null;
    return joint === "\n"
      ? ["set -e", ...lines].join("\n")
      : lines.map((line) => (line as string).replace(/;\s*$/, "")).join(joint);
  }
  const text = draft.text(value, path, MAX_TEXT);
  return text !== null && name.endsWith("_b64") ? decoded(draft, text, path) : text;
}

function postgresAction(draft: Draft, fields: Raw, path: SourcePath): StepAction | null {
  const connection = readConnection(draft, fields, path);
  const given = draft.one(fields, path, ["command", "query", "sql", "commands", "command_b64"]);
  if (given === null) {
    draft.problem("invalid_value", [...path, "command"], "is missing; a postgres step needs a command");
    return null;
  }
  const text = commandText(draft, given.name, given.value, [...path, given.name], ";\n");
  const command = text === null ? null : withoutEscapes(draft, text);
  const data = readData(draft, fields, path);
  if (connection === null || command === null) return null;
  draft.note("all statements of a postgres step run in one transaction; NoETL has one for each");
  return { type: "postgres", connection, command, data, maxRows: null, maxBytes: null };
}

/** `{{ x | replace("'", "''") }}` escapes a value for a literal. Values are bound as parameters, so quotes must not be doubled. */
function withoutEscapes(draft: Draft, command: string): string {
  const plain = command.replace(/\{\{[\s\S]*?\}\}/g, (template) => template.replace(ESCAPE, ""));
  if (plain !== command)
    draft.note("values in SQL are bound as parameters, so the filter that doubles quotes is left out");
  return plain;
}

const ESCAPE = /\|\s*replace\(\s*(?:"'"|'\\'')\s*,\s*(?:"''"|'\\'\\'')\s*\)/g;

/** `auth: NAME`, `auth: { credential: NAME }`, the same under an alias, and `credential: NAME`. */
function readConnection(draft: Draft, fields: Raw, path: SourcePath): string | null {
  const given = draft.one(fields, path, ["connection", "auth", "credential"]);
  if (given === null) {
    const message =
      "is missing; name a connection of the worker: `auth: NAME`, and start the worker with --connection NAME=URL";
    draft.problem("credential", [...path, "auth"], message);
    return null;
  }
  const at = [...path, given.name];
  if (!isPlain(given.value)) return draft.text(given.value, at, 1_000);
  const entries = Object.entries(given.value as Raw);
  const named = entries.find(([key]) => key === "credential" || key === "key" || key === "name");
  if (named !== undefined) return draft.text(named[1], [...at, named[0]], 1_000);
  const [alias] = entries;
  if (entries.length === 1 && alias !== undefined && isPlain(alias[1])) {
    const inner = Object.entries(alias[1] as Raw).find(([key]) => key === "credential" || key === "key");
    if (inner !== undefined) return draft.text(inner[1], [...at, alias[0], inner[0]], 1_000);
  }
  draft.problem("credential", at, "must be the name of a connection, or { credential: NAME }");
  return null;
}

function playbookAction(draft: Draft, fields: Raw, path: SourcePath): StepAction | null {
  const given = draft.one(fields, path, ["path", "playbook"]);
  if (given === null) {
    draft.problem("invalid_value", [...path, "path"], "is missing; a playbook step needs a path");
    return null;
  }
  const text = draft.text(given.value, [...path, given.name], 1_000);
  const returned =
    fields.return_step === undefined ? null : draft.text(fields.return_step, [...path, "return_step"], 100);
  const data = readData(draft, fields, path);
  if (text === null) return null;
  return { type: "playbook", path: text, inline: null, data, returnStep: returned, wait: true };
}
