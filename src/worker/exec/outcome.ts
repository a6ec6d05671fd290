/** What the end of a command means. The command's own verdict comes first; without one its exit status decides. */
import { constants } from "node:os";
import { type Failure, failure } from "../../core/decision/failure.ts";
import { type CommandVerdict, endByVerdict } from "../../core/input/verdict.ts";
import { storable } from "../../lib/text.ts";
import type { CommandEnd } from "./command.ts";

export type CommandOutcome =
  | { readonly kind: "completed"; readonly exitCode: number; readonly output: unknown }
  | { readonly kind: "waiting"; readonly children: readonly string[] }
  | { readonly kind: "failed"; readonly failure: Failure };

type EndedCommand = Extract<CommandEnd, { kind: "ended" }>;

const MAX_LINE = 500;
const MALFORMED = "malformed_result";
const HOW = "write a short result.json as a plain file, and leave large output in artifacts/";

/** `line` of its stderr tells what went wrong, if any does; `tail` is that line with those around it. */
export function endOf(end: EndedCommand, verdict: CommandVerdict, line: string, tail = ""): CommandOutcome {
  const exitCode = exitCodeOf(end);
  const said = endByVerdict(verdict, exitCode);
  if (said !== null) return said.kind === "completed" ? { ...said, exitCode } : said;
  const bad = () => ({ kind: "failed", failure: badEnd(end, exitCode, { line, tail, verdict }) }) as const;
  // It was cut short: an exit code of 0 only says that it stopped in good order.
  if (end.wasAsked) return bad();
  if (exitCode === 0 && verdict.kind === "malformed" && verdict.isRefused === true) {
    // The work is done, and another attempt would do it again and leave the same. What it wanted to report is not known.
    const message = `exit code 0, but its result.json cannot be used: ${verdict.why}; ${HOW}`;
    return {
      kind: "failed",
      failure: failure({ kind: "result", class: "logical", message, exitCode, code: MALFORMED }),
    };
  }
  if (exitCode === 0 && verdict.kind === "malformed") {
    const message = `result.json is malformed: ${verdict.why}`;
    return { kind: "failed", failure: failure({ kind: "result", message, exitCode }) };
  }
  if (exitCode === 0) return { kind: "completed", exitCode, output: verdict.kind === "output" ? verdict.output : null };
  return bad();
}

interface EndEvidence {
  readonly line: string;
  readonly tail: string;
  readonly verdict: CommandVerdict;
}

/** A bad end, with what is left of it besides. */
function badEnd(end: EndedCommand, exitCode: number, { line, tail, verdict }: EndEvidence): Failure {
  const cause = causeOf(end, exitCode, line);
  const text = tail.trim();
  const stack = text === "" || text === line ? null : text;
  if (verdict.kind !== "malformed") return { ...cause, stack };
  // Its exit status decides all the same, but its author meant to say more.
  const message = `${cause.message}; its result.json is malformed: ${verdict.why}`;
  return { ...cause, stack, message, code: cause.code ?? MALFORMED };
}

/** As shells count it: 128 + n for one that was ended by signal n. */
function exitCodeOf({ exitCode, signal }: EndedCommand): number {
  return signal === null ? (exitCode ?? 1) : 128 + (constants.signals[signal] ?? 0);
}

function causeOf({ signal, exceeded, isOutOfMemory }: EndedCommand, exitCode: number, line: string): Failure {
  const said = line === "" ? "" : `: ${storable(line, MAX_LINE)}`;
  if (exceeded?.kind === "memory") {
    const message = `out of memory: it used ${exceeded.used} bytes, more than its limit${said}`;
    return failure({ kind: "oom", message, exitCode, signal, code: "limit_memory" });
  }
  if (exceeded?.kind === "processes") {
    const message = `it had ${exceeded.used} processes, more than its limit${said}`;
    return failure({ kind: "signal", message, exitCode, signal, code: "limit_processes" });
  }
  if (isOutOfMemory) {
    const message = `out of memory: the system killed it${said}`;
    return failure({ kind: "oom", message, exitCode, signal });
  }
  if (signal !== null) return failure({ kind: "signal", message: `signal ${signal}${said}`, exitCode, signal });
  return failure({ kind: "exit", message: `exit code ${exitCode}${said}`, exitCode });
}
