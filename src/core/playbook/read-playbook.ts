/** Reads a playbook of the format `perdure/v1`: checks all of it, and compiles it. It never throws for a bad document; all of its
 *  problems are reported at once. */

import { parsePlaybookPath } from "../api/playbooks.ts";
import { asInteger, asOneOf, asText, isPlain } from "../check.ts";
import { ConfigError, show } from "../errors.ts";
import { arcEvent } from "./arc-event.ts";
import { checkInto } from "./check-playbook.ts";
import { plainDocument } from "./plain-document.ts";
import { PLAYBOOK_FORMAT, PLAYBOOK_LIMITS, type Playbook, type PlaybookArc, type PlaybookStep } from "./playbook.ts";
import type { ReadPlaybook, SourcePath } from "./problem.ts";
import { readInputs } from "./read-inputs.ts";
import { asFixedSpan, asLabels, type GivenOptions, OPTION_FIELDS, readOptions } from "./read-options.ts";
import { readStep, type StepDraft } from "./read-step.ts";
import { readWorkbookTool, type ToolContext, type WorkbookTool } from "./read-tool.ts";
import { DocumentReading, ObjectReader, type RefusedNames } from "./reading.ts";

export const API_VERSION = "perdure/v1";
export const PLAYBOOK_FIELDS = [
  ...["apiVersion", "kind", "metadata", "inputs", "workload", "defaults", "timeout", "maxSteps", "parallel"],
  ...["undefined", "failureMode", "onFailure", "finally", "result", "workbook", "workflow"],
] as const;
export const WORKBOOK_LIMIT = 200;
const MAX_HANDLERS = 100;
const MAX_DESCRIPTION = 10_000;
const MAX_ENTRIES = 1_000;

export interface PlaybookContext {
  /** In hexadecimal digits. */
  readonly sha256: (text: string) => string;
  /** Kinds of tasks by the type that means each: the setting `playbooks.tools`. */
  readonly tools: Readonly<Record<string, string>>;
}

const REFUSED: RefusedNames = {
  budget: "is not available yet; set retry.budget for a step",
  compensate: "is not available yet; undo with a step of onFailure",
  secrets: "are not available yet; workers resolve connections",
  schedule: "is not part of a playbook",
  keychain: "is not a form of perdure/v1; workers resolve connections",
  executor: "is not a form of perdure/v1",
};
const WRITE = {
  steps: "; write workflow",
  name: "; write it in metadata",
  path: "; write it in metadata",
  description: "; write it in metadata",
  labels: "; write them in metadata",
  vars: "; write workload",
  variables: "; write workload",
  parameters: "; write inputs",
};

/** Reads a document of any kind. */
export function readPlaybook(document: unknown, context: PlaybookContext): ReadPlaybook {
  const reading = new DocumentReading();
  const assets = new Map<string, string>();
  const done = (playbook: Playbook | null): ReadPlaybook => ({
    playbook,
    assets,
    problems: reading.problems,
    notes: [],
  });

  const plain = plainDocument(document, reading);
  if (plain === null) return done(null);
  const { value } = plain;
  if (!isPlain(value) || !("workflow" in value || "apiVersion" in value || "kind" in value)) {
    const given = isPlain(value) ? "an object without apiVersion, kind and workflow" : show(value);
    reading.error("not_a_playbook", [], `a playbook must have apiVersion: ${API_VERSION} and a workflow; got ${given}`);
    return done(null);
  }
  const asset = (code: string) => {
    const hash = context.sha256(code);
    assets.set(hash, code);
    return hash;
  };
  const fields = new ObjectReader(reading, value, [], "a playbook");
  if (!readHead(fields, reading)) return done(null);
  const playbook = readBody(fields, { reading, asset, tools: context.tools });
  checkInto(reading, playbook, reading.sources);
  return done(reading.hasErrors ? null : playbook);
}

/** False for a document of another format, whose fields cannot be judged. */
function readHead(fields: ObjectReader, reading: DocumentReading): boolean {
  const version = fields.value("apiVersion");
  const kind = fields.value("kind");
  if (version === undefined) {
    const fix = `is missing; must be ${API_VERSION}`;
    reading.error("invalid_value", fields.at("apiVersion"), `apiVersion: ${fix}`);
  } else if (version !== API_VERSION) {
    reading.error(
      "not_a_playbook",
      fields.at("apiVersion"),
      `apiVersion: must be ${API_VERSION}; got ${show(version)}`,
    );
    return false;
  }
  if (kind !== "Playbook") {
    const problem = kind === undefined ? "is missing; must be Playbook" : `must be Playbook; got ${show(kind)}`;
    reading.error("invalid_value", fields.at("kind"), `kind: ${problem}`);
  }
  return true;
}

type BodyContext = Pick<ToolContext, "reading" | "asset" | "tools">;

function readBody(fields: ObjectReader, context: BodyContext): Playbook {
  const { reading } = context;
  const metadata = readMetadata(fields, reading);
  const inputs = readInputs(fields, reading);
  for (const name of ["workload", "result"]) reading.from(name, fields.at(name));
  const workload = fields.object("workload", MAX_ENTRIES) ?? {};
  const defaults = readDefaults(fields, reading);
  const result = fields.value("result");
  const workbook = readWorkbook(fields, { ...context, defaults, workbook: new Map() });
  const drafts = readWorkflow(fields, { ...context, defaults, workbook });
  const indices = new Map(drafts.map(({ step }, index) => [step.name, index] as const).toReversed());
  const steps = drafts.map((draft, index) => withArcs(draft, index, indices, reading));
  const { highestMaxSteps, highestParallel } = PLAYBOOK_LIMITS;
  const playbook: Playbook = {
    format: PLAYBOOK_FORMAT,
    ...metadata,
    inputs,
    workload,
    timeoutMs: fields.check("timeout", asFixedSpan, null),
    maxSteps: fields.check(
      "maxSteps",
      (given, at) => asInteger(given, at, { min: 1, max: highestMaxSteps }),
      PLAYBOOK_LIMITS.maxSteps,
    ),
    parallel: fields.check(
      "parallel",
      (given, at) => asInteger(given, at, { min: 1, max: highestParallel }),
      PLAYBOOK_LIMITS.parallel,
    ),
    undefined: fields.check("undefined", (given, at) => asOneOf(given, ["strict", "empty"] as const, at), "strict"),
    failureMode: fields.check(
      "failureMode",
      (given, at) => asOneOf(given, ["drain", "cancel", "continue"] as const, at),
      "drain",
    ),
    onFailure: readHandlers("onFailure", fields, indices, reading),
    finally: readHandlers("finally", fields, indices, reading),
    result: result === undefined ? null : { value: result },
    entry: indices.get("start") ?? 0,
    steps,
    aliases: {},
    mustTakeArc: false,
  };
  fields.end("a playbook", REFUSED, WRITE);
  return playbook;
}

function readMetadata(
  document: ObjectReader,
  reading: DocumentReading,
): Pick<Playbook, "name" | "path" | "description" | "labels"> {
  const given = document.value("metadata");
  if (given === undefined) {
    const message = "metadata: is missing; must be an object with name, and path for the catalog";
    reading.error("invalid_value", document.at("metadata"), message);
    return { name: "", path: null, description: null, labels: {} };
  }
  const fields = new ObjectReader(reading, given, document.at("metadata"), "metadata");
  const metadata = {
    name: fields.required("name", (value, at) => asText(value, at, 200), ""),
    path: fields.check("path", asCatalogPath, null),
    description: fields.check("description", (value, at) => asText(value, at, MAX_DESCRIPTION), null),
    labels: fields.check("labels", asLabels, {}),
  };
  fields.end("metadata", {}, { version: "; versions are counted by the catalog" });
  return metadata;
}

function asCatalogPath(value: unknown, path: string): string {
  const text = asText(value, path, 200);
  const isPath = !text.includes("@") && parsePlaybookPath(text).version === null;
  if (isPath) return text;
  throw new ConfigError({ path, given: value, allowed: 'a path such as "shop/orders", without a version' });
}

function readDefaults(document: ObjectReader, reading: DocumentReading): GivenOptions {
  const given = document.value("defaults") ?? {};
  const fields = new ObjectReader(reading, given, document.at("defaults"), "defaults");
  const options = readOptions(fields, reading);
  fields.end("defaults");
  return options;
}

function readWorkbook(document: ObjectReader, context: ToolContext): ReadonlyMap<string, WorkbookTool> {
  const { reading } = context;
  const list = listOf("workbook", document, WORKBOOK_LIMIT, reading);
  const tools = new Map<string, WorkbookTool>();
  for (const [index, value] of list.entries()) {
    const read = readWorkbookTool(value, [...document.at("workbook"), index], index, context);
    if (read === null) continue;
    if (tools.has(read.name)) {
      const message = `the workbook has two tools ${show(read.name)}`;
      reading.error("invalid_value", [...document.at("workbook"), index, "name"], message);
    } else tools.set(read.name, read.tool);
  }
  return tools;
}

function readWorkflow(document: ObjectReader, context: ToolContext): StepDraft[] {
  const { reading } = context;
  const list = listOf("workflow", document, PLAYBOOK_LIMITS.steps, reading);
  if (list.length === 0 && !reading.problems.some(({ path }) => path[0] === "workflow")) {
    reading.error("invalid_value", document.at("workflow"), "workflow: must be a list with at least one step");
  }
  return list.map((value, index) => readStep(value, index, [...document.at("workflow"), index], context));
}

function listOf(name: string, document: ObjectReader, most: number, reading: DocumentReading): readonly unknown[] {
  const value = document.value(name) ?? [];
  if (!Array.isArray(value)) {
    reading.error("invalid_value", document.at(name), `${name}: must be a list; got ${show(value)}`);
    return [];
  }
  if (value.length <= most) return value;
  reading.error("too_large", document.at(name), `${name}: has ${value.length} items; at most ${most}`);
  return [];
}

function withArcs(
  { step, arcs }: StepDraft,
  index: number,
  indices: ReadonlyMap<string, number>,
  reading: DocumentReading,
): PlaybookStep {
  const known: { readonly arc: PlaybookArc; readonly draft: number }[] = [];
  for (const [draft, { to, toPath, on, ...arc }] of arcs.entries()) {
    const next = stepIndex(to, toPath, indices, reading);
    if (next !== null) known.push({ arc: { ...arc, to: next, on: on ?? arcEvent(arc.when) }, draft });
  }
  if (known.length < arcs.length) moveArcs(index, known, reading.sources);
  return { ...step, arcs: known.map(({ arc }) => arc) };
}

/** Where arcs are left out, the places of the others are those of their new index. */
function moveArcs(step: number, known: readonly { readonly draft: number }[], sources: Map<string, SourcePath>): void {
  for (const [index, { draft }] of known.entries()) {
    for (const end of ["", ".when", ".data", ".set"]) {
      const place = sources.get(`steps[${step}].arcs[${draft}]${end}`);
      if (place !== undefined) sources.set(`steps[${step}].arcs[${index}]${end}`, place);
      else sources.delete(`steps[${step}].arcs[${index}]${end}`);
    }
  }
}

function stepIndex(
  name: string,
  path: SourcePath,
  indices: ReadonlyMap<string, number>,
  reading: DocumentReading,
): number | null {
  const index = indices.get(name);
  if (index !== undefined) return index;
  reading.error("unknown_step", path, `unknown step ${show(name)}${reading.hint(name, [...indices.keys()])}`);
  return null;
}

/** A name, or a list of names. */
function readHandlers(
  field: "onFailure" | "finally",
  document: ObjectReader,
  indices: ReadonlyMap<string, number>,
  reading: DocumentReading,
): number[] {
  const value = document.value(field);
  if (value === undefined) return [];
  const names = Array.isArray(value) ? value : [value];
  if (names.length > MAX_HANDLERS) {
    reading.error("too_large", document.at(field), `${field}: has ${names.length} steps; at most ${MAX_HANDLERS}`);
    return [];
  }
  const found: number[] = [];
  for (const [position, name] of names.entries()) {
    const path = Array.isArray(value) ? [...document.at(field), position] : document.at(field);
    reading.from(`${field}[${found.length}]`, path);
    if (typeof name !== "string") {
      reading.error(
        "invalid_value",
        path,
        `${field}: must be the name of a step, or a list of names; got ${show(name)}`,
      );
      continue;
    }
    const index = stepIndex(name, path, indices, reading);
    if (index !== null) found.push(index);
  }
  return found;
}

export const DEFAULTS_FIELDS = OPTION_FIELDS;
