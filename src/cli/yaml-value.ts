/** From the nodes of a YAML document to a plain value: what JSON has, and nothing else. Objects have no prototype, so
 *  `__proto__` is a key like any other. Aliases are copies, and what they add is bounded: a few that name each other
 *  would otherwise be a billion values. */
import type { Alias, Pair, Scalar, YAMLMap, YAMLSeq } from "yaml";
import { yaml } from "./yaml-library.ts";
import { Faulty, TOO_DEEP, YAML_LIMITS } from "./yaml-scan.ts";

/** Characters that aliases may add: a kilobyte for each of them. */
const MAX_ADDED = 1_024 * YAML_LIMITS.aliases;
/** What a value costs besides its text, in characters. */
const VALUE_COST = 16;

/** Where a node begins in the text. */
export function startOf(node: unknown): number | null {
  const { range } = (node ?? {}) as { range?: readonly number[] | null };
  return range?.[0] ?? null;
}

export class Valuer {
  /** What an alias stands for: the last anchor of its name before it. Also for who looks for positions later. */
  readonly targets = new Map<Alias, unknown>();
  readonly #anchors = new Map<string, unknown>();
  /** Those that we are inside of. */
  readonly #open = new Set<unknown>();
  /** The outermost alias that we are inside of. */
  #alias: Alias | null = null;
  #added = 0;

  valueOf(node: unknown): unknown {
    if (node === null || node === undefined) return null;
    const { isAlias, isMap, isScalar, isSeq } = yaml();
    if (isAlias(node)) return this.#copied(node);
    this.#note(node);
    if (isScalar(node)) return this.#scalar(node);
    if (this.#open.size >= YAML_LIMITS.depth) throw faulty(node, TOO_DEEP);
    this.#open.add(node);
    const value = isMap(node) ? this.#object(node) : isSeq(node) ? this.#list(node) : refuse(node);
    this.#open.delete(node);
    return value;
  }

  #copied(alias: Alias): unknown {
    const target = this.targets.get(alias) ?? this.#anchors.get(alias.source);
    if (target === undefined) {
      throw faulty(alias, `*${alias.source} names nothing: there is no &${alias.source} before it; add quotes?`);
    }
    this.targets.set(alias, target);
    if (this.#open.has(target)) throw faulty(alias, `*${alias.source} contains itself; write the value out`);
    const outer = this.#alias;
    this.#alias ??= alias;
    const value = this.valueOf(target);
    this.#alias = outer;
    return value;
  }

  #object(map: YAMLMap): object {
    const object: Record<string, unknown> = Object.create(null);
    for (const pair of map.items) {
      const key = this.#key(pair);
      if (Object.hasOwn(object, key)) throw faulty(pair.key, `the key ${quoted(key)} is there twice; keep one`);
      object[key] = this.valueOf(pair.value);
    }
    return object;
  }

  #key({ key }: Pair): string {
    if (!yaml().isScalar(key) || typeof key.value !== "string") {
      throw faulty(key, "a key that is no text; give a plain text as the key");
    }
    this.#note(key);
    if (key.value === "<<" && key.type === "PLAIN") {
      throw faulty(key, "merge keys (<<) are not read; write the keys out");
    }
    this.#count(key.value.length);
    return key.value;
  }

  #list(seq: YAMLSeq): unknown[] {
    return seq.items.map((item) => this.valueOf(item));
  }

  #scalar(scalar: Scalar): string | number | boolean | null {
    const { value, source = "" } = scalar;
    if (typeof value === "string") {
      this.#count(value.length);
      return value;
    }
    if (value === null || typeof value === "boolean") return value;
    if (typeof value !== "number") return refuse(scalar);
    if (!Number.isFinite(value)) throw faulty(scalar, `${quoted(source)} is no number that JSON has`);
    if (Number.isInteger(value) && !Number.isSafeInteger(value) && !/[.eE]/.test(source)) {
      throw faulty(scalar, `${quoted(source)} is too large to be kept exactly; put it in quotes`);
    }
    return value;
  }

  /** Inside an alias all was noted before, at its anchor. */
  #note(node: unknown): void {
    const { anchor } = node as { anchor?: string };
    if (this.#alias !== null) this.#count(VALUE_COST);
    else if (anchor !== undefined) this.#anchors.set(anchor, node);
  }

  #count(more: number): void {
    if (this.#alias === null) return;
    this.#added += more;
    if (this.#added <= MAX_ADDED) return;
    throw faulty(this.#alias, "aliases (*name) make too much of the file; write the values out");
  }
}

function faulty(node: unknown, message: string): Faulty {
  return new Faulty(startOf(node) ?? 0, message);
}

function refuse(node: unknown): never {
  throw faulty(node, "a value that JSON does not have; give text, a number, true, false, null, a list or a map");
}

export function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 57)}...` : text);
}
