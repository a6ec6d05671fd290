/** What decided, with its part: `retryOn "heartbeat ... stale"`, `rules[0] (exitCode 75)`. Parts may hold text of strangers:
 *  whoever prints them escapes them. */
import type { StoredDecision } from "../../core/event.ts";

export function decidedBy(matched: string, part: StoredDecision["matchedPart"] | null): string {
  if (part === undefined || part === null) return matched;
  return matched === "retryOn" || matched === "noRetryOn"
    ? `${matched} ${JSON.stringify(part)}`
    : `${matched} (${part})`;
}
