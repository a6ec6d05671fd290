/** The metadata of an AgentTask and the submit key derived from it. */
import { asText, fieldPath } from "../../core/check.ts";
import { ConfigError } from "../../core/errors.ts";
import { isName, MAX_KEY, MAX_NAME } from "../../core/names.ts";
import { RESUBMIT_OF } from "../shared.ts";
import { ANNOTATION, asTexts, fieldsOf, PREFIX } from "./fields.ts";

// The submit key of a manifest is its namespace and name; the default namespace is `default`, as in Kubernetes.

const KEY_PREFIX = "agent-task:";
export const DEFAULT_NAMESPACE = "default";

export function taskKey(name: string, namespace: string = DEFAULT_NAMESPACE): string {
  return `${KEY_PREFIX}${quoted(namespace)}/${quoted(name)}`;
}

/** The keys that a reference may mean: `write-tests`, or `research/write-tests` with its namespace. */
export function nameKeys(reference: string): readonly string[] {
  const slash = reference.indexOf("/");
  const inNamespace = slash > 0 ? [taskKey(reference.slice(slash + 1), reference.slice(0, slash))] : [];
  return [taskKey(reference), ...inNamespace];
}

/** The slash between them must be the only one. */
function quoted(text: string): string {
  return text.replaceAll(/[%/]/g, (char) => encodeURIComponent(char));
}

// Labels of a manifest become tags, because Kubernetes selects objects by them, while Perdure's labels select workers.
// Fields written by a cluster are ignored.

interface AgentMetadata {
  readonly name: string;
  readonly tags: readonly string[];
  readonly annotations: Readonly<Record<string, string>>;
}

/** Fields that `kubectl get -o yaml` and Perdure's own view add. */
const WRITTEN_BY_CLUSTERS = [
  ...(["uid", "creationTimestamp", "resourceVersion", "generation", "selfLink", "managedFields"] as const),
  ...(["finalizers", "ownerReferences", "deletionTimestamp"] as const),
];
const FIELDS = ["name", "generateName", "namespace", "labels", "annotations", ...WRITTEN_BY_CLUSTERS] as const;

const MAX_KUBERNETES_NAME = 253;
const MAX_TAGS = 20;
/** Perdure's annotations take some of the 32 that a job may have. */
const MAX_ANNOTATIONS = 24;
const MAX_ANNOTATION_NAME = 200;
const MAX_ANNOTATION_BYTES = 12_288;
/** A copy of the whole manifest, written by kubectl. */
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

export function readMetadata(value: unknown, path: string, notes: string[]): AgentMetadata {
  const fields = fieldsOf(value, path, FIELDS);
  if (fields.generateName !== undefined) throw noGeneratedName(fields.generateName, fieldPath(path, "generateName"));
  const name = asTaskName(fields.name, fieldPath(path, "name"));
  const annotations = readAnnotations(fields.annotations ?? {}, fieldPath(path, "annotations"));
  if (Object.hasOwn(annotations, RESUBMIT_OF)) {
    delete annotations[RESUBMIT_OF];
    notes.push(
      `${fieldPath(path, "annotations")}.${RESUBMIT_OF}: belongs to the job that was printed, and is ignored.`,
    );
  }
  annotations[ANNOTATION.name] = name;
  if (fields.namespace !== undefined) {
    const namespace = asTaskName(fields.namespace, fieldPath(path, "namespace"));
    annotations[ANNOTATION.namespace] = namespace;
    if (taskKey(name, namespace).length > MAX_KEY) {
      const allowed = "a name and a namespace of at most 480 characters together";
      throw new ConfigError({ path: fieldPath(path, "name"), given: name, allowed });
    }
    notes.push(`${fieldPath(path, "namespace")}: kept and shown; the job is stored in the namespace of this command.`);
  }
  return { name, tags: readLabels(fields.labels ?? {}, fieldPath(path, "labels")), annotations };
}

/** Commands find a task by its name. */
function asTaskName(value: unknown, path: string): string {
  const name = asText(value, path, MAX_KUBERNETES_NAME);
  if (isName(name, MAX_KEY) && name.trim() === name) return name;
  const allowed = "text without control characters or leading and trailing white space";
  throw new ConfigError({ path, given: value, allowed });
}

/** A manifest that is applied again is found by its name. */
function noGeneratedName(given: unknown, path: string): ConfigError {
  const problem = "generateName is not supported";
  const allowed = "metadata.name; for a new job each time use another name, or pass another --key";
  return new ConfigError({ path, given, allowed, problem });
}

function readLabels(value: unknown, path: string): string[] {
  const labels = asTexts(value, path);
  if (labels.length > MAX_TAGS) {
    throw new ConfigError({ path, given: labels.length, allowed: `at most ${MAX_TAGS} labels: each becomes a tag` });
  }
  return labels.map(([name, text]) => {
    const tag = `${name}=${text}`;
    if (isName(tag)) return tag;
    const allowed = `at most ${MAX_NAME} characters together with its name, without control characters`;
    throw new ConfigError({ path: fieldPath(path, name), given: text, allowed });
  });
}

function readAnnotations(value: unknown, path: string): Record<string, string> {
  const kept = asTexts(value, path).filter(([name]) => name !== LAST_APPLIED);
  const bytes = kept.reduce((sum, [name, text]) => sum + Buffer.byteLength(name) + Buffer.byteLength(text), 0);
  if (kept.length > MAX_ANNOTATIONS || bytes > MAX_ANNOTATION_BYTES) {
    const problem = `${kept.length} annotations of ${bytes} bytes`;
    const allowed = `at most ${MAX_ANNOTATIONS} annotations of ${MAX_ANNOTATION_BYTES} bytes in all`;
    throw new ConfigError({ path, given: kept.length, allowed, problem });
  }
  const annotations: Record<string, string> = Object.create(null);
  for (const [name, text] of kept) {
    if (name.startsWith(PREFIX) || name.length > MAX_ANNOTATION_NAME || name.trim() === "") {
      const allowed = `a name of 1 to ${MAX_ANNOTATION_NAME} characters, not starting with ${PREFIX}`;
      throw new ConfigError({ path: fieldPath(path, name), given: name, allowed });
    }
    annotations[name] = text;
  }
  return annotations;
}
