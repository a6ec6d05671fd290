/** Converts events of earlier versions to the current format. Format 1 (version 0.1.0) has numbers for the steps of a decision,
 *  and texts for what matched. */
import type { DecisionStep, Match } from "../decision/match.ts";
import type { PresetName } from "../policy/policy.ts";
import { EVENT_FORMAT, type JobEvent, type PerdureEvent, type StoredDecision } from "./event.ts";

/** An event in the current format. Events of the engine and newer formats are returned as they are; `foldEvents` refuses the
 *  latter. */
export function currentEvent(event: PerdureEvent): PerdureEvent {
  return event.jobId === null || event.data.v !== 1 ? event : fromFormat1(event);
}

function fromFormat1(event: JobEvent): JobEvent {
  const data = { ...event.data, v: EVENT_FORMAT };
  if (!("decision" in data)) return { ...event, data } as JobEvent;
  const decision = decisionOfFormat1(data.decision as unknown as DecisionOfFormat1);
  return { ...event, data: { ...data, decision } } as JobEvent;
}

/** A decision of format 1. */
export interface DecisionOfFormat1 extends Omit<StoredDecision, "step" | "match"> {
  readonly step: number;
  readonly matched: string;
  readonly matchedPart?: string;
  readonly matchedText?: string;
}

export function decisionOfFormat1(stored: DecisionOfFormat1): StoredDecision {
  const { kind, step, class: cls, matched: _name, matchedPart: _part, matchedText: _text, ...rest } = stored;
  const match = matchOfFormat1(stored);
  const facts = { kind, step: stepOfFormat1(stored), class: cls };
  return match === null ? { ...facts, ...rest } : { ...facts, match, ...rest };
}

const STEPS: Readonly<Record<number, DecisionStep>> = {
  1: "completed",
  2: "cancel",
  3: "budget",
  4: "handback",
  5: "deadline",
  6: "exhausted",
  7: "not_retryable",
  8: "exhausted",
  9: "elapsed",
  10: "retry",
};

/** Steps 4 and 6 are two each. */
function stepOfFormat1({ step, kind, reason }: DecisionOfFormat1): DecisionStep {
  if (step === 4 && kind === "block") return "children";
  if (step === 6 && reason === "poison") return "poison";
  const named = STEPS[step];
  if (named === undefined) throw new Error(`a decision of format 1 has no step ${step}`);
  return named;
}

/** Null where the step is enough, and for a text that version 0.1.0 did not write. */
function matchOfFormat1({ matched, matchedPart: part, matchedText }: DecisionOfFormat1): Match | null {
  const line = matchedText === undefined ? {} : { line: matchedText };
  const conditions = part === undefined ? {} : { conditions: part };
  const rule = /^rules\[(\d+)\]$/.exec(matched);
  if (rule) return { by: "rule", index: Number(rule[1]), ...conditions, ...line };
  if (matched.startsWith("preset ")) {
    return { by: "preset", preset: matched.slice("preset ".length) as PresetName, ...conditions, ...line };
  }
  const handbacks = /^handed back (\d+) times in a row$/.exec(matched);
  if (handbacks) return { by: "handbacks", count: Number(handbacks[1]) };
  switch (matched) {
    case "retryOn":
    case "noRetryOn":
      return { by: "list", list: matched, ...(part === undefined ? {} : { entry: part }), ...line };
    case "retryOnExitCodes":
    case "noRetryOnExitCodes":
      return { by: "exitCodes", list: matched, ...(part === undefined ? {} : { code: Number(part) }) };
    case "retryWhen":
    case "stopWhen":
      return { by: "condition", condition: matched };
    case "onUnknown":
      return part === undefined ? { by: "onUnknown" } : { by: "onUnknown", unknownLists: listsIn(part) };
    case "onTimeout":
    case "interrupted":
    case "released":
      return { by: matched };
    case "the task said no":
      return { by: "task" };
    case "invalid input":
      return { by: "invalidInput" };
    case "queue timeout":
      return { by: "queueTimeout" };
    case "lease_expired":
    case "worker_gone":
    case "killed":
      return { by: "loss", why: matched };
    default:
      return null;
  }
}

/** `this version does not know lines "a", lines "b"` */
function listsIn(text: string): string[] {
  return [...text.matchAll(/lines "([^"]*)/g)].map(([, name = ""]) => name);
}
