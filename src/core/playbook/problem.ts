/** Problems of a playbook, each with its place in the file. A reader reports all of them at once. */
import type { Playbook } from "./playbook.ts";

/** The place of a value in a document: `["workflow", 2, "next", 0, "step"]`.
 *  @example
 *  const place: SourcePath = ["workflow", 2, "url"]; */
export type SourcePath = readonly (string | number)[];

export const PROBLEM_CODES = [
  "not_a_playbook",
  "unknown_field",
  "invalid_value",
  "keyword_refused",
  "tool_unknown",
  "duplicate_step",
  "reserved_name",
  "unknown_step",
  "unknown_name",
  "unknown_playbook",
  "unreachable",
  "inline_cycle",
  "join_in_cycle",
  "too_large",
  "template_syntax",
  "template_statement",
  "template_call",
  "shell_place",
  "shell_raw",
  "sql_place",
  "secret_place",
  "save_storage",
  "loop_option",
  "credential",
  "case_action",
] as const;
export type ProblemCode = (typeof PROBLEM_CODES)[number];

/** A mistake in a playbook, or a warning about it.
 *  @example
 *  const isFatal = (problem: PlaybookProblem) => problem.severity === "error"; */
export interface PlaybookProblem {
  readonly code: ProblemCode;
  readonly severity: "error" | "warning";
  /** The field or item; of one that is missing, where it would be. */
  readonly path: SourcePath;
  /** Within the text of the value, from 0; null for the value itself. */
  readonly offset: number | null;
  /** Without the place: `unknown step "proces"; did you mean "process"?` */
  readonly message: string;
}

/** A document that was read. */
export interface ReadPlaybook {
  /** Null if a problem is an error. */
  readonly playbook: Playbook | null;
  /** The code of python steps by its SHA-256, which the playbook names. */
  readonly assets: ReadonlyMap<string, string>;
  readonly problems: readonly PlaybookProblem[];
  /** What is not done as the document asks, or is done otherwise, in sentences. */
  readonly notes: readonly string[];
}

/** Where the parts of the compiled playbook come from: `steps[3].arcs[0].when` to its place in the document. A part without an entry
 *  has the place of the nearest part around it. */
export type SourceMap = ReadonlyMap<string, SourcePath>;
