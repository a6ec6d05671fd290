/** Which format a playbook has, and its reader: Perdure's own, or NoETL's. */
import { isPlain } from "../core/check.ts";
import type { ReadPlaybook } from "../core/playbook/problem.ts";
import { type PlaybookContext, readPlaybook } from "../core/playbook/read-playbook.ts";
import { isNoetlPlaybook, readNoetlPlaybook } from "./noetl/playbook/read.ts";

/** Whether a document is a playbook, and not a job. A cheap check; it may still be invalid. An excerpt of NoETL with one task, as its
 *  document on retries shows it, is a job. */
export function isPlaybookDocument(document: unknown): boolean {
  return isOwn(document) || isNoetlPlaybook(document);
}

/** Reads a playbook of any format. What has no format of its own is read as Perdure's, whose problems name what is missing. */
export function readAnyPlaybook(document: unknown, context: PlaybookContext): ReadPlaybook {
  return !isOwn(document) && isNoetlPlaybook(document)
    ? readNoetlPlaybook(document, context)
    : readPlaybook(document, context);
}

function isOwn(document: unknown): boolean {
  if (!isPlain(document)) return false;
  const { apiVersion } = document as { readonly apiVersion?: unknown };
  return typeof apiVersion === "string" && /^perdure\//.test(apiVersion);
}
