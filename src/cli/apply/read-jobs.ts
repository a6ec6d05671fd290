/** Reads files of any kind into jobs, all of them or none, and finds the playbooks in them. Errors have file, line and column; unsupported fields of a
 *  document are returned as notes. */
import { ConfigError } from "../../core/errors.ts";
import { riskyNote, riskyVariables } from "../../core/input/exec-env.ts";
import type { Dialect, DialectName, ReadEntry } from "../../dialects/dialect.ts";
import type { DialectSettings } from "../../dialects/settings.ts";
import { LIMITS } from "../../engine/limits.ts";
import { isOver } from "../../lib/text.ts";
import type { YamlText } from "../../yaml/read.ts";
import { usageError } from "../exit.ts";
import { jobsOf } from "../input/job-file.ts";
import { onlyMatch } from "../input/yaml-places.ts";
import type { PlaybookSource } from "../playbooks/playbook-files.ts";
import { type AnyDocument, type DocumentsRequest, documentsOf } from "./documents.ts";
import { FileContext, type FileSurroundings } from "./file-context.ts";

export interface ReadJob {
  readonly entry: ReadEntry;
  /** `job.yaml:3:5`, for later messages. */
  readonly where: string;
  /** The position of its parent's id; undefined without one. */
  readonly parentWhere?: string | undefined;
  /** Null: a job file of Perdure. */
  readonly dialect: DialectName | null;
}

export interface ReadJobsResult {
  readonly jobs: readonly ReadJob[];
  /** Documents that are not jobs, to be read by the caller. */
  readonly playbooks: readonly PlaybookSource[];
  /** Each with its file, and its position if known. */
  readonly notes: readonly string[];
}

export interface ReadJobsRequest extends DocumentsRequest {
  readonly parameters: Readonly<Record<string, unknown>>;
  /** Read only if there is a document of another system. */
  readonly settings: () => Promise<DialectSettings> | DialectSettings;
}

export async function readJobFiles(request: ReadJobsRequest): Promise<ReadJobsResult> {
  const all = await documentsOf(request);
  const playbooks = all.flatMap(({ playbook }) => playbook ?? []);
  const documents = all.filter(({ playbook }) => playbook == null);
  const others = documents.filter(({ dialect }) => dialect !== null);
  const settings = others.length === 0 ? null : await request.settings();
  let isAsked = false;
  const onParameters = () => {
    isAsked = true;
  };
  const read = documents.map((document) => {
    const { dialect, yaml } = document;
    if (dialect === null || settings === null) {
      const own = jobsOf(yaml).map((job): ReadJob => ({ ...job, dialect: null }));
      return { jobs: own, notes: riskyNotes(yaml, own) };
    }
    const { parameters } = request;
    return readForeign(document, { settings, parameters, documents: others, onParameters });
  });
  if (Object.keys(request.parameters).length > 0 && !isAsked && playbooks.length === 0) {
    throw usageError("--param: these files take no parameters; leave it out");
  }
  return { jobs: read.flatMap(({ jobs }) => jobs), playbooks, notes: read.flatMap(({ notes }) => notes) };
}

function readForeign(document: AnyDocument, surroundings: FileSurroundings): Pick<ReadJobsResult, "jobs" | "notes"> {
  const { yaml } = document;
  const dialect = document.dialect as NonNullable<AnyDocument["dialect"]>;
  const reader = new FileContext(document, surroundings);
  try {
    const { jobs, notes } = dialect.read(yaml.value, reader.context);
    const where = yaml.where([]);
    for (const { input } of jobs) refuseTooMuch(input);
    const read = jobs.map((entry): ReadJob => {
      return { entry: withKey(dialect, entry), where, parentWhere: parentWhere(yaml, entry), dialect: dialect.name };
    });
    return { jobs: read, notes: [...notes.map((note) => reader.noteAt(note)), ...riskyNotes(yaml, read)] };
  } catch (error) {
    throw error instanceof ConfigError ? reader.errorAt(error) : error;
  }
}

/** A job whose document has a name gets a key, by which it is found when the document is applied again. */
function withKey({ named }: Dialect, entry: ReadEntry): ReadEntry {
  return named === undefined ? entry : { ...entry, options: { ...entry.options, key: named.key(entry) } };
}

function parentWhere(yaml: YamlText, { options }: ReadEntry): string | undefined {
  const parent = options?.parent;
  const field = parent === undefined ? null : onlyMatch(yaml.value, (value) => value === parent);
  return field === null ? undefined : yaml.where(field);
}

/** With the position of the variable, if only one field can be it. */
function riskyNotes(yaml: YamlText, jobs: readonly ReadJob[]): string[] {
  return riskyVariables(jobs.map(({ entry }) => entry)).map((name) => {
    const field = onlyMatch(yaml.value, (value, key) => key === name || (key === "name" && value === name));
    return `${field === null ? yaml.file : yaml.where(field)}: ${riskyNote(name)}`;
  });
}

/** The same check as at submit, with the position in the file. */
function refuseTooMuch(input: unknown): void {
  if (!isOver(JSON.stringify(input) ?? "", LIMITS.payloadBytes)) return;
  const allowed = `at most ${LIMITS.payloadBytes} bytes as JSON, files in base64 included`;
  throw new ConfigError({ path: "", given: null, problem: "too much input", allowed });
}
