/** The verdict and the usage that a command reports in result.json. A verdict counts whatever the exit code. */
import { isPlain } from "../check.ts";
import { type Failure, failure } from "../decision/failure.ts";
import { show } from "../errors.ts";
import type { Usage } from "../job/job.ts";
import { MAX_WAITS_FOR } from "../task/task.ts";

const MAX_USAGE = 1e15;

const NAMES = {
  tokensIn: ["tokensIn", "tokens_in", "input_tokens"],
  tokensOut: ["tokensOut", "tokens_out", "output_tokens"],
  costUsd: ["costUsd", "cost_usd"],
} as const;
const ALL_NAMES: readonly string[] = Object.values(NAMES).flat();

/** Why a part of the reported usage is ignored; null where none is. Reported to the user, as a budget would not be used up. */
export function troubleIn(reported: unknown): string | null {
  if (!isPlain(reported)) return `must be an object; got ${show(reported)}`;
  const known = Object.entries(reported).filter(([name]) => ALL_NAMES.includes(name));
  if (known.length === 0) return `has none of ${NAMES.tokensIn[1]}, ${NAMES.tokensOut[1]} and ${NAMES.costUsd[1]}`;
  const wrong = known.find(([, number]) => !isCounted(number));
  return wrong === undefined ? null : `${wrong[0]}: must be a number of at least 0; got ${show(wrong[1])}`;
}

export function usageIn(value: unknown): Usage | null {
  const given = isPlain(value) && Object.hasOwn(value, "usage") ? (value as { usage: unknown }).usage : null;
  if (!isPlain(given)) return null;
  const read = (names: readonly string[]) => {
    const name = names.find((each) => Object.hasOwn(given, each));
    const number = name === undefined ? 0 : (given as Record<string, unknown>)[name];
    return isCounted(number) ? Math.min(number, MAX_USAGE) : 0;
  };
  const tokens = (names: readonly string[]) => Math.round(read(names));
  const usage = {
    tokensIn: tokens(NAMES.tokensIn),
    tokensOut: tokens(NAMES.tokensOut),
    costUsd: read(NAMES.costUsd),
  };
  return usage.tokensIn + usage.tokensOut + usage.costUsd === 0 ? null : usage;
}

/** Anything else would make the sums invalid. */
function isCounted(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}

/** A file beyond these limits is not read. They are below those of a result, which contains more. */
export const VERDICT_LIMITS = { bytes: 786_432, depth: 64 } as const;

export type CommandVerdict =
  | { readonly kind: "none" }
  | { readonly kind: "output"; readonly output: unknown; readonly usage: Usage | null }
  | {
      readonly kind: "completed" | "failed" | "budget_exceeded";
      readonly reason: string | null;
      /** The code of the error (`worker_oom`), where it is not the reason itself. */
      readonly code: string | null;
      readonly output: unknown;
      readonly usage: Usage | null;
      /** Why a part of its usage is ignored. */
      readonly usageTrouble: string | null;
    }
  /** It ends, and runs again when these jobs have ended. */
  | {
      readonly kind: "waiting";
      readonly children: readonly string[];
      readonly usage: Usage | null;
      readonly usageTrouble: string | null;
    }
  /** `isRefused`: a file that is too large, or not a plain file, and was not read. */
  | { readonly kind: "malformed"; readonly why: string; readonly isRefused?: true };

const MAX_REASON = 2_000;
const MAX_ID = 100;

export function verdictIn(value: unknown): CommandVerdict {
  if (!isPlain(value) || !Object.hasOwn(value, "status")) {
    return { kind: "output", output: value, usage: usageIn(value) };
  }
  const { status, output } = value as { status: unknown; output?: unknown };
  if (status === "waiting") return waitingIn(value);
  if (status !== "completed" && status !== "failed" && status !== "budget_exceeded") {
    const why = `its status is ${JSON.stringify(status)}, not "completed", "failed", "budget_exceeded" or "waiting"`;
    return { kind: "malformed", why };
  }
  const reason = reasonIn(value);
  return { kind: status, reason, code: codeIn(value, reason), output: output ?? null, ...usedIn(value) };
}

/** The fields for the reason, in order; the others are the names of other systems. */
const REASONS = ["reason", "error", "message", "summary"];

function reasonIn(value: object): string | null {
  const fields = new Map(Object.entries(value));
  for (const name of REASONS) {
    const text = fields.get(name);
    if (typeof text === "string" && text.trim() !== "") return text.slice(0, MAX_REASON);
  }
  return null;
}

/** A `code` or `error` of one word that is not the reason. */
function codeIn(value: object, reason: string | null): string | null {
  const fields = new Map<string, unknown>(Object.entries(value));
  const isCode = (text: unknown): text is string => typeof text === "string" && text !== reason && CODE.test(text);
  return ["code", "error"].map((name) => fields.get(name)).find(isCode) ?? null;
}

const CODE = /^[\w.-]{1,100}$/;

function waitingIn(value: object): CommandVerdict {
  const { children } = value as { children?: unknown };
  const isId = (id: unknown) => typeof id === "string" && id !== "" && id.length <= MAX_ID;
  if (!Array.isArray(children) || children.length === 0 || children.length > MAX_WAITS_FOR || !children.every(isId)) {
    const why = `its status is waiting, but its children are not a list of 1 to ${MAX_WAITS_FOR} ids`;
    return { kind: "malformed", why };
  }
  return { kind: "waiting", children: [...new Set<string>(children)], ...usedIn(value) };
}

function usedIn(value: object) {
  const { usage } = value as { usage?: unknown };
  return { usage: usageIn(value), usageTrouble: usage === undefined || usage === null ? null : troubleIn(usage) };
}

export function isVerdict({ kind }: CommandVerdict): boolean {
  return kind === "completed" || kind === "failed" || kind === "budget_exceeded" || kind === "waiting";
}

type EndByVerdict =
  | { readonly kind: "completed"; readonly output: unknown }
  | { readonly kind: "waiting"; readonly children: readonly string[] }
  | { readonly kind: "failed"; readonly failure: Failure };

/** The end of the attempt by its verdict; null without one. `exitCode` is null where the worker was lost. */
export function endByVerdict(verdict: CommandVerdict, exitCode: number | null): EndByVerdict | null {
  if (verdict.kind === "completed") return { kind: "completed", output: verdict.output };
  if (verdict.kind === "waiting") return { kind: "waiting", children: verdict.children };
  if (verdict.kind === "failed") {
    const message = verdict.reason ?? "the command's verdict is failed, without a reason";
    const { code } = verdict;
    return { kind: "failed", failure: failure({ kind: "result", class: "logical", message, code, exitCode }) };
  }
  if (verdict.kind === "budget_exceeded") {
    const message = verdict.reason ?? "the command reports that its budget is exceeded";
    return { kind: "failed", failure: failure({ kind: "result", class: "budget", message, exitCode }) };
  }
  return null;
}
