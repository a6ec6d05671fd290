/** What a command says of itself in result.json. A verdict counts whatever the exit code. An object without `status` is output
 *  only. */
import { isPlain } from "../../core/check.ts";
import { MAX_WAITS_FOR } from "../../core/child.ts";
import type { Usage } from "../../core/job.ts";
import { readSmallJson } from "./small-json.ts";
import { troubleIn, usageIn } from "./usage-file.ts";

export type Verdict =
  | { readonly kind: "none" }
  | { readonly kind: "output"; readonly output: unknown; readonly usage: Usage | null }
  | {
      readonly kind: "completed" | "failed" | "budget_exceeded";
      readonly reason: string | null;
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
  | { readonly kind: "malformed"; readonly why: string };

const MAX_REASON = 2_000;
const MAX_ID = 100;

export async function readVerdict(path: string): Promise<Verdict> {
  const read = await readSmallJson(path);
  if (read === null) return { kind: "none" };
  if ("why" in read) return { kind: "malformed", why: read.why };
  const { value } = read;
  if (!isPlain(value) || !Object.hasOwn(value, "status")) {
    return { kind: "output", output: value, usage: usageIn(value) };
  }
  const { status, output } = value as { status: unknown; output?: unknown };
  if (status === "waiting") return waitingIn(value);
  if (status !== "completed" && status !== "failed" && status !== "budget_exceeded") {
    const why = `its status is ${JSON.stringify(status)}, not "completed", "failed", "budget_exceeded" or "waiting"`;
    return { kind: "malformed", why };
  }
  return { kind: status, reason: reasonIn(value), output: output ?? null, ...usedIn(value) };
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
