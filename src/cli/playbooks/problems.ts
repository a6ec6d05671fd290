/** Prints the problems of playbooks: one line each, with file, line and column. */
import { counted } from "../../core/format.ts";
import { problemText } from "../../core/playbook/problem-text.ts";
import { CliError, EXIT } from "../exit.ts";
import type { Printer } from "../output/print.ts";
import type { PlaybookFileReading } from "./playbook-files.ts";

export function errorsIn(readings: readonly Pick<PlaybookFileReading, "problems">[]): number {
  return countOf(readings, "error");
}

function countOf(readings: readonly Pick<PlaybookFileReading, "problems">[], severity: "error" | "warning"): number {
  return readings.reduce(
    (sum, { problems }) => sum + problems.filter((problem) => problem.severity === severity).length,
    0,
  );
}

export function problemLines({ file, problems }: Pick<PlaybookFileReading, "file" | "problems">): string[] {
  return problems.map((problem) => problemText(problem, file));
}

/** `2 errors, 1 warning`; null without any. */
export function countsText(readings: readonly Pick<PlaybookFileReading, "problems">[]): string | null {
  const [errors, warnings] = [countOf(readings, "error"), countOf(readings, "warning")];
  const parts = [
    ...(errors === 0 ? [] : [counted(errors, "error")]),
    ...(warnings === 0 ? [] : [counted(warnings, "warning")]),
  ];
  return parts.length === 0 ? null : parts.join(", ");
}

/** For commands that use the playbooks: problems and notes go to stderr. Throws if one is an error. */
export function refuseErrors(out: Printer, readings: readonly PlaybookFileReading[]): void {
  for (const reading of readings) {
    for (const line of problemLines(reading)) out.note(line);
    for (const note of reading.notes) out.note(`note: ${reading.file}: ${note}`);
  }
  const errors = errorsIn(readings);
  if (errors > 0) throw new CliError(EXIT.usage, `${counted(errors, "error")} in playbooks; nothing was stored`);
}
