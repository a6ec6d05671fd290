/** Calls about runs and playbooks as they go over the wire. A playbook given as an object travels as JSON text. */
import { type PlaybookInput, parsePlaybookPath } from "../core/api/playbooks.ts";
import { checkRunOptions, type RunOptions, type RunRedriveOptions } from "../core/api/runs.ts";
import { checkKeys, isPlain } from "../core/check.ts";
import { ConfigError } from "../core/errors.ts";

/** A playbook over the wire. */
export type WirePlaybook =
  | { readonly path: string; readonly version?: number }
  | { readonly source: string; readonly file?: string; readonly files?: Readonly<Record<string, string>> };

export function toWirePlaybook(given: PlaybookInput): WirePlaybook {
  if (typeof given === "string") {
    const { path, version } = parsePlaybookPath(given);
    return version === null ? { path } : { path, version };
  }
  if (!isPlain(given)) {
    const allowed = "a path, { source }, or a document with apiVersion and workflow";
    throw new ConfigError({ path: "playbook", given, allowed });
  }
  if (typeof (given as { source?: unknown }).source !== "string") return { source: JSON.stringify(given) };
  checkKeys(given, ["source", "file", "files"], "playbook");
  return given as WirePlaybook;
}

/** The playbook of a request, as the engine takes it. */
export function fromWirePlaybook(given: WirePlaybook): PlaybookInput {
  if (!("path" in given)) return given;
  const { path, version } = given;
  parsePlaybookPath(path);
  return version === undefined ? path : `${path}@${version}`;
}

export function toStartRequest(
  playbook: PlaybookInput,
  input: Readonly<Record<string, unknown>> | undefined,
  options: RunOptions,
): string {
  checkRunOptions(options);
  return JSON.stringify({ ...options, playbook: toWirePlaybook(playbook), input });
}

const REDRIVE_KEYS = ["from", "skip", "set", "workload", "latest", "playbook"] as const;

export function toRunRedrive(options: RunRedriveOptions): string {
  checkKeys(options, REDRIVE_KEYS, "redriveRun");
  const { from, playbook, ...rest } = options;
  const steps = from === undefined ? undefined : typeof from === "string" ? [from] : from;
  return JSON.stringify({
    ...rest,
    from: steps,
    playbook: playbook === undefined ? undefined : toWirePlaybook(playbook),
  });
}
