/** The definitions of runs: stored once by the hash of their compiled form, cached here by it, and found in the catalog by
 *  path. A run is pinned to hashes when it is submitted: its own, and those of the playbooks that its steps name by a fixed path,
 *  also through others. Paths with templates are searched when their step starts. */
import type {
  LocatedProblem,
  PlaybookInfo,
  PlaybookInput,
  PlaybookSummary,
  PlaybookVersion,
  PushOptions,
  ValidationAnswer,
} from "../../core/api/playbooks.ts";
import { parsePlaybookPath } from "../../core/api/playbooks.ts";
import type { PageOptions } from "../../core/api/queues.ts";
import { ConfigError, PerdureError } from "../../core/errors.ts";
import { fixedPaths, inlinePlaybooks, isRelative } from "../../core/playbook/paths.ts";
import { PLAYBOOK_FORMAT, type Playbook } from "../../core/playbook/playbook.ts";
import { invalidPlaybook, playbookNotFound } from "../../core/playbook/playbook-errors.ts";
import type { GraphFormat } from "../../core/run/graph-format.ts";
import { graphText } from "../../core/run/graph-text.ts";
import type { FoundPlaybook } from "../../core/run/plan.ts";
import { ByteCache } from "../../lib/byte-cache.ts";
import type { Asset, CatalogEntry, PlaybookBody, RunStore } from "../../store/store.ts";
import type { EngineParts } from "../parts.ts";
import { type CompiledPlaybooks, isPlaybookText, PlaybookReadings, sha256 } from "./reading.ts";

/** What a run is started from. */
export interface Definition {
  readonly hash: string;
  readonly playbook: Playbook;
  /** In the catalog; null for a text. */
  readonly version: number | null;
  readonly pins: Readonly<Record<string, string>>;
}

const CACHE_BYTES = 33_554_432;
/** A parsed definition is larger than its JSON. */
const PER_CHARACTER = 4;
const MAX_PINS = 1_000;
const MAX_LISTED = 200;
/** A definition that nothing names is deleted after an hour, so what was stored long ago is stored again. */
const STORED_FOR_MS = 600_000;
const MAX_STORED = 10_000;
const NOWHERE = { path: [], offset: null, line: null, column: null };

export class Playbooks {
  readonly #parts: EngineParts;
  readonly #readings: PlaybookReadings;
  readonly #parsed = new ByteCache<string, Playbook>(CACHE_BYTES);
  readonly #hashes = new WeakMap<Playbook, PlaybookBody>();
  readonly #storedAt = new Map<string, number>();
  /** Calls to the store in progress: a thousand runs that start at once need one of each. */
  readonly #calls = new Map<string, Promise<unknown>>();

  constructor(parts: EngineParts) {
    this.#parts = parts;
    this.#readings = new PlaybookReadings(parts.readPlaybook, parts.clock);
  }

  get #runs(): RunStore {
    return this.#parts.store.runs;
  }

  // The catalog.

  async validate(namespace: string, given: PlaybookInput): Promise<ValidationAnswer> {
    if (typeof given === "string") {
      const { playbook } = await this.definition(namespace, given);
      return { ok: true, problems: [], notes: [], playbook: this.#summary(playbook) };
    }
    const { playbook, problems, notes } = this.#readings.read(given);
    const all = playbook === null ? problems : [...problems, ...(await this.#missing(namespace, given))];
    const isOk = !all.some(({ severity }) => severity === "error");
    return { ok: isOk, problems: all, notes, playbook: isOk && playbook !== null ? this.#summary(playbook) : null };
  }

  async push(
    namespace: string,
    given: Exclude<PlaybookInput, string>,
    { path }: PushOptions,
    by: string | null,
  ): Promise<PlaybookVersion> {
    if (isPlaybookText(given) && given.files !== undefined) {
      const fix = "push each file by itself; a relative path is searched beside the playbook's own path";
      throw new ConfigError({ path: "pushPlaybook.files", given: "files", problem: "cannot be pushed", fix });
    }
    const own = path ?? this.#readings.read(given).playbook?.path ?? null;
    if (own === null && this.#readings.read(given).playbook !== null) {
      const problem = "the playbook has no path";
      throw new ConfigError({ path: "pushPlaybook.path", given: path, problem, fix: "pass one, or set metadata.path" });
    }
    const { path: plain, version } = parsePlaybookPath(own ?? "unnamed");
    if (version !== null) {
      const allowed = "a path without a version: the catalog counts them";
      throw new ConfigError({ path: "pushPlaybook.path", given: own, allowed });
    }
    const compiled = await this.#readings.compile(given, plain);
    const hash = await this.#save(compiled);
    const source = isPlaybookText(given) ? given.source : JSON.stringify(given, null, 2);
    const at = this.#parts.clock.now();
    const entry = { namespace, path: plain, playbook: hash, source, at, by };
    const pushed = await this.#runs.push(entry);
    this.#calls.clear(); // what began before it may not see it
    return versionOf(pushed);
  }

  async list(namespace: string, { after, limit = MAX_LISTED }: PageOptions = {}): Promise<PlaybookVersion[]> {
    const entries = await this.#runs.catalog({ namespace, after: after ?? null, limit: Math.min(limit, MAX_LISTED) });
    return entries.map(versionOf);
  }

  async get(namespace: string, text: string, version: number | null = null): Promise<PlaybookInfo> {
    const parsed = parsePlaybookPath(text);
    const entry = await this.#entry(namespace, parsed.path, version ?? parsed.version);
    const versions = (await this.#runs.versions(namespace, parsed.path)).map(versionOf);
    versions.sort((a, b) => b.version - a.version);
    const summary = this.#summary(await this.load(entry.playbook));
    return { ...versionOf(entry), source: entry.source, summary, versions };
  }

  async remove(namespace: string, text: string, version: number | null = null): Promise<number> {
    const parsed = parsePlaybookPath(text);
    const removed = await this.#runs.remove(namespace, parsed.path, version ?? parsed.version);
    this.#calls.clear();
    if (removed === 0) throw playbookNotFound(parsed.path, version ?? parsed.version);
    return removed;
  }

  /** Throws `invalid_playbook` or `playbook_not_found`. */
  async graph(namespace: string, given: PlaybookInput, format: GraphFormat): Promise<string> {
    if (typeof given !== "string") return graphText((await this.#readings.compile(given)).root, format);
    const { path, version } = parsePlaybookPath(given);
    return graphText(await this.load((await this.#entry(namespace, path, version)).playbook), format);
  }

  // Definitions of runs.

  /** Stores a text, and pins what its steps name. Throws `invalid_playbook` or `playbook_not_found`. */
  async definition(namespace: string, given: PlaybookInput): Promise<Definition> {
    if (typeof given === "string") {
      const { path, version } = parsePlaybookPath(given);
      const entry = await this.#entry(namespace, path, version);
      const playbook = await this.load(entry.playbook);
      const pins = await this.#pins(namespace, playbook, {});
      await this.#keep(playbook);
      return { hash: entry.playbook, playbook, version: entry.version, pins };
    }
    const compiled = await this.#readings.compile(given);
    const hash = await this.#save(compiled);
    const files: Record<string, string> = {};
    for (const [path, playbook] of compiled.files) files[path] = this.#body(playbook).hash;
    const pins = await this.#pins(namespace, compiled.root, files);
    return { hash, playbook: compiled.root, version: null, pins };
  }

  /** A definition by its hash. Of the same object its graph and its templates are parsed once. */
  async load(hash: string): Promise<Playbook> {
    const known = this.#parsed.get(hash);
    if (known !== undefined) return known;
    const [body] = await this.#shared(`body ${hash}`, () => this.#runs.playbooks([hash]));
    if (body == null) throw new Error(`definition ${hash} is not stored`);
    const parsed = this.#parsed.get(hash); // meanwhile
    if (parsed !== undefined) return parsed;
    const playbook = JSON.parse(body) as Playbook;
    if ((playbook.format as number) > PLAYBOOK_FORMAT) {
      const message = `definition ${hash} was written by a newer version of Perdure`;
      throw new PerdureError("store_newer", message);
    }
    this.#parsed.set(hash, playbook, body.length * PER_CHARACTER);
    this.#hashes.set(playbook, { hash, body });
    return playbook;
  }

  /** The playbook that a step of a run names by this path; `#INDEX` is the one within the step of this index. Null if it does not
   *  exist. */
  async find(
    namespace: string,
    of: { readonly playbook: Playbook; readonly pins: Readonly<Record<string, string>> },
    path: string,
  ): Promise<FoundPlaybook | null> {
    const pinned = shared(of.pins);
    if (path.startsWith("#")) {
      const action = of.playbook.steps[Number(path.slice(1))]?.action;
      const inline = action?.type === "playbook" ? action.inline : null;
      if (inline === null) return null;
      await this.#store([inline], new Map());
      return { hash: this.#body(inline).hash, playbook: inline, pins: { ...pinned, ...this.#inlinePins(inline) } };
    }
    const known = pinOf(of.pins, path);
    const hash = known ?? (await this.#latest(namespace, path));
    if (hash === null) return null;
    const playbook = await this.load(hash);
    const pins = known === undefined ? await this.#pins(namespace, playbook, pinned) : pinned;
    await this.#keep(playbook);
    return { hash, playbook, pins: { ...pins, ...this.#inlinePins(playbook) } };
  }

  async #latest(namespace: string, text: string): Promise<string | null> {
    try {
      const { path, version } = parsePlaybookPath(text);
      return (await this.#find(namespace, path, version))?.playbook ?? null;
    } catch (error) {
      if (error instanceof ConfigError) return null; // a template may give anything
      throw error;
    }
  }

  #find(namespace: string, path: string, version: number | null): Promise<CatalogEntry | null> {
    const key = JSON.stringify([namespace, path, version]);
    return this.#shared(key, () => this.#runs.catalogEntry(namespace, path, version));
  }

  /** Joins a call in progress. */
  #shared<T>(key: string, call: () => Promise<T>): Promise<T> {
    const running = this.#calls.get(key) as Promise<T> | undefined;
    if (running !== undefined) return running;
    const started = call().finally(() => {
      if (this.#calls.get(key) === started) this.#calls.delete(key);
    });
    this.#calls.set(key, started);
    return started;
  }

  async #entry(namespace: string, path: string, version: number | null): Promise<CatalogEntry> {
    const entry = await this.#find(namespace, path, version);
    if (entry === null) throw playbookNotFound(path, version);
    return entry;
  }

  /** Paths of a text that the catalog does not have, as warnings: they may be pushed before it is started. */
  async #missing(namespace: string, given: Exclude<PlaybookInput, string>): Promise<LocatedProblem[]> {
    let compiled: CompiledPlaybooks;
    try {
      compiled = await this.#readings.compile(given);
    } catch (error) {
      if (!(error instanceof PerdureError)) throw error;
      const message = error.message.split("\n").slice(1).join("; ");
      return [{ code: "unknown_playbook", severity: "error", ...NOWHERE, message }];
    }
    const paths = [compiled.root, ...compiled.files.values()].flatMap(fixedPaths);
    const missing: LocatedProblem[] = [];
    for (const path of new Set(paths)) {
      if (compiled.files.has(path) || (await this.#latest(namespace, path)) !== null) continue;
      const message = `the catalog has no playbook ${path} yet`;
      missing.push({ code: "unknown_playbook", severity: "warning", ...NOWHERE, message });
    }
    return missing;
  }

  /** `known`: definitions of files, and of a run above. */
  async #pins(
    namespace: string,
    root: Playbook,
    known: Readonly<Record<string, string>>,
  ): Promise<Readonly<Record<string, string>>> {
    const pins: Record<string, string> = { ...known };
    const seen = new Set<string>();
    const waiting = [root];
    for (let playbook = waiting.pop(); playbook !== undefined; playbook = waiting.pop()) {
      for (const path of fixedPaths(playbook)) {
        if (seen.has(path)) continue;
        seen.add(path);
        if (seen.size > MAX_PINS) throw invalidPlaybook([`its steps name more than ${MAX_PINS} other playbooks`]);
        const hash = pinOf(pins, path) ?? (isRelative(path) ? null : await this.#latest(namespace, path));
        if (hash === null) throw playbookNotFound(path);
        pins[path] = hash;
        waiting.push(await this.load(hash));
      }
    }
    return { ...pins, ...this.#inlinePins(root) };
  }

  /** Those within a playbook have a number instead of a path; each run below has its own. */
  #inlinePins(playbook: Playbook): Record<string, string> {
    const pins: Record<string, string> = {};
    for (const [index, inline] of inlinePlaybooks(playbook)) pins[`#${index}`] = this.#body(inline).hash;
    return pins;
  }

  /** Returns the hash of the first. */
  async #save({ root, files, assets }: CompiledPlaybooks): Promise<string> {
    await this.#store([root, ...files.values()], assets);
    return this.#body(root).hash;
  }

  /** Those within a stored playbook are named by no catalog entry, so they may have been deleted since. */
  async #keep(playbook: Playbook): Promise<void> {
    const inline = inlinePlaybooks(playbook).map(([, each]) => each);
    if (inline.length > 0) await this.#store(inline, new Map());
  }

  async #store(playbooks: readonly Playbook[], code: ReadonlyMap<string, string>): Promise<void> {
    const now = this.#parts.clock.now();
    const bodies = new Map<string, PlaybookBody>();
    const waiting = [...playbooks];
    for (let playbook = waiting.pop(); playbook !== undefined; playbook = waiting.pop()) {
      const body = this.#body(playbook);
      const storedAt = this.#storedAt.get(body.hash);
      if (storedAt !== undefined && now - storedAt < STORED_FOR_MS) continue;
      bodies.set(body.hash, body);
      for (const [, inline] of inlinePlaybooks(playbook)) waiting.push(inline);
    }
    if (bodies.size === 0) return;
    const assets: Asset[] = [...code].map(([hash, text]) => ({ hash, body: new TextEncoder().encode(text) }));
    const key = `save ${[...bodies.keys()].sort().join(" ")}`;
    await this.#shared(key, () => this.#runs.savePlaybooks([...bodies.values()], assets, now));
    if (this.#storedAt.size > MAX_STORED) this.#storedAt.clear();
    for (const hash of bodies.keys()) this.#storedAt.set(hash, now);
  }

  #body(playbook: Playbook): PlaybookBody {
    let known = this.#hashes.get(playbook);
    if (known === undefined) {
      const body = JSON.stringify(playbook);
      known = { hash: sha256(body), body };
      this.#hashes.set(playbook, known);
    }
    return known;
  }

  #summary(playbook: Playbook): PlaybookSummary {
    const { name, path, description, inputs } = playbook;
    const steps = playbook.steps.map((step) => ({ name: step.name, type: step.action?.type ?? null }));
    return { name, path, description, hash: this.#body(playbook).hash, inputs, steps };
  }
}

/** A path may be called `constructor`. */
function pinOf(pins: Readonly<Record<string, string>>, path: string): string | undefined {
  return Object.hasOwn(pins, path) ? pins[path] : undefined;
}

/** Without those that belong to one definition. */
function shared(pins: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const names = Object.keys(pins);
  if (!names.some((name) => name.startsWith("#"))) return pins;
  return Object.fromEntries(Object.entries(pins).filter(([name]) => !name.startsWith("#")));
}

function versionOf({ path, version, playbook, at, by }: CatalogEntry): PlaybookVersion {
  return { path, version, hash: playbook, at, by };
}
