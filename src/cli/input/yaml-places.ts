/** Finds the place of a value in a document, and the path of a file beside it for messages. */
import { dirname, join } from "node:path";
import { isPlain } from "../../core/check.ts";
import type { YamlPath } from "../../yaml/read.ts";

export function shownPath(file: string, path: string): string {
  return file === "stdin" ? path : join(dirname(file), path);
}

/** The path to the only matching part of a value; null if none or several match. `key` is null in a list. */
export function onlyMatch(value: unknown, fits: (value: unknown, key: string | null) => boolean): YamlPath | null {
  const found = partsOf(value, fits, []);
  const { value: only } = found.next();
  return only !== undefined && found.next().done ? only : null;
}

function* partsOf(
  value: unknown,
  fits: (value: unknown, key: string | null) => boolean,
  path: YamlPath,
): Generator<YamlPath, undefined> {
  const isList = Array.isArray(value);
  if (!isList && !isPlain(value)) return;
  for (const [key, each] of Object.entries(value)) {
    const at = [...path, isList ? Number(key) : key];
    if (fits(each, isList ? null : key)) yield at;
    yield* partsOf(each, fits, at);
  }
}
