/** `ClusterAgentRole`: defaults for tasks that name it. A role is no job. It takes effect where it lies beside its tasks, in
 *  the same file or in another that is given with it, or in the settings. */
import { asOneOf, fieldPath, isPlain, nearest } from "../../core/check.ts";
import { ConfigError, show } from "../../core/errors.ts";
import type { ReadContext } from "../dialect.ts";
import { AGENT_TIERS, type AgentRetrySettings, type AgentTier } from "../settings.ts";
import {
  type AgentBudget,
  type AgentModel,
  asApiVersion,
  asTimeout,
  fieldsOf,
  readBudget,
  readModel,
} from "./check.ts";
import { readMetadata } from "./metadata.ts";
import { readRetry } from "./retry.ts";
import { ROLE_KIND } from "./words.ts";

export interface AgentRole {
  readonly name: string;
  readonly retry: AgentRetrySettings;
  readonly budget: AgentBudget;
  readonly model: AgentModel;
  readonly tier: AgentTier | null;
  readonly timeoutMs: number | null;
  /** All that it says, for the agent. */
  readonly spec: object;
}

/** The first five are defaults of ours; the others are the agent's to read. */
const SPEC_FIELDS = [
  ...(["retry", "budget", "model", "tier", "timeout"] as const),
  ...(["defaultModel", "description", "rules", "antiPatterns", "tools", "references"] as const),
];

export function isRole(document: unknown): document is object {
  return isPlain(document) && (document as { kind?: unknown }).kind === ROLE_KIND;
}

export function readRole(document: unknown, notes: string[]): AgentRole {
  const fields = fieldsOf(document, "", ["apiVersion", "kind", "metadata", "spec", "status"]);
  asApiVersion(fields.apiVersion, "apiVersion");
  const { name } = readMetadata(fields.metadata, "metadata", []);
  const spec = fieldsOf(fields.spec ?? {}, "spec", SPEC_FIELDS);
  const read = <T>(key: (typeof SPEC_FIELDS)[number], check: (value: unknown, path: string) => T, other: T): T =>
    spec[key] === undefined ? other : check(spec[key], fieldPath("spec", key));
  const asModel = (value: unknown, path: string) => readModel(value, path, notes);
  return {
    name,
    retry: read("retry", readRetry, {}),
    budget: read("budget", readBudget, {}),
    model: { ...read("defaultModel", asModel, {}), ...read("model", asModel, {}) },
    tier: read("tier", (value, path): AgentTier | null => asOneOf(value, AGENT_TIERS, path), null),
    timeoutMs: read("timeout", (value, path): number | null => asTimeout(value, path), null),
    spec,
  };
}

/** Where roles may lie: documents beside the task hide those of the settings. */
export type RoleSources = Pick<ReadContext, "documents" | "settings">;

/** The role that a task names. Null, with a note, if nobody has it: a task may name it for its agent alone. */
export function findRole(name: string, sources: RoleSources, notes: string[]): AgentRole | null {
  const { role, near } = searchRole(name, sources, "spec.role", notes);
  if (role !== null) return role;
  const hint = near === null ? "" : ` Did you mean ${show(near)}?`;
  notes.push(
    `spec.role: ${ROLE_KIND} ${show(name)} not found, so no defaults come from it; pass its file too, or set agent.roles.${hint}`,
  );
  return null;
}

/** The role that somebody asks for. One that nobody has is refused: it would change nothing but a name. */
export function requiredRole(name: string, sources: RoleSources, path: string): AgentRole {
  const { role, near } = searchRole(name, sources, path, []);
  if (role !== null) return role;
  const problem = `there is no ${ROLE_KIND} ${show(name)}`;
  const allowed = "a role of a file that is given with it, or of the setting agent.roles";
  throw new ConfigError({ path, given: name, allowed, nearest: near, problem });
}

function searchRole(
  name: string,
  { documents, settings }: RoleSources,
  path: string,
  notes: string[],
): { readonly role: AgentRole | null; readonly near: string | null } {
  const isNamed = (document: object) => nameOf(document) === name;
  const beside = documents.filter(isRole);
  const [found, second] = beside.filter(isNamed);
  if (second !== undefined) {
    const problem = `two documents define the ${ROLE_KIND} ${show(name)}`;
    throw new ConfigError({ path, given: name, allowed: "a role that is defined once", problem });
  }
  const configured = settings.agent.roles.filter(isRole);
  const role = found ?? configured.find(isNamed);
  if (role !== undefined) return { role: readNamed(role, name, path, notes), near: null };
  return { role: null, near: nearest(name, [...beside, ...configured].map(nameOf)) };
}

/** What is wrong in a role is told at the task that needs it: its own place may be in another file. */
function readNamed(document: object, name: string, path: string, notes: string[]): AgentRole {
  try {
    return readRole(document, notes);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const { allowed, message } = error;
    const problem = `the ${ROLE_KIND} ${show(name)} has a mistake: ${message.split("; allowed: ")[0]}`;
    throw new ConfigError({ path, given: name, allowed, nearest: error.nearest, problem });
  }
}

function nameOf(document: object): string {
  const { metadata } = document as { metadata?: unknown };
  const name = isPlain(metadata) ? (metadata as { name?: unknown }).name : null;
  return typeof name === "string" ? name : "";
}
