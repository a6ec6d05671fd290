/** Reads what a step does: its type and the fields of that type. Parts without templates are checked as the worker will check
 *  them; parts with templates are checked when they are filled. */
import { parsePlaybookPath } from "../api/playbooks.ts";
import { asBoolean, asInteger, asText, isPlain } from "../check.ts";
import { asSpan } from "../duration.ts";
import { ConfigError, show } from "../errors.ts";
import { MAX_ARGUMENT } from "../input/exec-env.ts";
import { checkExecInput } from "../input/exec-input.ts";
import { checkHttpInput } from "../input/http-input.ts";
import { checkedName } from "../names.ts";
import { RUN_KIND, type StepAction } from "./playbook.ts";
import type { SourcePath } from "./problem.ts";
import type { DocumentReading, ObjectReader, RefusedNames } from "./reading.ts";

export const ACTION_LIMITS = {
  code: 524_288,
  command: 262_144,
  entries: 1_000,
  maxRows: 10_000,
  maxBytes: 1_048_576,
} as const;

/** `part` is the key of the action in the sources. */
export interface ActionPlace {
  readonly reading: DocumentReading;
  readonly fields: ObjectReader;
  readonly part: string;
  /** Stores code, and returns its name. */
  readonly asset: (code: string) => string;
}
type Data = Readonly<Record<string, unknown>> | null;
type ActionOf<T extends StepAction["type"]> = Extract<StepAction, { type: T }>;

const AUTH = "is not available yet; send what the server needs in headers";
const TYPES_REFUSED: RefusedNames = { signal: "is not available yet; a wait is for a time" };

/** Fields that a type refuses with a sentence. */
export const REFUSED_BY_TYPE: Readonly<Record<string, RefusedNames>> = {
  http: { auth: AUTH, credential: AUTH },
  python: {
    packages: "is not available; install packages for the workers, or run a container with exec",
    auth: "is not available yet; pass values in env",
  },
  postgres: { auth: "write connection: NAME, which the worker resolves", credential: "write connection: NAME" },
  wait: { ...TYPES_REFUSED, onTimeout: "is for signals, which are not available yet" },
};

/** The types that this version has, beside workbook, iterator and noop. */
export const ACTIONS: Readonly<Record<string, (place: ActionPlace) => StepAction>> = {
  http: readHttp,
  python: readPython,
  shell: readShell,
  exec: readExec,
  postgres: readPostgres,
  task: readTask,
  playbook: readSubPlaybook,
  wait: readWait,
};

/** Fields of each type, for messages about a field at the wrong step, and for the schema. */
export const ACTION_FIELDS = {
  http: ["url", "method", "headers", "params", "body", "expect", "redirects", "maxBytes"],
  python: ["code", "env"],
  shell: ["command", "env", "cwd"],
  exec: [
    ...["argv", "env", "cwd", "stdin", "input", "files", "ports", "fill", "grace", "outputCap", "limits"],
    ...["umask", "keep"],
  ],
  postgres: ["connection", "command", "maxRows", "maxBytes"],
  task: ["task"],
  playbook: ["path", "return_step", "wait"],
  wait: ["for", "until"],
} as const satisfies { readonly [T in StepAction["type"]]: readonly string[] };

/** Whether a value has a template anywhere. Its keys never have one. */
export function isFilled(value: unknown): boolean {
  if (typeof value === "string") return value.includes("{{") || value.includes("{%");
  return typeof value === "object" && value !== null && Object.values(value).some(isFilled);
}

function readHttp({ reading, fields, part }: ActionPlace): ActionOf<"http"> {
  const request: Record<string, unknown> = {};
  const method = fields.value("method");
  const isRead = typeof method !== "string" || /^(get|head)$/i.test(method);
  for (const name of ACTION_FIELDS.http) {
    const value = fields.value(name);
    if (value === undefined) {
      if (name === "url") reading.error("invalid_value", fields.at(name), "url: is missing; must be an address");
      continue;
    }
    reading.from(`${part}.request.${name}`, fields.at(name));
    const given = name === "params" ? asParams(value, fields, reading) : value;
    if (given === undefined) continue;
    request[name] = given;
    if (name === "body" && method === undefined) {
      const message = "body: cannot be used with GET; set a method such as POST";
      reading.error("invalid_value", fields.at(name), message);
    }
    if (name === "params" || (name === "body" && !isRead)) continue;
    for (const [key, each] of name === "headers" && isPlain(value) ? Object.entries(value) : [[null, value] as const]) {
      const path = key === null ? fields.at(name) : [...fields.at(name), key];
      if (isFilled(each)) {
        const isText = key !== null || name === "url" || name === "method" || name === "headers";
        if (isText && typeof each !== "string") mustBeText(reading, path, name, each);
        continue;
      }
      checkPart(reading, path, name, () => {
        const one = key === null ? each : { [key]: each };
        checkHttpInput({ url: "http://host/", ...(name === "body" ? { method } : {}), [name]: one }, "");
      });
    }
  }
  return { type: "http", request, data: readData(fields, reading, part) };
}

function mustBeText(reading: DocumentReading, path: SourcePath, name: string, value: unknown): void {
  reading.error("invalid_value", path, `${name}: must be text; got ${show(value)}`);
}

/** `path` is the place of the value, `name` the field that the error names. */
function checkPart(reading: DocumentReading, path: SourcePath, name: string, check: () => void): void {
  try {
    check();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    reading.error("invalid_value", path, `${name}: ${error.problem}`);
  }
}

function asParams(value: unknown, fields: ObjectReader, reading: DocumentReading): unknown {
  if (isPlain(value) || isFilled(value)) return value;
  reading.error("invalid_value", fields.at("params"), `params: must be an object; got ${show(value)}`);
  return undefined;
}

function readPython({ reading, fields, part, asset }: ActionPlace): ActionOf<"python"> {
  const code = fields.required("code", (value, at) => asCode(value, at, ACTION_LIMITS.code), "");
  return {
    type: "python",
    code: asset(code),
    data: readData(fields, reading, part),
    env: readEnv(fields, reading, part),
  };
}

/** Code may begin with spaces, and be long. */
function asCode(value: unknown, path: string, most: number): string {
  if (typeof value === "string" && value.trim() !== "" && value.length <= most && !value.includes("\0")) return value;
  const shown = typeof value === "string" && value.length > most ? `${value.length} characters` : show(value);
  const allowed = `text of 1 to ${most} characters, without NUL`;
  throw new ConfigError({ path, given: value, allowed, ...(value === undefined ? {} : { shown }) });
}

function readShell({ reading, fields, part }: ActionPlace): ActionOf<"shell"> {
  reading.from(`${part}.command`, fields.at("command"));
  const command = fields.required("command", (value, at) => asCode(value, at, MAX_ARGUMENT), "");
  reading.from(`${part}.cwd`, fields.at("cwd"));
  const cwd = fields.check("cwd", (value, at) => asText(value, at, 4_096), null);
  const env = readEnv(fields, reading, part);
  return { type: "shell", command, data: readData(fields, reading, part), env, cwd };
}

function readExec({ reading, fields, part }: ActionPlace): ActionOf<"exec"> {
  const input: Record<string, unknown> = {};
  const env = readEnv(fields, reading, part, "input.env");
  if (Object.keys(env).length > 0) input.env = env;
  for (const name of ACTION_FIELDS.exec) {
    if (name === "env") continue;
    const value = fields.value(name);
    if (value === undefined) {
      if (name !== "argv") continue;
      reading.error(
        "invalid_value",
        fields.at(name),
        "argv: is missing; must be a list with a program and its arguments",
      );
      continue;
    }
    reading.from(`${part}.input.${name}`, fields.at(name));
    input[name] = name === "argv" ? asArguments(value, fields.at(name), reading) : value;
    if (isFilled(value)) {
      if ((name === "stdin" || name === "cwd") && typeof value !== "string") {
        mustBeText(reading, fields.at(name), name, value);
      }
      continue;
    }
    const others = name === "fill" && !isFilled(fields.value("ports")) ? { ports: fields.value("ports") ?? [] } : {};
    const only = { argv: ["x"], ...others, [name]: input[name] };
    checkPart(reading, fields.at(name), name, () => checkExecInput(only, ""));
  }
  if (fields.has("stdin") && fields.has("input")) {
    reading.error("invalid_value", fields.at("input"), "input: cannot be used together with stdin");
  }
  return { type: "exec", input, data: readData(fields, reading, part) };
}

/** Numbers become text. */
function asArguments(value: unknown, path: SourcePath, reading: DocumentReading): readonly string[] {
  if (!Array.isArray(value)) {
    reading.error("invalid_value", path, `argv: must be a list; got ${show(value)}`);
    return ["x"];
  }
  return value.map((each, index) => {
    if (typeof each === "string") return each;
    if (typeof each === "number") return `${each}`;
    mustBeText(reading, [...path, index], "argv", each);
    return "";
  });
}

function readPostgres({ reading, fields, part }: ActionPlace): ActionOf<"postgres"> {
  reading.from(`${part}.connection`, fields.at("connection"));
  reading.from(`${part}.command`, fields.at("command"));
  const connection = fields.required("connection", asConnection, "");
  const command = fields.required("command", (value, at) => asCode(value, at, ACTION_LIMITS.command), "");
  const { maxRows, maxBytes } = ACTION_LIMITS;
  return {
    type: "postgres",
    connection,
    command,
    data: readData(fields, reading, part),
    maxRows: fields.check("maxRows", (value, at) => asInteger(value, at, { min: 1, max: maxRows }), null),
    maxBytes: fields.check("maxBytes", (value, at) => asInteger(value, at, { min: 1, max: maxBytes }), null),
  };
}

function asConnection(value: unknown, path: string): string {
  if (typeof value === "string" && (isFilled(value) || /^[a-z][a-z0-9_-]{0,62}$/i.test(value))) return value;
  const allowed = "a name that workers have a connection for: letters, digits, _ and -, beginning with a letter";
  // An address may contain a password, so it is not shown.
  const isAddress = typeof value === "string" && /[:@/]/.test(value);
  throw new ConfigError({ path, given: value, allowed, ...(isAddress ? { shown: "an address" } : {}) });
}

function readTask({ reading, fields, part }: ActionPlace): ActionOf<"task"> {
  const task = fields.required("task", asKind, "");
  reading.from(`${part}.data`, fields.at("data"));
  return { type: "task", task, data: fields.value("data") ?? null };
}

function asKind(value: unknown, path: string): string {
  const kind = checkedName(value, path);
  if (isFilled(kind)) throw new ConfigError({ path, given: kind, allowed: "the kind of a task, without a template" });
  if (kind === RUN_KIND) {
    const problem = `${show(kind)} is not the kind of a task`;
    throw new ConfigError({ path, given: kind, problem, fix: "write type: playbook" });
  }
  return kind;
}

function readSubPlaybook({ reading, fields, part }: ActionPlace): ActionOf<"playbook"> {
  reading.from(`${part}.path`, fields.at("path"));
  return {
    type: "playbook",
    path: fields.required("path", asPath, null),
    inline: null,
    data: readData(fields, reading, part),
    returnStep: fields.check("return_step", (value, at) => asText(value, at, 100), null),
    wait: fields.check("wait", asBoolean, true),
  };
}

function asPath(value: unknown, path: string): string {
  if (typeof value === "string" && value.length <= 1_000) {
    if (isFilled(value) || /^\.{1,2}\/[^\p{Cc}]+$/u.test(value)) return value;
    try {
      parsePlaybookPath(value);
      return value;
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
    }
  }
  const allowed = 'a path of the catalog, as in "shop/orders" or "shop/orders@3", or of a file, as in "./pay.yaml"';
  throw new ConfigError({ path, given: value, allowed });
}

function readWait({ reading, fields, part }: ActionPlace): ActionOf<"wait"> {
  const span = fields.check("for", asDurationText, null);
  const until = fields.check("until", asInstantText, null);
  reading.from(`${part}.for`, fields.at("for"));
  reading.from(`${part}.until`, fields.at("until"));
  const isOne = fields.has("for") !== fields.has("until");
  const isSignal = fields.has("signal");
  if (!isOne && !isSignal) {
    const message = fields.has("for")
      ? "until: cannot be used together with for"
      : 'for: is missing; must be a duration such as "10m", or set until';
    reading.error("invalid_value", fields.at(fields.has("for") ? "until" : "for"), message);
  }
  return { type: "wait", for: span, until, data: readData(fields, reading, part) };
}

/** A number would be milliseconds, which nobody expects in a file. */
export function asDurationText(value: unknown, path: string): string {
  if (typeof value !== "string") {
    throw new ConfigError({ path, given: value, allowed: 'a duration with a unit, such as "30s", "5m" or "2h"' });
  }
  if (!isFilled(value)) asSpan(value, path);
  return value;
}

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)$/;

function asInstantText(value: unknown, path: string): unknown {
  if (typeof value === "string" && (isFilled(value) || (INSTANT.test(value) && !Number.isNaN(Date.parse(value))))) {
    return value;
  }
  const allowed = 'a time with its zone, as in "2026-11-20T09:00:00Z", or a template that gives one';
  throw new ConfigError({ path, given: value, allowed });
}

/** The input of a step, by name. */
export function readData(fields: ObjectReader, reading: DocumentReading, part: string): Data {
  const data = fields.object("data", ACTION_LIMITS.entries);
  if (data === undefined) return null;
  reading.from(`${part}.data`, fields.at("data"));
  return data;
}

/** Numbers become text, as a shell would have it. */
function readEnv(
  fields: ObjectReader,
  reading: DocumentReading,
  part: string,
  name = "env",
): Readonly<Record<string, unknown>> {
  const env = fields.object("env", ACTION_LIMITS.entries);
  if (env === undefined) return {};
  reading.from(`${part}.${name}`, fields.at("env"));
  const entries = Object.entries(env).map(([key, value]) => [key, typeof value === "number" ? `${value}` : value]);
  for (const [key, value] of entries as [string, unknown][]) {
    if (typeof value === "string" && isFilled(value)) continue;
    const path = [...fields.at("env"), key];
    checkPart(reading, path, "env", () => checkExecInput({ argv: ["x"], env: { [key]: value } }, ""));
  }
  return Object.fromEntries(entries);
}
