/** The inputs of the built-in kinds, checked at submit: a mistake in a command, a request or a statement is reported where it is
 *  submitted, not hours later where it would run. */
import { ConfigError } from "../core/errors.ts";
import { exec, http, postgres } from "../core/input/builtin.ts";
import { connectionLabels } from "../core/input/connections.ts";
import { checkExecInput } from "../core/input/exec-input.ts";
import { checkHttpInput } from "../core/input/http-input.ts";
import { checkPostgresInput } from "../core/input/postgres-input.ts";
import type { AnyTask } from "../core/task/task.ts";

type RequiredLabels = Readonly<Record<string, string>> | null;

/** Our own executors have no defaults for them. */
export function isBuiltin(kind: string): boolean {
  return kind === exec.kind || kind === http.kind || kind === postgres.kind;
}

/** Of a task, or of a kind by its name. A user's own task may have the name of a built-in kind, and any input. Returns the labels
 *  that the job needs besides its own, or null. */
export function checkBuiltin(task: AnyTask | string, input: unknown, upload?: string): RequiredLabels {
  if (typeof task === "string") return checkBuiltinKind(task, input, upload);
  if (task === exec || task === http || task === postgres) return checkBuiltinKind(task.kind, input, upload);
  if (upload !== undefined) throw uploadMisplaced(upload);
  return null;
}

/** Of a kind by its name: without a task it can only be the built-in one. */
export function checkBuiltinKind(kind: string, input: unknown, upload?: string): RequiredLabels {
  if (kind === http.kind) checkHttpInput(input, "http");
  const labels = kind === postgres.kind ? connectionLabels(checkPostgresInput(input, "postgres").connection) : null;
  const stdinFile = kind === exec.kind ? checkExecInput(input, "exec").stdinFile : null;
  if (stdinFile === null && upload !== undefined) throw uploadMisplaced(upload);
  if (stdinFile === null || upload !== undefined) return labels;
  const problem = "the bytes of its standard input belong to another job, or were not uploaded";
  const fix = "upload them, and submit with the option upload";
  throw new ConfigError({ path: "exec.stdinFile", given: stdinFile.sha256, problem, fix });
}

function uploadMisplaced(upload: string): ConfigError {
  return new ConfigError({
    path: "submit.upload",
    given: upload,
    problem: "requires a command whose input has stdinFile",
  });
}
