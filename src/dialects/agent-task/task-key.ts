/** The submit key of a manifest: its namespace and name. As in Kubernetes, one without a namespace is in `default`. */

const KEY_PREFIX = "agent-task:";
export const DEFAULT_NAMESPACE = "default";

export function taskKey(name: string, namespace: string = DEFAULT_NAMESPACE): string {
  return `${KEY_PREFIX}${quoted(namespace)}/${quoted(name)}`;
}

/** The keys of the tasks that a text may name: `write-tests`, or `research/write-tests` with its namespace. */
export function nameKeys(reference: string): readonly string[] {
  const slash = reference.indexOf("/");
  const inNamespace = slash > 0 ? [taskKey(reference.slice(slash + 1), reference.slice(0, slash))] : [];
  return [taskKey(reference), ...inNamespace];
}

/** So that the slash in between is the only one. */
function quoted(text: string): string {
  return text.replaceAll(/[%/]/g, (char) => encodeURIComponent(char));
}
