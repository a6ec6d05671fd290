/** Whether a rule matches a failure, and by what. Pure, and in time that grows with the texts alone. */
import type { Failure } from "./failure.ts";
import { lineList } from "./line-lists.ts";
import { findInLines } from "./line-phrases.ts";
import { type FoundPart, findPart, findWord } from "./message-parts.ts";
import type { Rule } from "./policy.ts";

/** The conditions of the rule with the values of theirs that matched, and the line of the message part; null if it does not match. */
export function matchOf({ if: wanted }: Rule, cause: Failure, attempt: number): FoundPart | null {
  const parts: string[] = [];
  const has = <T>(name: string, values: readonly T[] | null, found: T | null): boolean => {
    if (values === null) return true;
    if (found === null || !values.includes(found)) return false;
    parts.push(`${name} ${found}`);
    return true;
  };
  if (!has("kind", wanted.kind, cause.kind)) return null;
  if (!has("exitCode", wanted.exitCode, cause.exitCode)) return null;
  if (!has("signal", wanted.signal, cause.signal)) return null;
  if (!has("error", wanted.error, cause.name)) return null;
  if (!has("attempt", wanted.attempt, attempt)) return null;
  if (wanted.status !== null) {
    const { status } = cause;
    const range = status === null ? undefined : wanted.status.find(([low, high]) => status >= low && status <= high);
    if (range === undefined) return null;
    parts.push(`status ${range[0] === range[1] ? range[0] : range.join("-")}`);
  }
  let line: string | null = null;
  if (wanted.message !== null) {
    const found = findPart(messageOf(cause), wanted.message);
    if (found === null) return null;
    parts.push(`message ${JSON.stringify(found.part)}`);
    line = found.line;
  }
  if (wanted.words !== undefined) {
    const found = findWord(messageOf(cause), wanted.words);
    if (found === null) return null;
    parts.push(`message ${JSON.stringify(found.part)}`);
    line = found.line;
  }
  if (wanted.lines !== undefined) {
    const list = lineList(wanted.lines);
    const found = list === null ? null : findInLines(linesOf(cause), list);
    if (found === null) return null;
    parts.push(`lines ${JSON.stringify(found.part)}`);
    line = found.line;
  }
  return { part: parts.join(", "), line };
}

/** Parts are searched for in the message and in the code: `ECONNRESET` is often only there. */
export function messageOf({ message, code }: Failure): string {
  return `${message} ${code ?? ""}`;
}

/** The last lines of a command, and behind them the message: that is the line of the error itself. */
function linesOf(cause: Failure): string[] {
  const { name } = cause;
  const message = name === null || name === "Error" ? messageOf(cause) : `${name}: ${messageOf(cause)}`;
  return [...aroundOf(cause).split("\n"), ...message.split("\n")];
}

/** Where the lists search for what is not in the message: programs explain themselves in several lines of stderr, and which of
 *  them is the message is a guess. Stacks of errors name files, and are not searched. */
export function aroundOf({ kind, stack }: Failure): string {
  const isCommand = kind === "exit" || kind === "signal" || kind === "oom";
  return isCommand && stack !== null ? stack : "";
}
