/** The outcome of a command. Its own verdict (result.json) comes first; without one its exit status decides. */
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
const HOW = "write result.json as a small plain file, and large output to artifacts/";

/** `line` is the summary of its stderr, and `tail` its last lines. */
export function endOf(end: EndedCommand, verdict: CommandVerdict, line: string, tail = ""): CommandOutcome {
  const exitCode = exitCodeOf(end);
  const byVerdict = endByVerdict(verdict, exitCode);
  if (byVerdict !== null) return byVerdict.kind === "completed" ? { ...byVerdict, exitCode } : byVerdict;
  const bad = () => ({ kind: "failed", failure: badEnd(end, exitCode, { line, tail, verdict }) }) as const;
  // It was stopped early: an exit code of 0 then only means a clean shutdown.
  if (end.wasStopped) return bad();
  if (exitCode === 0 && verdict.kind === "malformed" && verdict.isRefused === true) {
    // The work is done, and another attempt would do it again with the same result.json, so it is not retried.
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

/** A failure, with the last lines of stderr as its stack, and a note of a malformed result.json. */
function badEnd(end: EndedCommand, exitCode: number, { line, tail, verdict }: EndEvidence): Failure {
  const cause = causeOf(end, exitCode, line);
  const text = tail.trim();
  const stack = text === "" || text === line ? null : text;
  if (verdict.kind !== "malformed") return { ...cause, stack };
  // The exit status decides, but the author of the command should learn of the mistake.
  const message = `${cause.message}; its result.json is malformed: ${verdict.why}`;
  return { ...cause, stack, message, code: cause.code ?? MALFORMED };
}

/** As in shells: 128 + n after signal n. */
function exitCodeOf({ exitCode, signal }: EndedCommand): number {
  return signal === null ? (exitCode ?? 1) : 128 + (constants.signals[signal] ?? 0);
}

function causeOf({ signal, exceeded, isOutOfMemory }: EndedCommand, exitCode: number, line: string): Failure {
  const details = line === "" ? "" : `: ${storable(line, MAX_LINE)}`;
  if (exceeded?.kind === "memory") {
    const message = `out of memory: used ${exceeded.used} bytes, over its limit${details}`;
    return failure({ kind: "oom", message, exitCode, signal, code: "limit_memory" });
  }
  if (exceeded?.kind === "processes") {
    const message = `too many processes: ${exceeded.used}, over its limit${details}`;
    return failure({ kind: "signal", message, exitCode, signal, code: "limit_processes" });
  }
  if (isOutOfMemory) {
    const message = `out of memory: killed by the system${details}`;
    return failure({ kind: "oom", message, exitCode, signal });
  }
  if (signal !== null) return failure({ kind: "signal", message: `signal ${signal}${details}`, exitCode, signal });
  return failure({ kind: "exit", message: `exit code ${exitCode}${details}`, exitCode });
}
