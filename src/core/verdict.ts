/** What a command says of itself in result.json. A verdict counts whatever the exit code, and whatever became of its worker. An
 *  object without `status` is output only. */
import { isPlain } from "./check.ts";
import { MAX_WAITS_FOR } from "./child.ts";
import { type Failure, failure } from "./failure.ts";
import type { Usage } from "./job.ts";
import { troubleIn, usageIn } from "./said-usage.ts";

/** A file beyond these is not read. Less than a result may hold: there is more in it than this. */
export const VERDICT_LIMITS = { bytes: 786_432, depth: 64 } as const;

export type Verdict =
  | { readonly kind: "none" }
  | { readonly kind: "output"; readonly output: unknown; readonly usage: Usage | null }
  | {
      readonly kind: "completed" | "failed" | "budget_exceeded";
      readonly reason: string | null;
      /** The error's name for programs (`worker_oom`), where it is not the reason itself. */
      readonly code: string | null;
      readonly output: unknown;
      readonly usage: Usage | null;
      /** Why not all that it says of usage is counted. */
      readonly usageTrouble: string | null;
    }
  /** It ends here, and goes on when these have ended. */
  | {
      readonly kind: "waiting";
      readonly children: readonly string[];
      readonly usage: Usage | null;
      readonly usageTrouble: string | null;
    }
  /** Refused is a file that is never read: one that is too large, or is not a plain file. */
  | { readonly kind: "malformed"; readonly why: string; readonly isRefused?: true };

const MAX_REASON = 2_000;
const MAX_ID = 100;

export function verdictIn(value: unknown): Verdict {
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

/** Where `reason` says nothing, the names that other systems have for it: what was said must reach whoever asks. */
const REASONS = ["reason", "error", "message", "summary"];

function reasonIn(value: object): string | null {
  const said = new Map(Object.entries(value));
  for (const name of REASONS) {
    const text = said.get(name);
    if (typeof text === "string" && text.trim() !== "") return text.slice(0, MAX_REASON);
  }
  return null;
}

/** A `code` or `error` of one word, beside a reason for people. */
function codeIn(value: object, reason: string | null): string | null {
  const fields = new Map<string, unknown>(Object.entries(value));
  const isCode = (text: unknown): text is string => typeof text === "string" && text !== reason && CODE.test(text);
  return ["code", "error"].map((name) => fields.get(name)).find(isCode) ?? null;
}

const CODE = /^[\w.-]{1,100}$/;

function waitingIn(value: object): Verdict {
  const { children } = value as { children?: unknown };
  const isId = (id: unknown) => typeof id === "string" && id !== "" && id.length <= MAX_ID;
  if (!Array.isArray(children) || children.length === 0 || children.length > MAX_WAITS_FOR || !children.every(isId)) {
    const why = `it is waiting, and its children are no list of 1 to ${MAX_WAITS_FOR} ids`;
    return { kind: "malformed", why };
  }
  return { kind: "waiting", children: [...new Set<string>(children)], ...usedIn(value) };
}

function usedIn(value: object) {
  const { usage: said } = value as { usage?: unknown };
  return { usage: usageIn(value), usageTrouble: said === undefined || said === null ? null : troubleIn(said) };
}

export function isVerdict({ kind }: Verdict): boolean {
  return kind === "completed" || kind === "failed" || kind === "budget_exceeded" || kind === "waiting";
}

export type EndByVerdict =
  | { readonly kind: "completed"; readonly output: unknown }
  | { readonly kind: "waiting"; readonly children: readonly string[] }
  | { readonly kind: "failed"; readonly failure: Failure };

/** What a verdict makes of the attempt; null where it is none. `exitCode`: null where nobody saw the command end. */
export function endByVerdict(verdict: Verdict, exitCode: number | null): EndByVerdict | null {
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
