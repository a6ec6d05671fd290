/** What a command says of itself in files: a verdict in result.json, and what it has used so far in usage.json.
 *  A verdict counts whatever the exit code. An object without `status` is output only. */
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { isPlain } from "../../core/check.ts";
import { MAX_WAITS_FOR } from "../../core/child.ts";
import type { Usage } from "../../core/job.ts";
import { jsonDepth } from "../../lib/json-depth.ts";

export type Verdict =
  | { readonly kind: "none" }
  | { readonly kind: "output"; readonly output: unknown; readonly usage: Usage | null }
  | {
      readonly kind: "completed" | "failed";
      readonly reason: string | null;
      readonly output: unknown;
      readonly usage: Usage | null;
    }
  /** It ends here, and goes on when these have ended. */
  | { readonly kind: "waiting"; readonly children: readonly string[]; readonly usage: Usage | null }
  | { readonly kind: "malformed"; readonly why: string };

/** Less than a result may hold: there is more in it than this. */
const MAX_BYTES = 786_432;
const MAX_REASON = 2_000;
const MAX_DEPTH = 64;
const MAX_USAGE = 1e15;
const MAX_ID = 100;

export async function readVerdict(path: string): Promise<Verdict> {
  const text = await readSmall(path);
  if (text === null) return { kind: "none" };
  if (typeof text !== "string") return { kind: "malformed", why: text.why };
  if (jsonDepth(text) > MAX_DEPTH) return { kind: "malformed", why: `it is nested more than ${MAX_DEPTH} levels deep` };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { kind: "malformed", why: (error as Error).message };
  }
  if (!isPlain(value) || !Object.hasOwn(value, "status")) {
    return { kind: "output", output: value, usage: usageIn(value) };
  }
  const { status, output } = value as { status: unknown; output?: unknown };
  if (status === "waiting") return waitingIn(value);
  if (status !== "completed" && status !== "failed") {
    const why = `its status is ${JSON.stringify(status)}, not "completed", "failed" or "waiting"`;
    return { kind: "malformed", why };
  }
  return { kind: status, reason: reasonIn(value), output: output ?? null, usage: usageIn(value) };
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
  return { kind: "waiting", children: [...new Set<string>(children)], usage: usageIn(value) };
}

/** What a usage file says now; null while there is none, or it is being written. */
export async function readUsage(path: string): Promise<Usage | null> {
  const text = await readSmall(path);
  if (typeof text !== "string" || jsonDepth(text) > MAX_DEPTH) return null;
  try {
    const value: unknown = JSON.parse(text);
    return usageIn({ usage: value }) ?? usageIn(value);
  } catch {
    return null;
  }
}

const NAMES = {
  tokensIn: ["tokensIn", "tokens_in", "input_tokens"],
  tokensOut: ["tokensOut", "tokens_out", "output_tokens"],
  costUsd: ["costUsd", "cost_usd"],
} as const;

function usageIn(value: unknown): Usage | null {
  const given = isPlain(value) && Object.hasOwn(value, "usage") ? (value as { usage: unknown }).usage : null;
  if (!isPlain(given)) return null;
  const read = (names: readonly string[]) => {
    const name = names.find((each) => Object.hasOwn(given, each));
    const number = name === undefined ? 0 : (given as Record<string, unknown>)[name];
    // So that sums stay numbers, whatever it says.
    return typeof number === "number" && Number.isFinite(number) && number >= 0 ? Math.min(number, MAX_USAGE) : 0;
  };
  const tokens = (names: readonly string[]) => Math.round(read(names));
  const usage = {
    tokensIn: tokens(NAMES.tokensIn),
    tokensOut: tokens(NAMES.tokensOut),
    costUsd: read(NAMES.costUsd),
  };
  return usage.tokensIn + usage.tokensOut + usage.costUsd === 0 ? null : usage;
}

/** The text of a small file; null if it is not there. Links and pipes are not followed: the command made the file. */
async function readSmall(path: string): Promise<string | { readonly why: string } | null> {
  let file: FileHandle;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === "ENOENT" ? null : { why: `it cannot be read (${code})` };
  }
  try {
    const { size } = await file.stat();
    if (!(await file.stat()).isFile()) return { why: "it is not a file" };
    if (size > MAX_BYTES) return { why: `it has ${size} bytes; at most ${MAX_BYTES} are read` };
    const bytes = await file.readFile();
    return bytes.length === 0 ? { why: "it is empty" } : bytes.toString("utf8");
  } catch (error) {
    return { why: (error as Error).message };
  } finally {
    await file.close();
  }
}
