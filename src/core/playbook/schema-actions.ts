/** The fields of the types of steps, as JSON Schemas. Fields that may have a template accept text. */
import type { WireSchema } from "../wire-schema.ts";
import { ACTION_LIMITS } from "./read-action.ts";

interface ActionSchema {
  readonly properties: Readonly<Record<string, WireSchema>>;
  readonly required: readonly string[];
}

const SCALAR = { anyOf: [{ type: "string" }, { type: "number" }] };
const TEXT = { type: "string", minLength: 1 };
const ENV = {
  ...{ type: "object", additionalProperties: SCALAR },
  description: "Environment variables of the command.",
};
const filled = (schema: WireSchema, description: string): WireSchema => ({
  ...{ anyOf: [schema, { type: "string", pattern: "\\{\\{" }] },
  description,
});
const text = (description: string): WireSchema => ({ ...TEXT, description });

/** By type. `ref` is a reference to a definition of the schema. */
export function actionSchemas(ref: (name: string) => WireSchema): Readonly<Record<string, ActionSchema>> {
  return {
    http: {
      required: ["url"],
      properties: {
        url: text("The address."),
        method: text("Default: GET."),
        headers: filled(
          { type: "object", additionalProperties: { type: "string" }, maxProperties: 100 },
          "Names and values.",
        ),
        params: filled({ type: "object" }, "The query. With GET and HEAD, data is added to it."),
        body: { description: "Text is sent as it is, anything else as JSON. Default, except for GET and HEAD: data." },
        expect: { description: 'The statuses that count as success, as in 200, "2xx" or a list. Default: 2xx.' },
        redirects: filled({ type: "integer", minimum: 0, maximum: 3 }, "How many to follow. Default: 3."),
        maxBytes: filled({ type: "integer", minimum: 0, maximum: 1_048_576 }, "Of the body. Default: 1 MiB."),
      },
    },
    python: {
      required: ["code"],
      properties: {
        code: {
          ...{ type: "string", minLength: 1, maxLength: ACTION_LIMITS.code },
          description: "The code. Its function main is called with data. It has no templates.",
        },
        env: ENV,
      },
    },
    shell: {
      required: ["command"],
      properties: {
        command: text("A command for /bin/sh. Values are quoted by their place."),
        env: ENV,
        cwd: text("The directory. Default: one of the attempt's own."),
      },
    },
    exec: {
      required: ["argv"],
      properties: {
        argv: { type: "array", items: SCALAR, minItems: 1, description: "The program and its arguments." },
        env: ENV,
        cwd: text("The directory. Default: one of the attempt's own."),
        stdin: { type: "string", description: "Text for its standard input." },
        input: { description: "A JSON value for its standard input." },
        files: { description: "Files by name, with their content in base64, in inputs/ of its directory." },
        ports: { description: "Names of ports. Each attempt gets a free port for each." },
        fill: { description: "More variables, filled in by the worker." },
        grace: { description: "The time between SIGTERM and SIGKILL. Default: 10s." },
        outputCap: { description: "Bytes kept of stdout, and of stderr. Default: 1 MiB." },
        limits: { description: "Limits of the command: memory, processes, fileSize, openFiles." },
        umask: { description: "For the files it creates." },
        keep: { description: "Keeps the scratch files after the end." },
      },
    },
    postgres: {
      required: ["connection", "command"],
      properties: {
        connection: text("The name of a connection that workers have."),
        command: {
          ...{ type: "string", minLength: 1, maxLength: ACTION_LIMITS.command },
          description: "SQL statements, in one transaction. Templates become parameters.",
        },
        maxRows: { type: "integer", minimum: 1, maximum: ACTION_LIMITS.maxRows, description: "Default: 1000." },
        maxBytes: { type: "integer", minimum: 1, maximum: ACTION_LIMITS.maxBytes, description: "Default: 1 MiB." },
      },
    },
    task: { required: ["task"], properties: { task: text("The kind of a task that workers serve.") } },
    playbook: {
      required: ["path"],
      properties: {
        path: text("A path of the catalog, as in shop/orders@3, or of a file, as in ./pay.yaml."),
        return_step: text("The step whose output is the output. Default: the result of the playbook."),
        wait: { type: "boolean", description: "false starts a run of its own, and continues." },
      },
    },
    wait: {
      required: [],
      properties: {
        for: filled(ref("duration"), "A duration."),
        until: text("A time with its zone, as in 2026-11-20T09:00:00Z."),
      },
    },
    workbook: {
      required: [],
      properties: { name: text("The name of the tool."), task: text("The name of the tool.") },
    },
    iterator: {
      required: ["task"],
      properties: { task: { description: "The tool, or the name of one in the workbook." } },
    },
    noop: { required: [], properties: {} },
  };
}
