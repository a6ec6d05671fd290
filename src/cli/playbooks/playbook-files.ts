/** Reads playbooks from files: their problems with line and column, and the files beside them that their steps name as
 *  `./pay.yaml`. Nothing is stored, and no database is needed. */
import { createHash } from "node:crypto";
import { dirname, resolve } from "node:path";
import type { LocatedProblem, PlaybookText } from "../../core/api/playbooks.ts";
import { catalogPath, fixedPaths, isRelative, pathFrom } from "../../core/playbook/paths.ts";
import type { Playbook } from "../../core/playbook/playbook.ts";
import { locateProblems } from "../../core/playbook/problem-text.ts";
import { readAnyPlaybook } from "../../dialects/playbooks.ts";
import { readYaml, readYamlDocuments, YamlError, type YamlText, yamlTextIn } from "../../yaml/read.ts";
import { YAML_LIMITS } from "../../yaml/scan.ts";
import { missingFileError, usageError } from "../exit.ts";
import { readBeside } from "../input/files-beside.ts";
import { bytesOf } from "../input/job-file.ts";
import { readSmallFile } from "../input/yaml-file.ts";
import { onlyMatch, shownPath } from "../input/yaml-places.ts";
import type { Io } from "../io.ts";

/** A document that is meant to be a playbook. */
export interface PlaybookSource {
  /** The name as it was given. */
  readonly file: string;
  /** The folder that its relative paths start from. */
  readonly dir: string;
  readonly yaml: YamlText;
  /** What is sent to an engine: the text of the file or, of several documents in one file, this one as JSON. */
  readonly text: string;
}

/** What a reader found in a document, or in a file that has none. */
export interface PlaybookFileReading {
  readonly file: string;
  /** Null if a problem is an error. */
  readonly playbook: Playbook | null;
  readonly problems: readonly LocatedProblem[];
  readonly notes: readonly string[];
}

export interface PlaybookWithFiles {
  /** The document first, then the files beside it, each once. */
  readonly readings: readonly PlaybookFileReading[];
  readonly given: PlaybookText;
}

/** The type of a step and the kind of its job: the setting `playbooks.tools`. */
export type PlaybookTools = Readonly<Record<string, string>>;

/** The documents of a file, which must exist; a text that is not YAML is a reading with this problem. */
export async function playbookSources(
  name: string,
  { cwd }: Pick<Io, "cwd">,
  stdin: AsyncIterable<Buffer | string> = process.stdin,
): Promise<readonly PlaybookSource[] | PlaybookFileReading> {
  const isStdin = name === "-";
  const path = resolve(cwd, name);
  const bytes = isStdin ? await bytesOf(stdin) : readSmallFile(path, name, YAML_LIMITS.bytes + 1);
  if (bytes === null) throw missingFileError(name, "pass another, or - for standard input");
  const file = isStdin ? "stdin" : name;
  try {
    return sourcesIn(yamlTextIn(bytes, file), file, isStdin ? cwd : dirname(path));
  } catch (error) {
    if (error instanceof YamlError) return unreadable(error);
    throw error;
  }
}

function sourcesIn(text: string, file: string, dir: string): PlaybookSource[] {
  const documents = readYamlDocuments(text, file);
  return documents.map((yaml) => sourceOf(yaml, dir, documents.length === 1 ? text : null));
}

/** `text` null: it is one of several documents of its file. */
export function sourceOf(yaml: YamlText, dir: string, text: string | null): PlaybookSource {
  return { file: yaml.file, dir, yaml, text: text ?? JSON.stringify(yaml.value, null, 2) };
}

function unreadable({ file, line, column, problem }: YamlError): PlaybookFileReading {
  const found: LocatedProblem = {
    ...{ code: "not_a_playbook", severity: "error", path: [], offset: null },
    ...{ line, column, message: problem },
  };
  return { file, playbook: null, problems: [found], notes: [] };
}

/** Reads a document with the files beside it that its steps name, also through each other. */
export function readWithFiles(source: PlaybookSource, tools: PlaybookTools): PlaybookWithFiles {
  const files: Record<string, string> = {};
  const readings: PlaybookFileReading[] = [];
  const seen = new Set([FIRST_FILE]);
  const waiting: { readonly at: string; readonly yaml: YamlText }[] = [{ at: FIRST_FILE, yaml: source.yaml }];
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const { at, yaml } = next;
    const own = readDocument(yaml, tools);
    const problems = [...own.problems];
    for (const path of own.playbook === null ? [] : fixedPaths(own.playbook).filter(isRelative)) {
      const from = pathFrom(at, path);
      if (from !== null && seen.has(from)) continue;
      const found = from === null ? "outside" : besideOf(source, from);
      if (typeof found === "string") problems.push(...missing(found, path, own.playbook as Playbook, yaml));
      else if (from !== null) {
        seen.add(from);
        try {
          const text = yamlTextIn(found.bytes, shownPath(source.file, from));
          waiting.push({ at: from, yaml: readYaml(text, shownPath(source.file, from)) });
          files[from] = text;
        } catch (error) {
          if (!(error instanceof YamlError)) throw error;
          readings.push(unreadable(error));
        }
      }
    }
    readings.push({ ...own, problems });
  }
  const { file, text } = source;
  const given = Object.keys(files).length === 0 ? { source: text, file } : { source: text, file, files };
  return { readings, given };
}

/** Where the relative paths of the first file begin. */
const FIRST_FILE = "./playbook";

function besideOf({ dir, file }: PlaybookSource, path: string) {
  return readBeside(path, { dir, roots: [dir], shown: shownPath(file, path), limit: YAML_LIMITS.bytes + 1 });
}

export function readDocument(yaml: YamlText, tools: PlaybookTools): PlaybookFileReading {
  const { playbook, problems, notes } = readAnyPlaybook(yaml.value, { sha256, tools });
  const located = locateProblems(problems, (path, offset) =>
    offset === null ? yaml.positionOf(path) : yaml.positionIn(path, offset),
  );
  return { file: yaml.file, playbook, problems: located, notes };
}

/** A playbook with a path may use the catalog instead of a file. */
function missing(why: "missing" | "outside", path: string, { path: own }: Playbook, yaml: YamlText): LocatedProblem[] {
  const beside = own === null ? null : catalogPath(own, path);
  const what = why === "missing" ? `file ${path} does not exist` : `${path} is not in the folder of the playbook`;
  const place = onlyMatch(yaml.value, (value) => value === path) ?? [];
  const at = yaml.positionOf(place);
  const shared = { code: "unknown_playbook", path: place, offset: null, ...at } as const;
  if (beside !== null) {
    return [{ ...shared, severity: "warning", message: `${what}; the catalog must have the playbook ${beside}` }];
  }
  const fix = "put it there, or set metadata.path, so that it is searched in the catalog";
  return [{ ...shared, severity: "error", message: `${what}; ${fix}` }];
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** The only document of a file. */
export function onlySource(sources: readonly PlaybookSource[], name: string): PlaybookSource {
  const [source] = sources;
  if (source !== undefined && sources.length === 1) return source;
  throw usageError(`${name}: has ${sources.length} documents; pass a file with one playbook`);
}
