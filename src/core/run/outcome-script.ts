/** The outcomes that a simulated run plays: for each step a list, one for each attempt, of which the last is repeated. An outcome is
 *  a word (`ok`, `exit:7`, `lost`), a status of HTTP (503), or an object with the output of a success: `{ ok: { total: 3 } }`. */
import { asObject, checkKeys, fieldPath, isPlain } from "../check.ts";
import type { Outcome } from "../decision/outcome.ts";
import { toMs } from "../duration.ts";
import { ConfigError } from "../errors.ts";
import type { StepType } from "../playbook/playbook.ts";
import { type PlayedOutcome, playedOutcome } from "../simulate/played-outcome.ts";

export interface ScriptedOutcome {
  readonly played: PlayedOutcome;
  /** How long the attempt takes; null: as in the scenario. */
  readonly takesMs: number | null;
  /** The output of a success; undefined: none is given. */
  readonly output: unknown;
}

/** By the name of a step, `NAME[INDEX]` for an item of a loop, `NAME/NAME` for a step of a run below, `*` for all others. */
export type OutcomeScript = ReadonlyMap<string, readonly ScriptedOutcome[]>;

const MAX_OUTCOMES = 10_000;
const FIELDS = ["ok", "outcome", "takes"] as const;

/** Checks a script; throws a `ConfigError` with the path of a mistake. */
export function outcomeScript(value: unknown, path = "outcomes"): OutcomeScript {
  const script = new Map<string, readonly ScriptedOutcome[]>();
  for (const [name, given] of Object.entries(asObject(value, path))) {
    const at = fieldPath(path, name);
    const list: readonly unknown[] = Array.isArray(given) ? given : [given];
    if (list.length === 0 || list.length > MAX_OUTCOMES) {
      throw new ConfigError({ path: at, given: list.length, allowed: `1 to ${MAX_OUTCOMES} outcomes` });
    }
    script.set(
      name,
      list.map((each, i) => scripted(each, Array.isArray(given) ? `${at}[${i}]` : at)),
    );
  }
  return script;
}

function scripted(value: unknown, path: string): ScriptedOutcome {
  if (typeof value === "number")
    return { played: playedOutcome(`http:${value}`, path), takesMs: null, output: undefined };
  if (typeof value === "string") return { played: playedOutcome(value, path), takesMs: null, output: undefined };
  if (!isPlain(value)) {
    const allowed = "a word such as ok or lost, a status such as 503, or an object such as { ok: { total: 3 } }";
    throw new ConfigError({ path, given: value, allowed });
  }
  checkKeys(value, FIELDS, path);
  const { ok, outcome, takes } = value as { ok?: unknown; outcome?: unknown; takes?: unknown };
  const takesMs = takes === undefined ? null : toMs(takes, fieldPath(path, "takes"));
  if (ok !== undefined && outcome !== undefined) {
    throw new ConfigError({
      path: fieldPath(path, "outcome"),
      given: outcome,
      problem: "cannot be used together with ok",
    });
  }
  if (outcome === undefined) return { played: playedOutcome("ok", path), takesMs, output: ok };
  return { ...scripted(outcome, fieldPath(path, "outcome")), takesMs };
}

/** The outcome with a result as an executor of this type returns it. */
export function resultOf(type: StepType, outcome: Outcome, output: unknown): Outcome {
  if (outcome.kind !== "completed") return outcome;
  return { ...outcome, result: shaped(type, outcome.result, output) };
}

function shaped(type: StepType, result: unknown, output: unknown): unknown {
  switch (type) {
    case "http":
      if (hasKeys(output, ["status_code", "body"])) return output;
      return {
        status_code: hasKeys(result, ["status_code"]) ? result.status_code : 200,
        headers: {},
        body: output ?? null,
      };
    case "python":
    case "shell":
    case "exec": {
      const text = typeof output === "string" ? output : "";
      const streams = { stdout: { bytes: text.length, dropped: 0, text }, stderr: { bytes: 0, dropped: 0 } };
      return { exitCode: 0, output: output ?? null, outputs: [], ...streams };
    }
    case "postgres":
      if (Array.isArray(output)) return { rows: output, rowCount: output.length };
      return output ?? { rows: [], rowCount: 0 };
    default:
      return output ?? null;
  }
}

function hasKeys(value: unknown, keys: readonly string[]): value is Record<string, unknown> {
  return isPlain(value) && keys.every((key) => Object.hasOwn(value, key));
}
