/** A copy of a document as plain JSON, within limits, so that the reader works on own data only: no getters, no cycles, and no
 *  document that grows when its aliases are written out. */
import { isPlain } from "../check.ts";
import type { DocumentReading } from "./reading.ts";

const DOCUMENT_LIMITS = {
  /** Objects, lists and single values. */
  values: 200_000,
  /** Of all texts and keys. */
  characters: 4_194_304,
  depth: 64,
} as const;

/** Null, with a problem, for a document that is over a limit or cannot be read. Parts that are not JSON become null, with a problem
 *  each. */
export function plainDocument(
  document: unknown,
  reading: Pick<DocumentReading, "error">,
): { readonly value: unknown } | null {
  const left = { values: DOCUMENT_LIMITS.values, characters: DOCUMENT_LIMITS.characters };
  const path: (string | number)[] = [];

  const text = (value: string): string => {
    left.characters -= value.length;
    if (left.characters < 0) throw new TooLarge(`over ${DOCUMENT_LIMITS.characters} characters`);
    return value;
  };
  const inside = <T>(step: string | number, copy: () => T): T => {
    path.push(step);
    const copied = copy();
    path.pop();
    return copied;
  };
  const copy = (value: unknown): unknown => {
    left.values -= 1;
    if (left.values < 0) throw new TooLarge(`over ${DOCUMENT_LIMITS.values} values, aliases written out`);
    if (path.length > DOCUMENT_LIMITS.depth)
      throw new TooLarge(`nested more than ${DOCUMENT_LIMITS.depth} levels deep`);
    if (typeof value === "string") return text(value);
    if (value === null || typeof value === "boolean") return value;
    if (typeof value === "number" && Number.isFinite(value)) return value;
    if (Array.isArray(value)) {
      if (value.length > left.values) throw new TooLarge(`over ${DOCUMENT_LIMITS.values} values`);
      return Array.from({ length: value.length }, (_, index) => inside(index, () => copy(own(value, index))));
    }
    if (isPlain(value)) {
      const keys = Object.keys(value).filter((key) => own(value, key) !== undefined);
      return Object.fromEntries(keys.map((key) => [text(key), inside(key, () => copy(own(value, key)))]));
    }
    reading.error("invalid_value", [...path], `a ${value === undefined ? "missing value" : typeof value} is not JSON`);
    return null;
  };

  try {
    return { value: copy(document) };
  } catch (error) {
    if (error instanceof TooLarge) reading.error("too_large", [], `the document is ${error.message}`);
    // From a Proxy: even its message may run code.
    else reading.error("not_a_playbook", [], "the document cannot be read as JSON");
    return null;
  }
}

class TooLarge extends Error {}

function own(object: object, key: string | number): unknown {
  return Object.getOwnPropertyDescriptor(object, key)?.value;
}
