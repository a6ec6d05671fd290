/** The parts of a submit that need no policy: spelling and plain values of its options, and its input as JSON text. Checked
 *  the same way by an engine and by a client, which has no policies. */
import { asInteger, asList, asObject, asOneOf, asText, checkOptions, fieldPath } from "./check.ts";
import { ConfigError, PerdureError, show } from "./errors.ts";
import { MAX_JOB_NAME } from "./job-name.ts";
import { POLICY_SOURCES } from "./policy-sources.ts";
import { toResources } from "./resources.ts";
import type { SubmitOptions } from "./submit-options.ts";
import { NO_INPUT } from "./work.ts";

const SUBMIT_KEYS = [
  ...["key", "queue", "priority", "delay", "runAt", "tags", "timeout", "expireIn", "deadline", "retry", "labels"],
  ...["resources", "annotations", "parent", "upload", "client", "name", "sources"],
];

export function checkSubmit(options: SubmitOptions): void {
  checkOptions(options, SUBMIT_KEYS, "submit");
  if (options.delay !== undefined && options.runAt !== undefined) {
    const allowed = "either delay or runAt, not both";
    throw new ConfigError({ path: "submit.delay", given: options.delay, allowed });
  }
  if (options.name !== undefined) asText(options.name, "submit.name", MAX_JOB_NAME);
  if (options.key !== undefined) asText(options.key, "submit.key", 500);
  if (options.queue !== undefined) asText(options.queue, "submit.queue", 200);
  if (options.priority !== undefined) asInteger(options.priority, "submit.priority", { min: 0, max: 9 });
  if (options.tags !== undefined) asList(options.tags, "submit.tags", (tag, path) => asText(tag, path, 200), 20);
  if (options.labels !== undefined) asObject(options.labels, "submit.labels");
  if (options.resources !== undefined) toResources(options.resources, "submit.resources");
  if (options.annotations !== undefined) asObject(options.annotations, "submit.annotations");
  if (options.sources !== undefined) checkSources(options.sources);
  if (options.parent !== undefined) asText(options.parent, "submit.parent", 200);
  if (options.upload !== undefined) asText(options.upload, "submit.upload", 200);
}

const MAX_SOURCES = 30;
const SAID = POLICY_SOURCES.filter((source) => source !== "submit");

function checkSources(sources: unknown): void {
  const entries = Object.entries(asObject(sources, "submit.sources"));
  if (entries.length > MAX_SOURCES) {
    const allowed = `at most ${MAX_SOURCES} names`;
    throw new ConfigError({ path: "submit.sources", given: entries.length, allowed });
  }
  for (const [name, source] of entries) {
    asText(name, "submit.sources", 50);
    asOneOf(source, SAID, fieldPath("submit.sources", name));
  }
}

/** An input as the JSON text that is stored. */
export function toPayload(input: unknown): string {
  if (input === undefined) return NO_INPUT;
  let text: string | undefined;
  try {
    text = JSON.stringify(input);
  } catch (cause) {
    const message = `payload: not JSON: ${(cause instanceof Error ? cause.message : show(cause)).split("\n")[0]}`;
    throw new PerdureError("invalid_payload", message, { path: "payload", cause });
  }
  if (text === undefined) {
    throw new PerdureError("invalid_payload", `payload: a ${typeof input} is not JSON`, { path: "payload" });
  }
  return text;
}
