/** Manifests in one document, as `kubectl get agenttasks -o yaml` writes them. */
import { isPlain } from "../../core/check.ts";

const LIST_KINDS = ["List", "AgentTaskList", "ClusterAgentRoleList"];

/** The paths of the manifests in a list; null of a document that is none. */
export function listedManifests(document: unknown): (readonly [string, number])[] | null {
  if (!isPlain(document)) return null;
  const { apiVersion, kind, items } = document as Readonly<Record<string, unknown>>;
  if (typeof apiVersion !== "string" || typeof kind !== "string" || !LIST_KINDS.includes(kind)) return null;
  return Array.isArray(items) ? items.map((_, i) => ["items", i] as const) : null;
}
