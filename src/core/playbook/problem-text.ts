/** Problems of a playbook as text: `orders.yaml:12:9: error: unknown step "proces"; did you mean "process"? [unknown_step]`. */
import type { LocatedProblem } from "../api/playbooks.ts";
import type { PlaybookProblem, SourcePath } from "./problem.ts";

/** Counted from 1. */
export interface TextPosition {
  readonly line: number;
  readonly column: number;
}

/** The position of a part of the document, or of a character of its text; null if it is not known. */
export type FindPosition = (path: SourcePath, offset: number | null) => TextPosition | null;

/** With positions, in their order; problems without one are first. */
export function locateProblems(problems: readonly PlaybookProblem[], find: FindPosition): LocatedProblem[] {
  const located = problems.map((problem): LocatedProblem => {
    const at = find(problem.path, problem.offset);
    return { ...problem, line: at?.line ?? null, column: at?.column ?? null };
  });
  const order = (a: number | null, b: number | null) => (a ?? 0) - (b ?? 0);
  return located.toSorted((a, b) => order(a.line, b.line) || order(a.column, b.column));
}

/** One line. Without a position, it has the path. */
export function problemText(problem: LocatedProblem, file: string): string {
  const { line, column, path, severity, message, code } = problem;
  const at = line === null ? pathText(path) : "";
  const place = line === null ? file : `${file}:${line}:${column ?? 1}`;
  return `${place}: ${severity}: ${at === "" ? "" : `${at}: `}${message} [${code}]`;
}

/** `workflow[2].next[0].step` */
export function pathText(path: SourcePath): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === "number") return `${text}[${part}]`;
    if (!/^[A-Za-z_][\w-]*$/.test(part)) return `${text}[${JSON.stringify(part)}]`;
    return text === "" ? part : `${text}.${part}`;
  }, "");
}
