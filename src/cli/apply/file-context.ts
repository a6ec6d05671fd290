/** What a dialect's reader may read beside its document: files of the same folder and, if the folder above has a pack file,
 *  of that folder. Nothing else, by path or link: a downloaded document must not be able to send other files of this
 *  machine. Also finds positions for notes that have none. */
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fieldPath } from "../../core/check.ts";
import { type ConfigError, show } from "../../core/errors.ts";
import type { ReadContext } from "../../dialects/dialect.ts";
import { PACK_FILES } from "../../dialects/registry.ts";
import type { DialectSettings } from "../../dialects/settings.ts";
import type { YamlPath, YamlText } from "../../yaml/read.ts";
import { YAML_LIMITS } from "../../yaml/scan.ts";
import { type CliError, usageError } from "../exit.ts";
import { readBeside } from "../input/files-beside.ts";
import { stepsOf, withQuotes } from "../input/job-file.ts";
import { readYamlBytes, yamlUsageError } from "../input/yaml-file.ts";
import { onlyMatch, shownPath } from "../input/yaml-places.ts";
import type { AnyDocument } from "./documents.ts";

/** A job cannot hold more as base64. */
const MAX_BYTES = 1_048_576;

export interface FileSurroundings {
  readonly settings: DialectSettings;
  readonly parameters: Readonly<Record<string, unknown>>;
  /** All documents given, including this one. */
  readonly documents: readonly AnyDocument[];
  /** Called when a reader requests the parameters. */
  readonly onParameters: () => void;
}

/** The context of a reader; it also maps errors to positions in the document or in a file read beside it. */
export class FileContext {
  readonly context: ReadContext;
  readonly #document: AnyDocument;
  readonly #beside = new Map<string, YamlText>();

  constructor(document: AnyDocument, { settings, parameters, documents, onParameters }: FileSurroundings) {
    this.#document = document;
    this.context = {
      settings,
      get parameters() {
        onParameters();
        return parameters;
      },
      documents: documents.filter((each) => each !== document).map(({ yaml }) => yaml.value),
      yaml: (path) => this.#yaml(path),
      bytes: (path) => this.#bytes(path, MAX_BYTES + 1),
      file: document.yaml.file,
      randomBytes: (count) => randomBytes(count),
    };
  }

  errorAt(error: ConfigError): CliError {
    const path = error.path ?? "";
    for (const [name, yaml] of this.#beside) {
      if (!path.startsWith(name)) continue;
      const rest = path.slice(name.length).replace(/^\./, "");
      const whole = withQuotes(error);
      const message = whole.startsWith(name) ? whole.slice(name.length).replace(/^\./, "") : whole;
      return yamlUsageError(yaml, stepsOf(rest), message.replace(/^: /, ""));
    }
    return yamlUsageError(this.#document.yaml, stepsOf(path), withQuotes(error));
  }

  /** A note with its position, if that is known. */
  noteAt(note: string): string {
    for (const [name, yaml] of this.#beside) {
      if (note.startsWith(name)) return placedNote(yaml, note.slice(name.length).replace(/^\./, ""));
    }
    return placedNote(this.#document.yaml, note);
  }

  #yaml(path: string): unknown | null {
    const bytes = this.#bytes(path, YAML_LIMITS.bytes + 1);
    if (bytes === null) return null;
    const yaml = readYamlBytes(bytes, shownPath(this.#document.yaml.file, path));
    this.#beside.set(path, yaml);
    // An empty file exists; its missing fields are reported.
    return yaml.value ?? {};
  }

  #bytes(path: string, limit: number): Buffer | null {
    const { dir } = this.#document;
    const above = join(dir, "..");
    const isPack = PACK_FILES.some((name) => existsSync(join(above, name)));
    const shown = shownPath(this.#document.yaml.file, path);
    const found = readBeside(path, { dir, roots: [dir, ...(isPack ? [above] : [])], shown, limit });
    if (found === "outside") throw this.#leadsOut(path);
    return found === "missing" ? null : found.bytes;
  }

  /** Readers request files by path, not by field: the field is the one that contains this path, or its end. */
  #leadsOut(path: string): CliError {
    const { yaml } = this.#document;
    const isEnd = (value: unknown) => typeof value === "string" && value !== "" && path.endsWith(`/${value}`);
    const field = onlyMatch(yaml.value, (value) => value === path) ?? onlyMatch(yaml.value, isEnd);
    const message = `${show(path)} is not in the folder of the file that names it; put it there`;
    return field === null
      ? usageError(`${yaml.file}: ${message}`)
      : yamlUsageError(yaml, field, `${pathOf(field)}: ${message}`);
  }
}

// Finds positions for notes without a path of their own: by the path at the beginning of the note, or by text that occurs in
// only one field. If that is ambiguous there is no position: a wrong one would be worse.

const LEADING = /^[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*|\[\d+\]|\["(?:[^"\\]|\\.)*"\])*(?=[: ])/;

/** `job.yaml:3:5: resources.disk is ignored: …` */
function placedNote(yaml: YamlText, note: string): string {
  const [path = null] = LEADING.exec(note) ?? [];
  const isThere = path !== null && yaml.find(stepsOf(path)) !== null;
  return `${isThere ? yaml.where(stepsOf(path)) : yaml.file}: ${note}`;
}

/** The path as errors show it: `jobs[2].input["a b"]`. */
function pathOf(steps: YamlPath): string {
  return steps.reduce<string>(
    (path, step) => (typeof step === "number" ? `${path}[${step}]` : fieldPath(path, step)),
    "",
  );
}
