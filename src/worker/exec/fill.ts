/** Fills in the variables of a command that only its worker knows: its ports, and who it is under names of its own choice. */
import { type Fill, portVariable } from "../../core/exec-env.ts";
import type { CheckedExec } from "../../core/exec-input.ts";
import type { ClaimedJob } from "../../core/work.ts";

/** `PERDURE_PORT_HTTP` for the name `http`. */
export function portVariables(names: readonly string[], ports: readonly number[]): Record<string, string> {
  return Object.fromEntries(names.map((name, i) => [portVariable(name), String(ports[i])]));
}

/** `ports` are those of `input.ports`, in the same order. */
export function filled(
  input: Pick<CheckedExec, "ports" | "fill">,
  job: Pick<ClaimedJob, "id" | "attempt">,
  ports: readonly number[],
): Record<string, string> {
  const values: Record<string, string> = Object.create(null);
  for (const [name, fill] of Object.entries(input.fill)) values[name] = filledWith(fill, input.ports, job, ports);
  return values;
}

function filledWith(
  fill: Fill,
  names: readonly string[],
  { id, attempt }: Pick<ClaimedJob, "id" | "attempt">,
  ports: readonly number[],
): string {
  switch (fill.kind) {
    case "jobId":
      return id;
    case "attempt":
      return String(attempt);
    case "attemptIndex":
      return String(attempt - 1);
    case "port":
      return String(ports[names.indexOf(fill.port)]);
  }
}
