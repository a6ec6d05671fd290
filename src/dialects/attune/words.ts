/** What actions and packs of Attune say alike. */
import { asObject, asText, type Fields, fieldPath } from "../../core/check.ts";
import { ConfigError } from "../../core/errors.ts";

/** The annotation that holds the name of the action, with its pack's before it. */
export const ACTION = "attune/action";

const MAX_LABELS = 10;
/** Labels that mean something of their own to workers here. */
const RESERVED = /^(runtime|resource)\//;

/** `worker_selector`: labels that a worker must have, letter by letter. */
export function readSelector(value: unknown, path: string): Record<string, string> {
  const at = fieldPath(path, "worker_selector");
  const entries = Object.entries(asObject(value, at));
  if (entries.length > MAX_LABELS) {
    throw new ConfigError({ path: at, given: entries.length, allowed: `at most ${MAX_LABELS} labels` });
  }
  const labels: Record<string, string> = Object.create(null);
  for (const [name, text] of entries) {
    const where = fieldPath(at, name);
    if (RESERVED.test(name)) {
      throw new ConfigError({
        path: where,
        given: name,
        allowed: "names that do not begin with runtime/ or resource/",
      });
    }
    labels[asText(name, where, 200)] = asText(text, where, 200);
  }
  return labels;
}

/** One sentence for each key that was given and is not followed. */
export function notedKeys(fields: Fields<string>, noted: Readonly<Record<string, string>>, path: string): string[] {
  return Object.entries(noted)
    .filter(([key]) => fields[key] !== undefined)
    .map(([key, why]) => `${fieldPath(path, key)}: ${why}`);
}
