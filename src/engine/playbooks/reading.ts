/** Reads playbooks from texts and objects, with the files that their steps refer to. What was read is cached by its text, as a
 *  program may start runs of one text many times. The format is known to the reader that the engine is given. */
import { createHash } from "node:crypto";
import type { PlaybookDocument, PlaybookText } from "../../core/api/playbooks.ts";
import { ConfigError } from "../../core/errors.ts";
import { catalogPath, isRelative, pathFrom, withPaths } from "../../core/playbook/paths.ts";
import type { Playbook } from "../../core/playbook/playbook.ts";
import { invalidPlaybook } from "../../core/playbook/playbook-errors.ts";
import { problemText } from "../../core/playbook/problem-text.ts";
import { ByteCache } from "../../lib/byte-cache.ts";
import { type EventLoop, nextTurn } from "../../lib/clock.ts";
import type { PlaybookReader, PlaybookReading } from "../parts.ts";

/** A text and the playbooks in its files, with paths that are the same everywhere. */
export interface CompiledPlaybooks {
  readonly root: Playbook;
  /** By path from the first file. */
  readonly files: ReadonlyMap<string, Playbook>;
  /** Code by its hash. */
  readonly assets: ReadonlyMap<string, string>;
}

const CACHE_BYTES = 16_777_216;
/** A reading is larger than its text. */
const PER_CHARACTER = 8;

export class PlaybookReadings {
  readonly #reader: PlaybookReader | undefined;
  readonly #loop: Pick<EventLoop, "turn">;
  readonly #cache = new ByteCache<string, PlaybookReading>(CACHE_BYTES);

  constructor(reader: PlaybookReader | undefined, loop: Pick<EventLoop, "turn">) {
    this.#reader = reader;
    this.#loop = loop;
  }

  read(given: PlaybookText | PlaybookDocument): PlaybookReading {
    const reader = this.#reader;
    if (reader === undefined) throw new Error("this engine was opened without a reader of playbooks");
    const isText = isPlaybookText(given);
    const text = isText ? given.source : JSON.stringify(given);
    const file = isText ? (given.file ?? null) : null;
    const key = `${sha256(text)} ${isText} ${file}`;
    let reading = this.#cache.get(key);
    if (reading === undefined) {
      reading = isText ? reader({ source: text, ...(file === null ? {} : { file }) }) : reader({ document: given });
      this.#cache.set(key, reading, text.length * PER_CHARACTER);
    }
    return reading;
  }

  /** Throws `invalid_playbook` with the problems of all files. `path`: instead of the playbook's own. Each file is read in a turn
   *  of its own, as a large one takes a fraction of a second. */
  async compile(given: PlaybookText | PlaybookDocument, path?: string): Promise<CompiledPlaybooks> {
    checkSize(given);
    const texts = new Map(Object.entries(filesOf(given)).map(([name, text]) => [fileName(name), text]));
    const files = new Map<string, Playbook>();
    const assets = new Map<string, string>();
    const problems: string[] = [];
    const waiting = new Set<string>();

    const take = (
      reading: PlaybookReading,
      file: string,
      label: string | null,
      own: string | null,
    ): Playbook | null => {
      const errors = reading.problems.filter(({ severity }) => severity === "error");
      problems.push(...errors.map((problem) => problemText(problem, label ?? "playbook")));
      for (const [hash, code] of reading.assets) assets.set(hash, code);
      if (reading.playbook === null) return null;
      const named = own === null ? reading.playbook : { ...reading.playbook, path: own };
      return withPaths(named, (relative) => {
        const from = pathFrom(file, relative);
        if (from !== null && texts.has(from)) {
          waiting.add(from);
          return from;
        }
        const beside = named.path === null ? null : catalogPath(named.path, relative);
        if (beside !== null) return beside;
        problems.push(
          `${label === null ? "" : `${label}: `}the file ${relative}, which a step refers to, was not passed`,
        );
        return relative;
      });
    };

    const label = isPlaybookText(given) ? (given.file ?? null) : null;
    const root = take(this.read(given), FIRST_FILE, label, path ?? null);
    // A set visits what is added meanwhile, so files may refer to each other.
    for (const file of waiting) {
      await nextTurn(this.#loop);
      const playbook = take(this.read({ source: texts.get(file) as string, file }), file, file, null);
      if (playbook !== null) files.set(file, playbook);
    }
    if (problems.length > 0 || root === null) throw invalidPlaybook(problems);
    return { root, files, assets };
  }
}

/** Of a playbook with the files that its steps refer to, together. */
const MAX_CHARS = 1_048_576;
const MAX_FILES = 100;

function checkSize(given: PlaybookText | PlaybookDocument): void {
  const texts = Object.values(filesOf(given));
  if (texts.length > MAX_FILES) {
    throw new ConfigError({ path: "playbook.files", given: texts.length, allowed: `at most ${MAX_FILES} files` });
  }
  const chars = texts.reduce((sum, { length }) => sum + length, isPlaybookText(given) ? given.source.length : 0);
  if (chars <= MAX_CHARS) return;
  const problem = `the texts have ${chars} characters together; at most ${MAX_CHARS} are allowed`;
  throw new ConfigError({ path: "playbook", given: chars, problem, fix: "push the parts to the catalog" });
}

/** Where relative paths of the first file begin. */
const FIRST_FILE = "./playbook";

export function isPlaybookText(given: PlaybookText | PlaybookDocument): given is PlaybookText {
  return typeof given.source === "string" && !("workflow" in given);
}

function filesOf(given: PlaybookText | PlaybookDocument): Readonly<Record<string, string>> {
  return isPlaybookText(given) ? (given.files ?? {}) : {};
}

function fileName(name: string): string {
  const path = pathFrom(FIRST_FILE, isRelative(name) ? name : `./${name}`);
  if (path !== null) return path;
  throw new ConfigError({ path: "playbook.files", given: name, allowed: "paths within the folder of the playbook" });
}

export function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
