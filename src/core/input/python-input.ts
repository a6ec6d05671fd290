/** The job of a python step: its code is an asset, its data the standard input of the worker's runner (`python-harness.ts`). */
import type { ExecInput } from "./exec-input.ts";
import { CODE_FILE, RUNNER_FILE } from "./python-harness.ts";
import { RUNTIME_PREFIX } from "./resources.ts";

export interface PythonStep {
  /** The SHA-256 of the code, an asset. */
  readonly codeHash: string;
  /** The arguments of `main` by name; null: none. */
  readonly data: Readonly<Record<string, unknown>> | null;
  readonly env?: Readonly<Record<string, string>>;
}

/** The payload of a job of kind `exec`. The step's output is the `output` of its result: what `main` returned. */
export function pythonInput({ codeHash, data, env = {} }: PythonStep): ExecInput {
  return {
    argv: ["python3", `inputs/${RUNNER_FILE}`],
    runner: "python",
    assets: { [CODE_FILE]: codeHash },
    input: data ?? {},
    ...(Object.keys(env).length === 0 ? {} : { env }),
  };
}

/** Labels of the job: only workers that have Python claim it. */
export const PYTHON_LABELS: Readonly<Record<string, string>> = Object.freeze({ [`${RUNTIME_PREFIX}python`]: "yes" });
