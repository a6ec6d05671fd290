/** The inputs of the built-in kinds, checked at submit. */
import { exec, http } from "../core/builtin.ts";
import { checkExecInput } from "../core/exec-input.ts";
import { checkHttpInput } from "../core/http-input.ts";
import type { AnyTask } from "../core/task.ts";

/** A mistake in a command or a request is told where it is submitted, not hours later where it would run. */
export function checkBuiltin(task: AnyTask | string, input: unknown): void {
  if (task === exec) checkExecInput(input, "exec");
  if (task === http) checkHttpInput(input, "http");
}
