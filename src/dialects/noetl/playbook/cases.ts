/** `case` of NoETL's second version: conditions on events of a step, and what follows. Conditions on the end of a step become arcs,
 *  and retries on its failure become its policy. What a case does beside that is refused by name. */
import { isPlain } from "../../../core/check.ts";
import type { SourcePath } from "../../../core/playbook/problem.ts";
import type { Draft, Raw } from "./draft.ts";
import { type NamedArc, readNext, readSet, UNKNOWN_EVENT } from "./flow.ts";
import type { RetryParts } from "./policy.ts";
import { both, eventsOf, readWhen } from "./when.ts";

const MAX_CASES = 100;
const CASE_FIELDS = ["when", "then", "else", "name", "desc"];
const THEN_FIELDS = ["next", "step", "retry", "set", "set_ctx", "vars", "result", "sink", "data", "args", "with"];

export interface Cases {
  readonly arcs: readonly NamedArc[];
  readonly retry: RetryParts["retry"];
}

export function readCases(draft: Draft, value: unknown, path: SourcePath): Cases {
  const arcs: NamedArc[] = [];
  const retry: RetryParts["retry"][number][] = [];
  for (const [i, one] of draft.list(value, path, MAX_CASES).entries()) {
    const at = [...path, i];
    const fields = draft.object(one, at);
    if (fields === null) continue;
    draft.known(fields, at, CASE_FIELDS);
    const condition = readWhen(draft, fields.when, [...at, "when"]);
    const { events, rest } = condition === null ? { events: [], rest: null } : eventsOf(condition);
    if (events.includes("enter")) {
      draft.problem(
        "case_action",
        [...at, "when"],
        "step.enter is not supported; set values on the arc that leads to the step",
      );
      continue;
    }
    if (events.includes("other")) {
      draft.problem("case_action", [...at, "when"], UNKNOWN_EVENT);
      continue;
    }
    const on =
      events.length === 0 || (events.includes("success") && events.includes("failure"))
        ? null
        : events.includes("failure");
    for (const [then, thenPath] of thens(draft, fields.then, [...at, "then"])) {
      draft.known(then, thenPath, THEN_FIELDS, REFUSED);
      readSink(draft, then.sink, [...thenPath, "sink"]);
      if (then.result !== undefined && !isOwnResult(then.result)) {
        draft.problem(
          "case_action",
          [...thenPath, "result"],
          "the result of a step is that of its tool; use `set` for other values",
        );
      }
      if (then.retry !== undefined) retry.push({ value: then.retry, path: [...thenPath, "retry"], when: onlyIf(rest) });
      const set = readSet(draft, then, thenPath);
      const made = [...readNext(draft, then.next, [...thenPath, "next"]).arcs, ...stepArc(draft, then, thenPath)].map(
        (arc) => {
          return guarded(arc, rest, on, set, [...at, "when"]);
        },
      );
      if (made.length === 0 && Object.keys(set).length > 0) {
        draft.problem(
          "case_action",
          thenPath,
          "`set` without `next` in a case is not supported; write `vars` in the step, or add next",
        );
      }
      arcs.push(...made);
    }
    if (fields.else !== undefined)
      arcs.push(
        ...readNext(draft, isPlain(fields.else) ? (fields.else as Raw).next : fields.else, [...at, "else"]).arcs,
      );
  }
  return { arcs, retry };
}

/** `result: { from: response }`: what the tool returned, as it is. */
function isOwnResult(value: unknown): boolean {
  const own: readonly unknown[] = ["response", "result", "output"];
  return isPlain(value) && own.includes((value as Raw).from);
}

const REFUSED = Object.fromEntries(
  ["collect", "call", "merge", "loop", "fail", "break", "jump", "set_iter", "ctx"].map((name) => [
    name,
    [
      "case_action",
      `${name} in a case is not supported; write pagination as an arc back to the step, and collect in ctx`,
    ] as const,
  ]),
);

/** `then` is an object, or a list of objects. */
function thens(draft: Draft, value: unknown, path: SourcePath): [Raw, SourcePath][] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) {
    const fields = draft.object(value, path);
    return fields === null ? [] : [[fields, path]];
  }
  if (value.length > 1) {
    const message = "a list of several actions is not supported; write one object with next, retry or set";
    draft.problem("case_action", path, message);
  }
  return value.slice(0, 1).flatMap((one, i) => thens(draft, one, [...path, i]));
}

/** A retry is only considered after a failure: that the event is one needs no condition. */
function onlyIf(rest: string | null): string | null {
  return rest === null || /^\(?error (==|!=) None\)?$/.test(rest.trim()) ? null : rest;
}

function guarded(
  arc: NamedArc,
  when: string | null,
  isFailure: boolean | null,
  set: NamedArc["set"],
  whenPath: SourcePath,
): NamedArc {
  const condition = both(when, arc.when);
  const namesError = condition !== null && /\berror\b/.test(condition);
  const on = isFailure === true ? "failure" : namesError || isFailure === null ? arc.on : "success";
  return {
    ...arc,
    when: condition,
    whenPath: arc.when === null ? whenPath : arc.whenPath,
    on: isFailure === false && namesError ? "always" : on,
    set: { ...set, ...arc.set },
  };
}

function stepArc(draft: Draft, then: Raw, path: SourcePath): readonly NamedArc[] {
  if (then.step === undefined) return [];
  const data = then.data ?? then.args ?? then.with;
  return readNext(draft, { step: then.step, ...(data === undefined ? {} : { data }) }, path).arcs;
}

/** Results are in the event log anyway. */
export function readSink(draft: Draft, value: unknown, path: SourcePath): void {
  if (value === undefined || value === null) return;
  const name = typeof value === "string" ? value : storageOf(value);
  if (name === "event_log" || name === "event") return;
  const message =
    "results are stored in the run; write them elsewhere with a step of their own (type: postgres, or a task)";
  draft.problem("save_storage", path, message);
}

function storageOf(value: unknown): unknown {
  if (!isPlain(value)) return null;
  const { storage, type, kind, tool } = value as Raw;
  const named = storage ?? tool ?? type ?? kind;
  return isPlain(named) ? ((named as Raw).kind ?? (named as Raw).type) : named;
}
