/** What is said of a document of no known kind: what the kinds are known by and, where a word of it is nearly one of those,
 *  that word with its place. Which kind a document is of is decided elsewhere. */
import { isPlain, nearest } from "../../core/check.ts";
import { show } from "../../core/errors.ts";
import { ROLE_KIND, TASK_KIND } from "../../dialects/agent-task/words.ts";
import { FLUSTER_RETRY_FIELDS } from "../../dialects/fluster/retry.ts";
import type { CliError } from "../exit.ts";
import { EMPTY, TOP_KEYS } from "../job-file.ts";
import type { Path, YamlText } from "../yaml.ts";

/** What files of other systems are known by, alone or together. */
const SIGNS = [
  ...["prompt", "entrypoint", "resources", "environment", "ports", "scheduling_timeout_seconds"],
  ...["step", "type", "tool", "workflow", "runtime", "runner_type", "entry_point", "apiVersion", "kind", "spec"],
];
/** Words that are nobody's sign, and no misspelling of one either. */
const OTHERS = ["name", "ref", "metadata", "parameters", "description", "method", "url", "code", "script", "next"];
const KNOWN: readonly string[] = [...SIGNS, ...TOP_KEYS];
const RETRY_SIGNS: readonly string[] = [...FLUSTER_RETRY_FIELDS, "max_attempts"];

const KINDS_THERE_ARE =
  "A job of Perdure has argv, command, kind or jobs; an OPAL job has prompt; a fluster job has entrypoint with resources, " +
  "environment, ports or fluster's words in retry; a NoETL task has step with type or tool, workflow, or " +
  "retry.max_attempts; an Attune action has runtime and entrypoint, or runner_type and entry_point; an AgentTask has " +
  `apiVersion and kind: ${TASK_KIND}, its role kind: ${ROLE_KIND}. Name it with --dialect`;

export function unknownKind(yaml: YamlText): CliError {
  const { value } = yaml;
  if (value === null) return yaml.error([], EMPTY);
  const got = isPlain(value) ? "a document" : Array.isArray(value) ? "a list" : show(value);
  const slip = isPlain(value) ? slipIn(value as Record<string, unknown>) : null;
  const hint = slip === null ? "" : ` Did you mean ${show(slip.meant)} by ${show(slip.given)}?`;
  return yaml.error(slip?.path ?? [], `got ${got} of no kind that is known here.${hint} ${KINDS_THERE_ARE}`);
}

interface Slip {
  readonly path: Path;
  readonly given: string;
  readonly meant: string;
}

/** The first word that is nearly one by which a kind is known. */
function slipIn(document: Record<string, unknown>): Slip | null {
  const { kind, retry } = document;
  const meant = typeof kind === "string" ? nearest(kind, [TASK_KIND, ROLE_KIND]) : null;
  if (meant !== null && meant !== kind) return { path: ["kind"], given: kind as string, meant };
  return (
    slipAmong(Object.keys(document), KNOWN, OTHERS, []) ??
    (isPlain(retry) ? slipAmong(Object.keys(retry), RETRY_SIGNS, [], ["retry"]) : null)
  );
}

function slipAmong(
  keys: readonly string[],
  known: readonly string[],
  others: readonly string[],
  at: Path,
): Slip | null {
  for (const given of keys) {
    if (known.includes(given) || others.includes(given)) continue;
    const meant = nearest(given, known);
    if (meant !== null) return { path: [...at, given], given, meant };
  }
  return null;
}
