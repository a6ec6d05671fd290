/** Where something stands that a reader tells without a path of its own: a note, which begins with one; a text that only one
 *  field of the document has. What cannot be found has no place: a wrong one is worse than none. */
import { fieldPath, isPlain } from "../../core/check.ts";
import { stepsOf } from "../job-file.ts";
import type { Path, YamlText } from "../yaml.ts";

const LEADING = /^[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*|\[\d+\]|\["(?:[^"\\]|\\.)*"\])*(?=[: ])/;

/** `job.yaml:3:5: resources.disk is ignored: …` */
export function placedNote(yaml: YamlText, note: string): string {
  const [path = null] = LEADING.exec(note) ?? [];
  const isThere = path !== null && yaml.find(stepsOf(path)) !== null;
  return `${isThere ? yaml.where(stepsOf(path)) : yaml.file}: ${note}`;
}

/** The way to the one part of a value that fits; null where none does, or more than one. `key` is null in a list. */
export function onlyPart(value: unknown, fits: (value: unknown, key: string | null) => boolean): Path | null {
  const found = partsOf(value, fits, []);
  const { value: only } = found.next();
  return only !== undefined && found.next().done ? only : null;
}

function* partsOf(
  value: unknown,
  fits: (value: unknown, key: string | null) => boolean,
  path: Path,
): Generator<Path, undefined> {
  const isList = Array.isArray(value);
  if (!isList && !isPlain(value)) return;
  for (const [key, each] of Object.entries(value)) {
    const at = [...path, isList ? Number(key) : key];
    if (fits(each, isList ? null : key)) yield at;
    yield* partsOf(each, fits, at);
  }
}

/** As errors name it: `jobs[2].input["a b"]`. */
export function pathOf(steps: Path): string {
  return steps.reduce<string>(
    (path, step) => (typeof step === "number" ? `${path}[${step}]` : fieldPath(path, step)),
    "",
  );
}
