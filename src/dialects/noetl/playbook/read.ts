/** Reads a whole playbook of NoETL, of any version, and compiles it. All problems are reported at once. What is refused is named, with
 *  what to write instead; what means something else here is a note. */
import { isPlain, nearest } from "../../../core/check.ts";
import { show } from "../../../core/errors.ts";
import { checkPlaybook } from "../../../core/playbook/check-playbook.ts";
import { plainDocument } from "../../../core/playbook/plain-document.ts";
import {
  PLAYBOOK_FORMAT,
  PLAYBOOK_LIMITS,
  type Playbook,
  type PlaybookArc,
  type PlaybookStep,
} from "../../../core/playbook/playbook.ts";
import type { PlaybookProblem, ReadPlaybook, SourcePath } from "../../../core/playbook/problem.ts";
import { resolvePolicy } from "../../../core/policy/resolve-policy.ts";
import { valueAt } from "./action-sources.ts";
import { Draft, type DraftContext, from, type Raw } from "./draft.ts";
import { NOETL_ALIASES } from "./names.ts";
import { type NamedStep, readStep } from "./step.ts";
import type { NoetlWorkbookTool } from "./tool.ts";
import { withToolResults } from "./tool-results.ts";

const FIELDS = [
  "apiVersion",
  "kind",
  "name",
  "path",
  "desc",
  "description",
  "metadata",
  "workload",
  "workbook",
  "workflow",
  "executor",
  "version",
  "labels",
];
const REFUSED = {
  keychain: [
    "keyword_refused",
    "keychain is not supported; put secrets into the worker's environment, and databases with --connection",
  ],
  secrets: ["keyword_refused", "secrets in playbooks are not supported yet; put them into the worker's environment"],
  spec: ["unknown_field", "spec of the whole playbook is not supported; write its values into workload"],
  vars: ["keyword_refused", "vars of the whole playbook are not supported; write them into workload"],
  finally: ["keyword_refused", "finally is a field of playbooks with apiVersion: perdure/v1"],
} as const;

/** Whether it is a whole playbook: by its head, or because more than one of its steps runs something. A single task, alone or in an
 *  excerpt, is a job (../dialect.ts). */
export function isNoetlPlaybook(document: unknown): boolean {
  if (!isPlain(document)) return false;
  const { apiVersion, kind, workflow } = document as Raw;
  if (typeof apiVersion === "string" && !apiVersion.startsWith("noetl.io/")) return false;
  if (apiVersion !== undefined || kind === "Playbook") return kind === undefined || kind === "Playbook";
  if (!Array.isArray(workflow)) return false;
  return workflow.filter((step) => isPlain(step) && runsSomething(step as Raw)).length > 1;
}

function runsSomething({ type, tool }: Raw): boolean {
  return (type !== undefined && type !== "end" && type !== "start") || tool !== undefined;
}

export function readNoetlPlaybook(document: unknown, context: DraftContext): ReadPlaybook {
  const draft = new Draft(context);
  const plain = plainDocument(document, { error: (code, path, message) => draft.problem(code, path, message) });
  const made = plain === null ? null : compiled(draft, plain.value);
  const playbook = made === null ? null : withToolResults(draft, made);
  const checked = playbook === null ? [] : checkedParts(draft, playbook);
  const problems = [...draft.problems, ...checked];
  const isBad = problems.some(({ severity }) => severity === "error");
  return { playbook: isBad ? null : playbook, assets: draft.assets, problems, notes: draft.notes };
}

const CHECKS = { unknownNames: "warning", reservedNames: "warning" } as const;

/** The playbook, and those within its steps, whose problems are at the step. */
function checkedParts(draft: Draft, playbook: Playbook): PlaybookProblem[] {
  const within = playbook.steps.flatMap(({ action }, i) => {
    if (action?.type !== "playbook" || action.inline === null) return [];
    const path = draft.sources.get(`steps[${i}].action`) ?? [];
    return checkPlaybook(action.inline, draft.inner.get(action.inline) ?? new Map(), CHECKS).map((problem) => {
      // Its texts are rewritten.
      return { ...problem, path: problem.path.length === 0 ? path : problem.path, offset: null };
    });
  });
  return [...checkPlaybook(playbook, draft.sources, CHECKS).map((problem) => withOffset(draft, problem)), ...within];
}

/** An offset counts within a text of the document; of conditions, which are rewritten, and of joined commands it is not known. */
function withOffset(draft: Draft, problem: PlaybookProblem): PlaybookProblem {
  const { path, offset } = problem;
  const isRewritten = ["when", "condition", "pass", "where", "command_b64"].includes(String(path.at(-1)));
  const isText = typeof valueAt(draft.document, path) === "string";
  return offset === null || (isText && !isRewritten) ? problem : { ...problem, offset: null };
}

function compiled(draft: Draft, document: unknown): Playbook | null {
  draft.document = document;
  const fields = draft.object(document, [], "a playbook: an object with apiVersion, kind and workflow");
  if (fields === null) return null;
  if (!Array.isArray(fields.workflow)) {
    draft.problem(
      "not_a_playbook",
      ["workflow"],
      `is not a playbook: workflow must be a list of steps; got ${show(fields.workflow)}`,
    );
    return null;
  }
  draft.known(fields, [], FIELDS, REFUSED);
  if (fields.kind !== undefined && fields.kind !== "Playbook") draft.invalid(["kind"], fields.kind, '"Playbook"');
  const metadata =
    fields.metadata === undefined || fields.metadata === null
      ? {}
      : (draft.object(fields.metadata, ["metadata"]) ?? {});
  const named = readSteps(draft, fields);
  const executor = readExecutor(draft, fields.executor);
  const steps = linked(draft, named);
  const entry = entryOf(draft, steps, executor.entry);
  const workload =
    fields.workload === undefined || fields.workload === null
      ? {}
      : (draft.object(fields.workload, ["workload"]) ?? {});
  from(draft, "workload", ["workload"]);
  const result = named.find((one) => one.result !== null)?.result ?? null;
  if (result !== null) from(draft, "result", result.path);
  if (steps.length === 0) return null;
  const path = metadata.path ?? fields.path;
  return {
    format: PLAYBOOK_FORMAT,
    name: nameOf(draft, metadata.name ?? fields.name, path),
    path:
      path === undefined || path === null
        ? null
        : draft.text(path, metadata.path === undefined ? ["path"] : ["metadata", "path"], 500),
    description: descriptionOf(metadata.description ?? metadata.desc ?? fields.description ?? fields.desc),
    labels: {},
    inputs: null,
    workload,
    timeoutMs: null,
    maxSteps: PLAYBOOK_LIMITS.maxSteps,
    parallel: PLAYBOOK_LIMITS.parallel,
    undefined: "strict",
    failureMode: "drain",
    ...{ onFailure: [], finally: [] },
    result: result === null ? null : { value: result.value },
    entry,
    steps,
    aliases: { ...NOETL_ALIASES, ...draft.aliases },
    mustTakeArc: executor.mustTakeArc,
  };
}

function nameOf(draft: Draft, value: unknown, path: unknown): string {
  if (value === undefined || value === null)
    return typeof path === "string" && path !== "" ? path.slice(0, 200) : "playbook";
  return draft.text(value, ["metadata", "name"], 200) ?? "playbook";
}

function descriptionOf(value: unknown): string | null {
  return typeof value === "string" && value.trim() !== "" ? value.trim().slice(0, 2_000) : null;
}

function readSteps(draft: Draft, fields: Raw): NamedStep[] {
  const workbook = readWorkbook(draft, fields.workbook);
  const list = draft.list(fields.workflow, ["workflow"], PLAYBOOK_LIMITS.steps);
  if (list.length === 0 && Array.isArray(fields.workflow) && fields.workflow.length === 0) {
    draft.problem("not_a_playbook", ["workflow"], "has no steps; write at least one");
  }
  const found: NamedStep[] = [];
  for (const [i, value] of list.entries()) {
    const one = readStep(draft, value, found.length, ["workflow", i], workbook);
    if (one === null) continue;
    const twin = found.find(({ step }) => step.name === one.step.name);
    if (twin === undefined) found.push(one);
    else
      draft.problem(
        "duplicate_step",
        ["workflow", i, "step"],
        `a second step "${one.step.name}"; names must be unique`,
      );
  }
  return found;
}

function readWorkbook(draft: Draft, value: unknown): ReadonlyMap<string, NoetlWorkbookTool> {
  const tools = new Map<string, NoetlWorkbookTool>();
  for (const [i, one] of (value === undefined || value === null
    ? []
    : draft.list(value, ["workbook"], PLAYBOOK_LIMITS.steps)
  ).entries()) {
    const path: SourcePath = ["workbook", i];
    const fields = draft.object(one, path);
    const name = fields === null ? null : draft.text(fields.name, [...path, "name"], 200);
    if (fields === null || name === null) continue;
    if (tools.has(name)) draft.problem("duplicate_step", [...path, "name"], `a second tool "${name}" in the workbook`);
    tools.set(name, { fields, path });
  }
  return tools;
}

interface NoetlExecutor {
  readonly entry: { readonly name: string; readonly path: SourcePath } | null;
  readonly mustTakeArc: boolean;
}

function readExecutor(draft: Draft, value: unknown): NoetlExecutor {
  const none: NoetlExecutor = { entry: null, mustTakeArc: false };
  if (value === undefined || value === null) return none;
  const fields = draft.object(value, ["executor"]);
  if (fields === null) return none;
  draft.known(fields, ["executor"], ["spec", "profile", "version", "requires"]);
  const spec =
    fields.spec === undefined || fields.spec === null ? {} : (draft.object(fields.spec, ["executor", "spec"]) ?? {});
  const path = ["executor", "spec"];
  draft.known(spec, path, ["entry_step", "no_next_is_error", "final_step", "timeout"], {
    final_step: ["keyword_refused", "final_step is not supported; name the step `end`"],
    timeout: ["keyword_refused", "timeout of the whole playbook is a field of apiVersion: perdure/v1"],
  });
  const entry = spec.entry_step === undefined ? null : draft.text(spec.entry_step, [...path, "entry_step"], 200);
  return {
    entry: entry === null ? null : { name: entry, path: [...path, "entry_step"] },
    mustTakeArc: spec.no_next_is_error === true,
  };
}

/** Arcs get the index of their target. A step `end` that is not in the file is added: it runs nothing. */
function linked(draft: Draft, named: readonly NamedStep[]): PlaybookStep[] {
  const index = new Map(named.map(({ step }, i) => [step.name, i] as const));
  const needsEnd = !index.has("end") && named.some(({ arcs }) => arcs.some(({ target }) => target === "end"));
  if (needsEnd) index.set("end", named.length);
  const steps = named.map(({ step, arcs }): PlaybookStep => {
    const found = arcs.flatMap(({ target, path, whenPath: _, ...arc }): PlaybookArc[] => {
      const to = index.get(target);
      if (to !== undefined) return [{ ...arc, to }];
      const near = nearest(target, [...index.keys()]);
      const hint = near === null ? "" : `; did you mean "${near}"?`;
      draft.problem("unknown_step", path, `unknown step ${show(target)}${hint}`);
      return [];
    });
    return { ...step, arcs: found };
  });
  if (needsEnd) steps.push(endStep());
  return steps;
}

function endStep(): PlaybookStep {
  return {
    ...{ name: "end", description: null, action: null, when: null, onError: "fail", join: "all", loop: null, set: {} },
    ...{ assert: null, mode: "match", arcs: [] },
    options: {
      policy: resolvePolicy({ preset: "noetl", maxAttempts: 1 }),
      ...{ timeoutMs: null, deadlineMs: null, queue: null, priority: null, labels: {}, resources: null },
    },
  };
}

function entryOf(draft: Draft, steps: readonly PlaybookStep[], wanted: NoetlExecutor["entry"]): number {
  const named = wanted?.name ?? "start";
  const found = steps.findIndex(({ name }) => name === named);
  if (found >= 0) return found;
  if (wanted !== null) draft.problem("unknown_step", wanted.path, `unknown step ${show(wanted.name)}`);
  else if (steps.length > 0) draft.note(`there is no step "start": the run begins with "${steps[0]?.name}"`);
  return 0;
}
