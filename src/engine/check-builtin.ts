/** The inputs of the built-in kinds, checked at submit: a mistake in a command or a request is told where it is
 *  submitted, not hours later where it would run. */
import { exec, http } from "../core/builtin.ts";
import { ConfigError } from "../core/errors.ts";
import { checkExecInput } from "../core/exec-input.ts";
import { checkHttpInput } from "../core/http-input.ts";
import type { AnyTask } from "../core/task.ts";

/** Of a task, or a kind by its name. A task of the user's own may have the name of a built-in kind, and any input. */
export function checkBuiltin(task: AnyTask | string, input: unknown, upload?: string): void {
  if (typeof task === "string") checkBuiltinKind(task, input, upload);
  else if (task === exec || task === http) checkBuiltinKind(task.kind, input, upload);
  else if (upload !== undefined) throw uploadMisplaced(upload);
}

/** Of a kind by its name: who knows no more can mean only the built-in one. */
export function checkBuiltinKind(kind: string, input: unknown, upload?: string): void {
  if (kind === http.kind) checkHttpInput(input, "http");
  const stdinFile = kind === exec.kind ? checkExecInput(input, "exec").stdinFile : null;
  if (stdinFile === null && upload !== undefined) throw uploadMisplaced(upload);
  if (stdinFile === null || upload !== undefined) return;
  const problem = "the bytes of its standard input belong to another job, or were not uploaded";
  const allowed = "together with upload: upload them, and submit with the id of the upload";
  throw new ConfigError({ path: "exec.stdinFile", given: stdinFile.sha256, problem, allowed });
}

function uploadMisplaced(upload: string): ConfigError {
  const allowed = "only with a command whose input has stdinFile";
  return new ConfigError({ path: "submit.upload", given: upload, allowed });
}
