/** One step of a NoETL playbook, in any of its versions: the tool in `type` or `tool`, loops, conditions, retries and arcs. */
import { isPlain } from "../../../core/check.ts";
import { MAX_DURATION_MS, toMs } from "../../../core/duration.ts";
import type { PlaybookStep, StepAction, StepLoop } from "../../../core/playbook/playbook.ts";
import type { SourcePath } from "../../../core/playbook/problem.ts";
import { ACTION_FIELDS, REFUSED_FIELDS, readAction } from "./action.ts";
import { actionSources } from "./action-sources.ts";
import { readCases, readSink } from "./cases.ts";
import { type Draft, from, type Raw } from "./draft.ts";
import { type Flow, type NamedArc, readNext, readSet } from "./flow.ts";
import { LOOP_FIELDS, LOOP_REFUSED, loopOf, readLoop } from "./loop.ts";
import { rowAliases } from "./names.ts";
import { inlinePlaybook } from "./pipeline.ts";

import { type RetryParts, readAdmit, readRetry } from "./policy.ts";
import { bodyOf, fromWorkbook, type NoetlWorkbookTool, pipelineTasks, type ToolBody, toolBody } from "./tool.ts";
import { both, negated, readWhen } from "./when.ts";

/** A step whose arcs still have names. */
export interface NamedStep {
  readonly step: Omit<PlaybookStep, "arcs">;
  readonly arcs: readonly NamedArc[];
  readonly path: SourcePath;
  /** A value of `result` in the step `end`. */
  readonly result: { readonly value: unknown; readonly path: SourcePath } | null;
}

const STEP_FIELDS = [
  ...[
    "step",
    "desc",
    "description",
    "type",
    "tool",
    "next",
    "retry",
    "retry_when",
    "stop_when",
    "when",
    "condition",
    "pass",
  ],
  ...["loop", "case", "save", "sink", "result", "assert", "vars", "set", "set_ctx", "spec", "label", "labels"],
  ...ACTION_FIELDS,
];
const ITERATOR_FIELDS = [...LOOP_FIELDS, ...Object.keys(LOOP_REFUSED)];

export function readStep(
  draft: Draft,
  value: unknown,
  index: number,
  path: SourcePath,
  workbook: ReadonlyMap<string, NoetlWorkbookTool>,
): NamedStep | null {
  const fields = draft.object(value, path, "a step, as in { step: NAME, type: http, … }");
  if (fields === null) return null;
  const name = draft.text(fields.step, [...path, "step"], 200);
  if (name === null) return null;
  if (!/^[A-Za-z_][\w.-]{0,99}$/.test(name)) {
    draft.invalid([...path, "step"], name, "a name of letters, digits, _ . and -, at most 100 characters");
    return null;
  }
  const isIterator = fields.type === "iterator" || fields.tool === "iterator";
  draft.known(fields, path, isIterator ? [...STEP_FIELDS, ...ITERATOR_FIELDS] : STEP_FIELDS, {
    ...REFUSED_FIELDS,
    ...LOOP_REFUSED,
  });
  const key = `steps[${index}]`;
  from(draft, key, path);
  const loop = stepLoop(draft, fields, path, isIterator);
  if (loop !== null) from(draft, `${key}.loop`, isIterator ? path : [...path, "loop"]);
  const body = bodyOf(draft, fields, path, isIterator);
  const done = bodyAction(draft, name, body, workbook);
  from(draft, `${key}.action`, done.path);
  if (body.pipeline === null) {
    actionSources(draft.document, draft.sources, `${key}.action`, [done.path, body.path, path]);
  }
  const flow = stepFlow(draft, fields, path);
  flow.arcs.forEach((arc, j) => {
    from(draft, `${key}.arcs[${j}]`, arc.path);
    from(draft, `${key}.arcs[${j}].when`, arc.whenPath);
  });
  const retry = readRetry(draft, name, { retry: [...done.retry, ...flow.retry], rules: done.rules }, path);
  readSink(draft, fields.save, [...path, "save"]);
  readSink(draft, fields.sink, [...path, "sink"]);
  for (const field of ["vars", "set", "set_ctx"])
    if (fields[field] !== undefined) from(draft, `${key}.set`, [...path, field]);
  const result = resultOf(fields, name, path);
  if (fields.result !== undefined && result !== null && name !== "end") {
    draft.problem(
      "keyword_refused",
      result.path,
      "result is only supported in the step `end`, for the result of the run; use `set` for other values",
    );
  }
  return {
    path,
    result: name === "end" ? result : null,
    arcs: flow.arcs,
    step: {
      name,
      description:
        typeof (fields.desc ?? fields.description) === "string"
          ? ((fields.desc ?? fields.description) as string).slice(0, 2_000)
          : null,
      action: done.action,
      when: guard(draft, fields, path, key),
      onError: retry.onError,
      join: "all",
      loop,
      set: { ...done.set, ...readSet(draft, fields, path), ...retry.set },
      assert: readAssert(draft, done.assert, [...path, "assert"]),
      mode: flow.mode,
      options: {
        policy: retry.policy,
        timeoutMs: readTimeout(draft, done.timeout, [...path, "timeout"]),
        ...{ deadlineMs: null, queue: null, priority: null, resources: null },
        labels: {},
      },
    },
  };
}

/** In the step `end`: its `result`, else what it saves in the event log. */
function resultOf(fields: Raw, name: string, path: SourcePath): NamedStep["result"] {
  if (fields.result !== undefined) return { value: fields.result, path: [...path, "result"] };
  if (name !== "end") return null;
  if (fields.type === "save") {
    const key = ["data", "args", "payload"].find((one) => isPlain(fields[one]));
    return key === undefined ? null : { value: fields[key], path: [...path, key] };
  }
  for (const field of ["save", "sink"]) {
    const saved = fields[field];
    if (!isPlain(saved)) continue;
    for (const key of ["args", "data", "payload"]) {
      const value = (saved as Raw)[key];
      if (isPlain(value)) return { value, path: [...path, field, key] };
    }
  }
  return null;
}

function stepLoop(draft: Draft, fields: Raw, path: SourcePath, isIterator: boolean): StepLoop | null {
  if (isIterator) return loopOf(draft, fields, path);
  return fields.loop === undefined || fields.loop === null ? null : readLoop(draft, fields.loop, [...path, "loop"]);
}

/** `pass: X` skips the step where X is true. */
function guard(draft: Draft, fields: Raw, path: SourcePath, key: string): string | null {
  const given = draft.one(fields, path, ["when", "condition"]);
  const when = given === null ? null : readWhen(draft, given.value, [...path, given.name]);
  if (given !== null) from(draft, `${key}.when`, [...path, given.name]);
  const pass = fields.pass === undefined || fields.pass === null || fields.pass === false ? null : fields.pass;
  const skips = pass === true ? "true" : readWhen(draft, pass, [...path, "pass"]);
  const policy = isPlain(fields.spec) ? (fields.spec as Raw).policy : undefined;
  const admit =
    isPlain(policy) && (policy as Raw).admit !== undefined
      ? readAdmit(draft, (policy as Raw).admit, [...path, "spec", "policy", "admit"])
      : null;
  return both(both(when, skips === null ? null : negated(skips)), admit);
}

interface ReadBody {
  readonly action: StepAction | null;
  readonly path: SourcePath;
  readonly retry: RetryParts["retry"];
  readonly rules: RetryParts["rules"];
  readonly timeout: unknown;
  readonly assert: unknown;
  /** Values of ctx that the tool sets after a success. */
  readonly set: Readonly<Record<string, unknown>>;
}

function bodyAction(
  draft: Draft,
  step: string,
  body: ToolBody,
  workbook: ReadonlyMap<string, NoetlWorkbookTool>,
  place: "step" | "pipeline" = "step",
): ReadBody {
  const { tool, path } = body;
  if (body.pipeline !== null) {
    const tasks = pipelineTasks(draft, body.pipeline, path);
    draft.pipelines.set(
      step,
      tasks.map(({ label }) => label),
    );
    const inline = inlinePlaybook(draft, step, tasks, (task, at) => readTask(draft, task, at, workbook));
    const retry = retryParts(body.fields, path.slice(0, -1));
    if (retry.length > 0)
      draft.problem(
        "keyword_refused",
        [...path.slice(0, -1), "retry"],
        "retry of a whole pipeline is not supported; write it at its tools",
      );
    return { action: inline, path, retry: [], rules: null, timeout: body.fields.timeout, assert: undefined, set: {} };
  }
  const resolved = tool?.name === "workbook" ? fromWorkbook(draft, body, workbook) : body;
  const { fields } = resolved;
  // Of a tool in the step itself, these are the step's own fields.
  if (isOwnTool(path)) {
    for (const field of ["save", "sink"]) readSink(draft, fields[field], [...path, field]);
  }
  const action = resolved.tool === null ? null : readAction(draft, resolved.tool, fields, resolved.path);
  if (action?.type === "postgres" && step !== "") Object.assign(draft.aliases, rowAliases(step));
  const spec = isPlain(fields.spec) ? (fields.spec as Raw) : null;
  if (spec !== null) draft.known(spec, [...path, "spec"], ["policy", "timeout"]);
  const policy = spec?.policy;
  const rules =
    policy === undefined || (isPlain(policy) && (policy as Raw).rules === undefined)
      ? null
      : { value: policy, path: [...path, "spec", "policy"] };
  return {
    action,
    path: resolved.path,
    retry: retryParts(fields, path),
    rules,
    timeout: fields.timeout ?? fields.timeout_seconds ?? spec?.timeout,
    assert: fields.assert,
    set: isOwnTool(path) ? readSet(draft, fields, resolved.path, place) : {},
  };
}

function isOwnTool(path: SourcePath): boolean {
  return path.length > 2;
}

/** One task of a pipeline. */
function readTask(
  draft: Draft,
  fields: Raw,
  path: SourcePath,
  workbook: ReadonlyMap<string, NoetlWorkbookTool>,
): Omit<PlaybookStep, "arcs" | "name"> | null {
  const done = bodyAction(draft, "", toolBody(draft, fields, path), workbook, "pipeline");
  if (done.action === null) return null;
  const retry = readRetry(draft, "", done, path, "pipeline");
  return {
    ...{ description: null, action: done.action, when: null, onError: retry.onError, join: "all", loop: null },
    set: { ...done.set, ...retry.set },
    assert: readAssert(draft, done.assert, [...path, "assert"]),
    mode: "match",
    options: {
      policy: retry.policy,
      timeoutMs: readTimeout(draft, done.timeout, [...path, "timeout"]),
      ...{ deadlineMs: null, queue: null, priority: null, resources: null },
      labels: {},
    },
  };
}

function retryParts(fields: Raw, path: SourcePath): RetryParts["retry"] {
  const { retry, retry_when, stop_when } = fields;
  const conditions = {
    ...(retry_when === undefined ? {} : { retry_when }),
    ...(stop_when === undefined ? {} : { stop_when }),
  };
  if (Object.keys(conditions).length > 0) {
    const base = isPlain(retry) ? (retry as Raw) : typeof retry === "number" ? { max_attempts: retry } : {};
    return [
      { value: { ...base, ...conditions }, path: [...path, retry === undefined ? "retry_when" : "retry"], when: null },
    ];
  }
  return retry === undefined || retry === null || retry === false
    ? []
    : [{ value: retry, path: [...path, "retry"], when: null }];
}

/** Arcs of `case` come before those of `next`, which are taken where none of them is. */
function stepFlow(draft: Draft, fields: Raw, path: SourcePath): Flow & { readonly retry: RetryParts["retry"] } {
  const next = readNext(draft, fields.next, [...path, "next"]);
  if (fields.case === undefined || fields.case === null) return { ...next, retry: [] };
  const { arcs, retry } = readCases(draft, fields.case, [...path, "case"]);
  if (next.arcs.length === 0) return { mode: "first", arcs, retry };
  return { mode: arcs.length === 0 ? next.mode : "match", arcs: [...arcs, ...next.arcs], retry };
}

function readTimeout(draft: Draft, value: unknown, path: SourcePath): number | null {
  if (value === undefined || value === null) return null;
  if (typeof value === "string" && !/^\d+(\.\d+)?$/.test(value))
    return draft.checked(path, () => toMs(value as "1s", "timeout"));
  const seconds = draft.number(typeof value === "string" ? Number(value) : value, path, 0.001, MAX_DURATION_MS / 1_000);
  return seconds === null ? null : Math.round(seconds * 1_000);
}

function readAssert(draft: Draft, value: unknown, path: SourcePath): PlaybookStep["assert"] {
  if (value === undefined || value === null) return null;
  const fields = draft.object(value, path);
  if (fields === null) return null;
  draft.known(fields, path, ["expects", "returns"]);
  const names = (field: "expects" | "returns") =>
    fields[field] === undefined
      ? []
      : draft
          .list(fields[field], [...path, field], 100)
          .flatMap((one, i) => draft.text(one, [...path, field, i], 200) ?? []);
  return { expects: names("expects"), returns: names("returns") };
}
