/** The inputs of the built-in kinds, checked at submit: a mistake in a command or a request is told where it is
 *  submitted, not hours later where it would run. */
import { exec, http } from "../core/builtin.ts";
import { checkExecInput } from "../core/exec-input.ts";
import { checkHttpInput } from "../core/http-input.ts";
import type { AnyTask } from "../core/task.ts";

/** Of a task, or a kind by its name. A task of the user's own may have the name of a built-in kind, and any input. */
export function checkBuiltin(task: AnyTask | string, input: unknown): void {
  if (typeof task === "string") checkBuiltinKind(task, input);
  else if (task === exec || task === http) checkBuiltinKind(task.kind, input);
}

/** Of a kind by its name: who knows no more can mean only the built-in one. */
export function checkBuiltinKind(kind: string, input: unknown): void {
  if (kind === exec.kind) checkExecInput(input, "exec");
  if (kind === http.kind) checkHttpInput(input, "http");
}
