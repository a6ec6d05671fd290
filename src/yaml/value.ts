/** Converts the nodes of a YAML document to a plain value with only what JSON has. Objects have no prototype, so `__proto__`
 *  is a key like any other. Aliases are copied, and the size of the copies is limited: a few nested aliases could otherwise
 *  expand to a billion values. */
import type { Alias, Pair, Scalar, YAMLMap, YAMLSeq } from "yaml";
import { TOO_DEEP, YAML_LIMITS, YamlFault, yaml } from "./scan.ts";

export const NOT_A_TEXT_KEY = "a key must be text; use a plain text as the key";

/** Characters that aliases may add: a kilobyte each. */
const MAX_ADDED = 1_024 * YAML_LIMITS.aliases;
/** The cost of a value besides its text, in characters. */
const VALUE_COST = 16;

/** The offset of a node in the text. */
export function startOf(node: unknown): number | null {
  const { range } = (node ?? {}) as { range?: readonly number[] | null };
  return range?.[0] ?? null;
}

export class YamlValueReader {
  /** The node of each alias: the last anchor of its name before it. Also used to find positions. */
  readonly targets = new Map<Alias, unknown>();
  readonly #anchors = new Map<string, unknown>();
  /** The nodes being converted now. */
  readonly #open = new Set<unknown>();
  /** The outermost alias being converted now. */
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
      throw faulty(alias, `*${alias.source} has no &${alias.source} before it; if it is text, add quotes`);
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
      if (Object.hasOwn(object, key)) throw faulty(pair.key, `duplicate key ${quoted(key)}; keep one`);
      object[key] = this.valueOf(pair.value);
    }
    return object;
  }

  #key({ key }: Pair): string {
    if (!yaml().isScalar(key) || typeof key.value !== "string") {
      throw faulty(key, NOT_A_TEXT_KEY);
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
    if (!Number.isFinite(value)) throw faulty(scalar, `${quoted(source)} is not a JSON number`);
    if (Number.isInteger(value) && !Number.isSafeInteger(value) && !/[.eE]/.test(source)) {
      throw faulty(scalar, `${quoted(source)} is too large to be kept exactly; put it in quotes`);
    }
    return value;
  }

  /** Nodes inside an alias were recorded at its anchor. */
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

function faulty(node: unknown, message: string): YamlFault {
  return new YamlFault(startOf(node) ?? 0, message);
}

function refuse(node: unknown): never {
  throw faulty(node, "not a JSON value; use text, a number, true, false, null, a list or a map");
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 57)}...` : text);
}
