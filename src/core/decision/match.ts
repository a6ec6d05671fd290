/** The steps of a decision in their order, and the part of a policy or an outcome that decided. Both are stored with it; their
 *  texts are here and in `explain/decision-text.ts`. */
import type { PresetName } from "../policy/policy.ts";
import type { FoundPart } from "./message-parts.ts";
import type { Outcome } from "./outcome.ts";

/** The steps as in docs/lifecycle.md, in the order in which `decide` takes them: the first that applies decides. */
export const DECISION_STEPS = [
  /** The attempt completed and is not polled again. */
  "completed",
  /** A cancel was requested. */
  "cancel",
  /** A budget of tokens or money is used up. */
  "budget",
  /** It waits for its children. */
  "children",
  /** It was handed back, which does not count as an attempt. */
  "handback",
  /** Its deadline for starting passed. */
  "deadline",
  /** The poison guard stopped it. */
  "poison",
  /** The policy, or the task itself, does not allow a retry. */
  "not_retryable",
  /** The attempts or retries that it counts against are used up. */
  "exhausted",
  /** The next attempt would start later than `maxElapsed` allows. */
  "elapsed",
  /** It is retried. */
  "retry",
] as const;

/** The step that decided: the first that applied.
 *  @example
 *  const step: DecisionStep = decide(running, outcome, Date.now(), 0.5).step; */
export type DecisionStep = (typeof DECISION_STEPS)[number];

/** The part of the policy or of the outcome that decided, where the step is not enough. `line` is the line of text in which an
 *  entry or a part of a rule was found.
 *  @example
 *  const isOwnRule = (match: Match) => match.by === "rule"; */
export type Match =
  /** `rules[index]`; `conditions` are those of the rule, with the values that matched. */
  | { readonly by: "rule"; readonly index: number; readonly conditions?: string; readonly line?: string }
  /** A fallback rule of the preset. */
  | { readonly by: "preset"; readonly preset: PresetName; readonly conditions?: string; readonly line?: string }
  | {
      readonly by: "list";
      readonly list: "retryOn" | "noRetryOn";
      /** The part of a message that matched. Absent from decisions of versions before 0.1.0. */
      readonly entry?: string;
      readonly line?: string;
    }
  | {
      readonly by: "exitCodes";
      readonly list: "retryOnExitCodes" | "noRetryOnExitCodes";
      /** Absent where the list has no such code. */
      readonly code?: number;
    }
  | { readonly by: "condition"; readonly condition: "retryWhen" | "stopWhen" }
  | { readonly by: "onTimeout" }
  /** Nothing else matched. `unknownLists` are lists of phrases that the policy names and this version does not have. */
  | { readonly by: "onUnknown"; readonly unknownLists?: readonly string[] }
  /** The task reported that no retry can help. */
  | { readonly by: "task" }
  | { readonly by: "invalidInput" }
  /** It was due for longer than `expireIn`. */
  | { readonly by: "queueTimeout" }
  | { readonly by: "loss"; readonly why: (Outcome & { kind: "lost" })["why"] }
  /** Released by a shutdown, or before it started; and so often that it counts as lost. */
  | { readonly by: "interrupted" | "released" }
  | { readonly by: "handbacks"; readonly count: number };

/** A short name: a field of the policy where it is one (`rules[1]`, `retryOn`). */
export function matchName(match: Match): string {
  switch (match.by) {
    case "rule":
      return `rules[${match.index}]`;
    case "preset":
      return `preset ${match.preset}`;
    case "list":
    case "exitCodes":
      return match.list;
    case "condition":
      return match.condition;
    case "onTimeout":
    case "onUnknown":
    case "interrupted":
    case "released":
      return match.by;
    case "task":
      return "rejected by the task";
    case "invalidInput":
      return "invalid input";
    case "queueTimeout":
      return "queue timeout";
    case "loss":
      return match.why;
    case "handbacks":
      return `handed back ${match.count} times in a row`;
  }
}

/** The part of the list or rule; null where there is none, or none is stored. */
export function matchPart(match: Match): string | null {
  switch (match.by) {
    case "rule":
    case "preset":
      return match.conditions ?? null;
    case "list":
      return match.entry ?? null;
    case "exitCodes":
      return match.code === undefined ? null : String(match.code);
    case "onUnknown": {
      const lists = match.unknownLists?.map((name) => `lines ${JSON.stringify(name)}`);
      return lists === undefined ? null : `this version does not know ${lists.join(", ")}`;
    }
    case "condition":
    case "onTimeout":
    case "interrupted":
    case "released":
    case "task":
    case "invalidInput":
    case "queueTimeout":
    case "loss":
    case "handbacks":
      return null;
  }
}

/** The line that contains the part. */
export function matchLine(match: Match | undefined): string | null {
  return (match !== undefined && "line" in match ? match.line : null) ?? null;
}

/** The name with the part: `retryOn "heartbeat ... stale"`, `rules[0] (exitCode 75)`. Not escaped for terminals. */
export function matchText(match: Match): string {
  const part = matchPart(match);
  if (part === null) return matchName(match);
  return match.by === "list" ? `${match.list} ${JSON.stringify(part)}` : `${matchName(match)} (${part})`;
}

export function ruleMatch(index: number, found: FoundPart | null): Match {
  return withFound({ by: "rule", index }, found);
}

export function presetMatch(preset: PresetName, found: FoundPart | null): Match {
  return withFound({ by: "preset", preset }, found);
}

function withFound(match: Match & { by: "rule" | "preset" }, found: FoundPart | null): Match {
  if (found === null) return match;
  const { part: conditions, line } = found;
  return line === null ? { ...match, conditions } : { ...match, conditions, line };
}

export function listMatch(list: "retryOn" | "noRetryOn", { part: entry, line }: FoundPart): Match {
  return line === null ? { by: "list", list, entry } : { by: "list", list, entry, line };
}
