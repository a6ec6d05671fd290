/** A list of tools in one step becomes a playbook of its own within that step, with a step for each tool: `_prev` is the output of
 *  the tool before, and the names of the playbook around it are passed in as data. */
import { isPlain } from "../../../core/check.ts";
import {
  PLAYBOOK_FORMAT,
  PLAYBOOK_LIMITS,
  type Playbook,
  type PlaybookStep,
  type StepAction,
} from "../../../core/playbook/playbook.ts";
import type { SourcePath } from "../../../core/playbook/problem.ts";
import { actionSources } from "./action-sources.ts";
import type { Draft, Raw } from "./draft.ts";
import { NOETL_ALIASES, rowAliases } from "./names.ts";

export interface PipelineTask {
  readonly label: string;
  readonly fields: Raw;
  readonly path: SourcePath;
}

type ReadTask = (fields: Raw, path: SourcePath) => Omit<PlaybookStep, "arcs" | "name"> | null;

/** Names that mean something else within; from outside they are passed under another name. */
const OUTER: readonly (readonly [RegExp, string, string])[] = [
  [/\bworkload\b/g, "outer_workload", "{{ workload }}"],
  [/\b(?:ctx|vars)\b/g, "outer_ctx", "{{ ctx }}"],
  [/\b(?:args|input_data)\b/g, "outer_data", "{{ data | default({}) }}"],
  [/\b(?:_loop|loop)\b/g, "outer_loop", "{{ loop | default({}) }}"],
  [/\bloop_index\b/g, "outer_loop.index", "{{ loop | default({}) }}"],
  [/\bexecution_id\b/g, "outer_execution_id", "{{ execution_id }}"],
];
const KNOWN: ReadonlySet<string> = new Set([
  ...[
    "and",
    "or",
    "not",
    "in",
    "is",
    "if",
    "else",
    "true",
    "false",
    "none",
    "True",
    "False",
    "None",
    "null",
    "defined",
    "undefined",
  ],
  ...[
    "now",
    "run",
    "inputs",
    "data",
    "result",
    "error",
    "success",
    "status_code",
    "failure",
    "status",
    "exit_code",
    "attempt",
  ],
  ...Object.keys(NOETL_ALIASES),
]);
const TEMPLATE = /\{\{[\s\S]*?\}\}/g;
const QUOTED = /('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")/s;

export function inlinePlaybook(
  draft: Draft,
  name: string,
  tasks: readonly PipelineTask[],
  read: ReadTask,
): StepAction | null {
  const labels: string[] = [];
  const names: Record<string, string> = {};
  let rows: Record<string, string> = {};
  const outer: Record<string, string> = {};
  const steps: PlaybookStep[] = [];
  const sources = new Map<string, SourcePath>();
  for (const [i, task] of tasks.entries()) {
    if (!/^[A-Za-z_][\w.-]{0,99}$/.test(task.label) || labels.includes(task.label)) {
      draft.problem(
        "duplicate_step",
        task.path,
        `"${task.label}" must be a name of letters, digits, _ . and -, once in a pipeline`,
      );
      return null;
    }
    const fields = withInnerNames(task.fields, { labels, set: Object.keys(names) }, outer);
    const made = read(fields, task.path);
    if (made === null) return null;
    labels.push(task.label);
    const key = `steps[${i}]`;
    sources
      .set(key, task.path)
      .set(`${key}.action`, task.path)
      .set(`${key}.set`, [...task.path, "set"]);
    actionSources(draft.document, sources, `${key}.action`, [task.path]);
    if (made.action?.type === "postgres") {
      rows = { ...rows, ...rowAliases(task.label) };
      if (i === tasks.length - 1) Object.assign(draft.aliases, rowAliases(name));
    }
    for (const key of Object.keys(made.set)) names[key] = `ctx.${key}`;
    const arcs = i === tasks.length - 1 ? [] : [{ to: i + 1, when: null, on: "success" as const, data: null, set: {} }];
    steps.push({ ...made, name: task.label, arcs });
  }
  const inline: Playbook = {
    format: PLAYBOOK_FORMAT,
    name: `${name} pipeline`,
    path: null,
    description: null,
    labels: {},
    inputs: null,
    // Replaced by what is passed in: its names exist.
    workload: Object.fromEntries(Object.keys(outer).map((key) => [key, null])),
    timeoutMs: null,
    maxSteps: PLAYBOOK_LIMITS.maxSteps,
    parallel: PLAYBOOK_LIMITS.parallel,
    undefined: "strict",
    failureMode: "drain",
    onFailure: [],
    finally: [],
    result: null,
    entry: 0,
    steps,
    aliases: { ...NOETL_ALIASES, ...names, ...rows },
    mustTakeArc: false,
  };
  draft.inner.set(inline, sources);
  return { type: "playbook", path: null, inline, data: outer, returnStep: null, wait: true };
}

/** What exists within a pipeline: the tools before, and what they set. */
interface InnerNames {
  readonly labels: readonly string[];
  readonly set: readonly string[];
}

/** A copy whose templates use the names within; `outer` gets what must be passed in. Code is left as it is. Values of ctx that a
 *  tool before has set are those within. */
function withInnerNames(fields: Raw, { labels, set }: InnerNames, outer: Record<string, string>): Raw {
  const previous = labels.at(-1);
  const rename = (expression: string): string => {
    return expression
      .split(QUOTED)
      .map((part, i) => {
        if (i % 2 === 1) return part;
        let text = previous === undefined ? part : part.replace(/(?<![\w.])_prev\b/g, previous);
        text = text.replace(/(?<![\w.])(iter|ctx|vars)\.(\w+)/g, (all, root: string, name: string) => {
          return root === "iter" || set.includes(name) ? name : all;
        });
        for (const [pattern, name, value] of OUTER) {
          text = text.replace(new RegExp(`(?<![\\w.])${pattern.source}`, "g"), () => {
            outer[name.split(".")[0] as string] = value;
            return name;
          });
        }
        for (const [, root = ""] of text.matchAll(/(?<![\w.])(?<!\|\s*)([A-Za-z_]\w*)\b(?!\s*\()/g)) {
          if (!KNOWN.has(root) && !labels.includes(root) && !set.includes(root) && !root.startsWith("outer_"))
            outer[root] = `{{ ${root} }}`;
        }
        return text;
      })
      .join("");
  };
  const walk = (value: unknown): unknown => {
    if (typeof value === "string") return value.replace(TEMPLATE, rename);
    if (Array.isArray(value)) return value.map(walk);
    if (!isPlain(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, walk(each)]));
  };
  const kept = new Set(["code", "script", "code_b64", "command_b64", "retry", "spec"]);
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, kept.has(key) ? value : walk(value)]));
}
