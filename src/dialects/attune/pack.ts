/** Attune's packs: a folder with `pack.yaml`, and its actions in `actions/`. Read are the pack's name, what it says of retries
 *  and of workers; the rest of a manifest describes it to people, or is told in a note.
 *
 *  A mistake in the manifest has a path that begins with `PACK_FILE`: it is in another document than the action. */
import { asBoolean, asObject, asText, type Fields, fieldPath, nearest } from "../../core/check.ts";
import { ConfigError, show } from "../../core/errors.ts";
import { type RetryWords, readRetry } from "./retry.ts";
import { notedKeys, readSelector } from "./words.ts";

/** From an action's own folder. */
export const PACK_FILE = "../pack.yaml";

export interface AttunePack {
  readonly ref: string;
  readonly retry: RetryWords;
  /** That its workers must have. */
  readonly labels: Readonly<Record<string, string>>;
  readonly notes: readonly string[];
}

/** For people, or for parts of Attune that have nothing to do with running an action. */
const TOLD = [
  ...["label", "description", "version", "author", "email", "license", "url", "homepage", "keywords", "tags", "meta"],
  ...["system", "is_standard", "standard", "conf_schema", "runtime_deps", "dependencies", "python_versions"],
];
const NOTED: Readonly<Record<string, string>> = {
  config: "it is not given to actions; give what they need as parameters",
  worker_tolerations: "workers have no taints here",
  worker_affinity: "which worker is best is not weighed; give labels that it must have",
};
const KEYS = ["ref", "name", "enabled", "retry", "worker_selector", ...TOLD, ...Object.keys(NOTED)];

export function readPack(value: unknown, path: string): AttunePack {
  const fields = asObject(value, path, KEYS);
  const ref = packRef(fields, path);
  if (fields.enabled !== undefined && !asBoolean(fields.enabled, fieldPath(path, "enabled"))) {
    const at = fieldPath(path, "enabled");
    throw new ConfigError({ path: at, given: false, problem: `the pack ${show(ref)} is not enabled`, allowed: "true" });
  }
  return {
    ref,
    retry: fields.retry == null ? {} : readRetry(fields.retry, fieldPath(path, "retry")),
    labels: fields.worker_selector === undefined ? {} : readSelector(fields.worker_selector, path),
    notes: notedKeys(fields, NOTED, path),
  };
}

const PACK_REF = /^[A-Za-z][A-Za-z0-9_-]*$/;

/** Packs have a `name` for people beside their `ref`, and older ones only a name. */
export function packRef(fields: Fields<string>, path: string): string {
  const key = fields.ref === undefined ? "name" : "ref";
  const at = fieldPath(path, key);
  const text = asText(fields[key], at, 100);
  if (fields.name !== undefined) asText(fields.name, fieldPath(path, "name"), 200);
  if (PACK_REF.test(text)) return text;
  throw new ConfigError({ path: at, given: text, allowed: "letters, digits, _ and -, beginning with a letter" });
}

const ACTION_NAME = /^[A-Za-z0-9_][A-Za-z0-9_-]*$/;
const ACTION_REF = /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/;

/** `mypack.name`. A name that has its pack already keeps it. */
export function actionRef(given: unknown, path: string, pack: string | null): string {
  const text = asText(given, path, 200);
  if (pack === null) {
    if (ACTION_REF.test(text)) return text;
    throw new ConfigError({ path, given: text, allowed: "letters, digits, _, - and dots" });
  }
  const bare = text.startsWith(`${pack}.`) ? text.slice(pack.length + 1) : text;
  if (ACTION_NAME.test(bare)) return `${pack}.${bare}`;
  const allowed = `letters, digits, _ and -, or the same with ${pack}. before it`;
  const near = nearest(text.split(".")[0] ?? "", [pack]);
  throw new ConfigError({ path, given: text, allowed, nearest: near === null ? null : `${pack}.` });
}
