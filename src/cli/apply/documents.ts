/** Recognises documents of any kind: which dialect each belongs to, or that it is a job file of Perdure. A document that
 *  matches several kinds, or none, is refused with the known kinds. */
import { dirname, resolve } from "node:path";
import { isPlain, nearest } from "../../core/check.ts";
import { show } from "../../core/errors.ts";
import type { Dialect } from "../../dialects/dialect.ts";
import { isPlaybookDocument } from "../../dialects/playbooks.ts";
import { candidates, DIALECTS, dialectOf, documentsWithin } from "../../dialects/registry.ts";
import type { YamlPath, YamlText } from "../../yaml/read.ts";
import { YAML_LIMITS } from "../../yaml/scan.ts";
import { type CliError, choiceError, missingFileError, usageError } from "../exit.ts";
import { bytesOf, EMPTY, TOP_KEYS } from "../input/job-file.ts";
import { readSmallFile, readYamlDocuments, textIn, yamlUsageError } from "../input/yaml-file.ts";
import type { Io } from "../io.ts";
import { type PlaybookSource, sourceOf } from "../playbooks/playbook-files.ts";

/** The name of Perdure's own job files, as a dialect. */
const OURS = "perdure";
/** The values of `--dialect`. */
export const KINDS: readonly string[] = [OURS, ...DIALECTS.map(({ name }) => name)];

export interface AnyDocument {
  readonly yaml: YamlText;
  /** The folder that its relative paths start from. */
  readonly dir: string;
  /** Null: a job file of Perdure, or a playbook. */
  readonly dialect: Dialect | null;
  /** Null or missing: jobs. */
  readonly playbook?: PlaybookSource | null;
}

export interface DocumentsRequest {
  /** Paths as they were given; `-` is standard input. */
  readonly files: readonly string[];
  readonly io: Pick<Io, "cwd">;
  /** One of `KINDS`; if it is missing, each document is recognised. */
  readonly dialect?: string | undefined;
  readonly stdin?: AsyncIterable<Buffer | string>;
}

export async function documentsOf({
  files,
  io,
  dialect,
  stdin = process.stdin,
}: DocumentsRequest): Promise<AnyDocument[]> {
  const chosen = dialect === undefined ? undefined : chosenKind(dialect);
  if (files.filter((name) => name === "-").length > 1) throw usageError("--file: standard input can be read only once");
  const found: AnyDocument[] = [];
  for (const name of files) {
    const [bytes, file] =
      name === "-"
        ? [await bytesOf(stdin), "stdin"]
        : [readSmallFile(resolve(io.cwd, name), name, YAML_LIMITS.bytes + 1), name];
    if (bytes === null) throw missingFileError(name, "pass another, or - for standard input");
    const dir = name === "-" ? io.cwd : dirname(resolve(io.cwd, name));
    const text = textIn(bytes, file);
    const documents = readYamlDocuments(text, file);
    for (const yaml of documents.flatMap(each)) {
      if (isPlaybookDocument(yaml.value)) {
        const playbook = sourceOf(yaml, dir, documents.length === 1 && yaml === documents[0] ? text : null);
        found.push({ yaml, dir, dialect: null, playbook });
      } else found.push({ yaml, dir, dialect: chosen === undefined ? kindOf(yaml) : chosen, playbook: null });
    }
  }
  return found;
}

/** The documents in it, or itself. */
function each(yaml: YamlText): YamlText[] {
  return documentsWithin(yaml.value)?.map((path) => yaml.part(path)) ?? [yaml];
}

function chosenKind(name: string): Dialect | null {
  if (name === OURS) return null;
  if (KINDS.includes(name)) return dialectOf(name);
  throw choiceError("--dialect", name, KINDS);
}

/** Whether a document is one or several jobs, for the message of a command that takes playbooks. */
export function isJobDocument(value: unknown): boolean {
  return ownness(value) === "sure" || candidates(value).length > 0;
}

function kindOf(yaml: YamlText): Dialect | null {
  const { value } = yaml;
  const own = ownness(value);
  if (own === "sure") return null;
  const found = candidates(value);
  const [only, second] = found;
  if (only === undefined) {
    if (own !== "none") return null;
    throw unknownKind(yaml);
  }
  if (second === undefined && own !== "likely") return only;
  const ours = own === "likely" ? [{ name: OURS, called: "a job file of Perdure" }] : [];
  const could = [...ours, ...found];
  const called = could.map((each) => each.called).join(" or ");
  throw yamlUsageError(
    yaml,
    [],
    `could be ${called}; choose with --dialect ${could.map(({ name }) => name).join("|")}`,
  );
}

/** How certainly a document is a job file of Perdure: sure if it has one of our fields and no unknown one, likely by top-
 *  level fields that only we have, possible by fields that others have too. */
function ownness(value: unknown): "sure" | "likely" | "possible" | "none" {
  if (!isPlain(value)) return "none";
  const has = (name: string) => Object.hasOwn(value, name);
  const isOurs = has("argv") || has("jobs");
  if ((isOurs || has("command")) && Object.keys(value).every((key) => TOP_KEYS.includes(key))) return "sure";
  if (isOurs) return "likely";
  return has("command") || (has("kind") && !has("apiVersion")) ? "possible" : "none";
}

// The error about a document of no known kind: what each kind is recognised by and, if a field is nearly one of those, that
// field with its position.

const KNOWN_FIELDS: readonly string[] = [...DIALECTS.flatMap(({ signs }) => signs.fields), ...TOP_KEYS];
const COMMON_FIELDS: readonly string[] = DIALECTS.flatMap(({ signs }) => signs.common ?? []);
const RETRY_FIELDS: readonly string[] = DIALECTS.flatMap(({ signs }) => signs.retry ?? []);
const KIND_VALUES: readonly string[] = DIALECTS.flatMap(({ signs }) => signs.kinds ?? []);

const KNOWN_KINDS = [
  "A job of Perdure has argv, command, kind or jobs",
  "a playbook has apiVersion: perdure/v1 and workflow",
  ...DIALECTS.map(({ called, signs }) => `${called} has ${signs.text}`),
].join("; ");

function unknownKind(yaml: YamlText): CliError {
  const { value } = yaml;
  if (value === null) return yamlUsageError(yaml, [], EMPTY);
  const got = isPlain(value) ? "a document" : Array.isArray(value) ? "a list" : show(value);
  const slip = isPlain(value) ? slipIn(value as Record<string, unknown>) : null;
  const hint = slip === null ? "" : ` Did you mean ${show(slip.meant)} by ${show(slip.given)}?`;
  return yamlUsageError(
    yaml,
    slip?.path ?? [],
    `got ${got} of no known kind.${hint} ${KNOWN_KINDS}. Pass --dialect to set it`,
  );
}

interface MisspeltWord {
  readonly path: YamlPath;
  readonly given: string;
  readonly meant: string;
}

/** The first field that is nearly one by which a kind is recognised. */
function slipIn(document: Record<string, unknown>): MisspeltWord | null {
  const { kind, retry } = document;
  const meant = typeof kind === "string" ? nearest(kind, KIND_VALUES) : null;
  if (meant !== null && meant !== kind) return { path: ["kind"], given: kind as string, meant };
  return (
    slipAmong(Object.keys(document), KNOWN_FIELDS, COMMON_FIELDS, []) ??
    (isPlain(retry) ? slipAmong(Object.keys(retry), RETRY_FIELDS, [], ["retry"]) : null)
  );
}

function slipAmong(
  keys: readonly string[],
  known: readonly string[],
  others: readonly string[],
  at: YamlPath,
): MisspeltWord | null {
  for (const given of keys) {
    if (known.includes(given) || others.includes(given)) continue;
    const meant = nearest(given, known);
    if (meant !== null) return { path: [...at, given], given, meant };
  }
  return null;
}
