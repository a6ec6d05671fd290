/** Errors of calls about playbooks. All problems of a document are in the message of one error, each on a line of its own. */
import { PerdureError } from "../errors.ts";

/** More would not fit into a reply. */
const MAX_LISTED = 20;

/** `problems`: one text each, with its place. */
export function invalidPlaybook(problems: readonly string[]): PerdureError {
  const more = problems.length - MAX_LISTED;
  const listed = [...problems.slice(0, MAX_LISTED), ...(more > 0 ? [`and ${more} more`] : [])].join("\n");
  return new PerdureError("invalid_playbook", `the playbook cannot be used:\n${listed}`, { path: "playbook" });
}

export function playbookNotFound(path: string, version: number | null = null): PerdureError {
  const what = version === null ? `playbook ${path}` : `version ${version} of the playbook ${path}`;
  return new PerdureError("playbook_not_found", `${what} does not exist in the catalog`, { path: "playbook" });
}

export function incompatiblePlaybook(why: string): PerdureError {
  const message = `this definition does not fit the run: ${why}; nothing was changed`;
  return new PerdureError("playbook_incompatible", message, { path: "playbook" });
}
