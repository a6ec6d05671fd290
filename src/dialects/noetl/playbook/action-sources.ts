/** Where the fields of an action stand in the document, so that problems of their templates have the right line. A field may be in
 *  the tool, or in the step around it, and has several names. */
import { isPlain } from "../../../core/check.ts";
import type { SourcePath } from "../../../core/playbook/problem.ts";
import type { Raw } from "./draft.ts";

const NAMES: Readonly<Record<string, readonly string[]>> = {
  command: ["command", "cmds", "commands", "command_b64", "query", "sql"],
  connection: ["connection", "auth", "credential"],
  path: ["path", "playbook"],
  env: ["env"],
  cwd: ["cwd"],
  "request.url": ["url", "endpoint", "uri"],
  "request.method": ["method"],
  "request.headers": ["headers"],
  "request.params": ["params"],
  "request.body": ["body", "payload", "data"],
};
const DATA = ["args", "with", "input", "payload", "data"];

/** `places`: the paths of the objects that may have its fields, the one that counts most first. */
export function actionSources(
  document: unknown,
  sources: Map<string, SourcePath>,
  key: string,
  places: readonly SourcePath[],
): void {
  const objects = places.flatMap((path): [Raw, SourcePath][] => {
    const value = valueAt(document, path);
    return isPlain(value) ? [[value as Raw, path]] : [];
  });
  for (const [field, names] of Object.entries(NAMES)) {
    const found = objects.flatMap(([fields, path]) => {
      return names.flatMap((name) => (fields[name] === undefined ? [] : [[...path, name]]));
    })[0];
    if (found !== undefined) sources.set(`${key}.${field}`, found);
  }
  for (const [fields, path] of objects.toReversed()) {
    for (const name of DATA.toReversed()) {
      const data = fields[name];
      if (!isPlain(data)) continue;
      for (const each of Object.keys(data)) sources.set(`${key}.data.${each}`, [...path, name, each]);
    }
  }
}

export function valueAt(document: unknown, path: SourcePath): unknown {
  return path.reduce<unknown>((value, part) => {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
    return (value as Record<string | number, unknown>)[part];
  }, document);
}
