/** How a failure is printed for people: its message, and the line that decided about it where the message is another one. */
import type { Failure } from "./failure.ts";

/** `exit code 1: bye (HTTP 401 Unauthorized)`. */
export function failureText({ message, line }: Pick<Failure, "message" | "line">): string {
  return line === undefined ? message : `${message} (${line})`;
}

/** The line that a rule or list matched, cut as it is stored; undefined where the failure's own fields have it. */
export function lineBeside({ name, message, code }: Failure, line: string | null): string | undefined {
  if (line === null) return undefined;
  const own = `${name ?? ""}: ${message} ${code ?? ""}`.toLowerCase();
  const part = line.replace(/^…/, "").replace(/…$/, "").toLowerCase();
  return own.includes(part) ? undefined : line;
}
