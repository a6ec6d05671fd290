/** `perdure resubmit`: a job like another, with another prompt, model or role for an AgentTask, or another command. */
import { documentsOf } from "../../../cli/apply/documents.ts";
import { usageError } from "../../../cli/exit.ts";
import type { Perdure } from "../../../core/api.ts";
import type { JobInfo } from "../../../core/job/views.ts";
import type { JobCopier, ResubmitRequest } from "../../cli/dialect-cli.ts";
import type { ReadEntry } from "../../dialect.ts";
import { resubmit, withChangesKept } from "../change.ts";
import { jobDifferences } from "../differences.ts";
import { readValues } from "../values.ts";

/** Reads its options, and the files with roles. */
export async function agentCopier({ given, io, command }: ResubmitRequest): Promise<JobCopier> {
  const [prompt, model, role] = [given.text("prompt"), given.text("model"), given.text("role")];
  const files = given.texts("file");
  if (files.length > 0 && role === undefined) throw usageError("--file requires --role");
  const roles = (await documentsOf({ files, io, dialect: "agent-task" })).map(({ yaml }) => yaml.value);
  const change = {
    ...(role === undefined ? {} : { role }),
    ...(prompt === undefined ? {} : { prompt }),
    ...(model === undefined ? {} : { model }),
    ...(command === null ? {} : { command }),
  };
  return {
    resubmit: (perdure, id, { key, others, settings }) => {
      const options = { roles, ...(key === undefined ? {} : { key }) };
      return resubmit(withChange(perdure, others, settings), id, change, options);
    },
    notes: (before, after) => (role === undefined ? [] : roleNotes(before, after)),
  };
}

/** Submits jobs with the change applied. */
function withChange(
  perdure: Perdure,
  change: (entry: ReadEntry) => ReadEntry,
  dialectSettings: Perdure["dialectSettings"],
): Pick<Perdure, "job" | "submit" | "dialectSettings"> {
  const submit = (kind: string, input?: unknown, given: NonNullable<ReadEntry["options"]> = {}) => {
    const before = { task: kind, input, options: given };
    const { task, input: changed, options } = withChangesKept(before, change(before));
    return perdure.submit(task, changed, options);
  };
  return { job: (id) => perdure.job(id), submit: submit as Perdure["submit"], dialectSettings };
}

function roleNotes(before: JobInfo, after: JobInfo): string[] {
  const texts = jobDifferences(before, after).map(({ text }) => text);
  const changes = `changed: ${texts.join("; ") || "nothing"}`;
  if (readValues(before) !== null) return [changes];
  return ["stored by an earlier version: its retry, model and budget count as its own values", changes];
}
