/** The environment of a command: a minimal base, the variables of the job, and those that only the worker knows (ports, ids).
 *  Nothing else of the worker's own environment, which holds secrets, is passed on. */
import { ConfigError } from "../../core/errors.ts";
import { type Fill, isRisky, portVariable } from "../../core/input/exec-env.ts";
import type { CheckedExec } from "../../core/input/exec-input.ts";
import type { ClaimedJob } from "../../core/worker-protocol.ts";
import type { RunUser } from "./run-user.ts";

/** Base variables, copied from the worker's environment: paths, user, locale. */
const BASE = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"];
const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** The base variables for a user other than the worker's, who may not be able to enter the worker's TMPDIR. */
export function userVariables({ name, home }: RunUser, dir: string): Record<string, string | undefined> {
  return { HOME: home ?? dir, USER: name, LOGNAME: name, SHELL: "/bin/sh", TMPDIR: undefined };
}

interface EnvironmentParts {
  /** The worker's environment. */
  readonly from: Readonly<Record<string, string | undefined>>;
  readonly job: Readonly<Record<string, string>>;
  /** The variables of the job's `fill`, with their values. */
  readonly filled?: Readonly<Record<string, string>>;
  /** Risky names that jobs may set; "*" for all. */
  readonly allow: readonly string[];
  /** The PERDURE_* variables. */
  readonly own: Readonly<Record<string, string>>;
}

export function environmentOf({ from, job, filled = {}, allow, own }: EnvironmentParts): Record<string, string> {
  const env: Record<string, string> = Object.create(null);
  env.PATH = DEFAULT_PATH;
  for (const name of BASE) {
    const value = from[name];
    if (value !== undefined && value !== "") env[name] = value;
  }
  for (const [field, values] of Object.entries({ env: job, fill: filled })) {
    for (const [name, value] of Object.entries(values)) {
      if (isRisky(name) && !allow.includes("*") && !allow.includes(name)) {
        const problem = "may affect how programs are loaded";
        const fix = `permit it with the worker's allowEnv: ["${name}"]`;
        throw new ConfigError({ path: `${field}.${name}`, given: name, problem, fix });
      }
      env[name] = value;
    }
  }
  return Object.assign(env, own);
}

/** The variables of named ports: `PERDURE_PORT_HTTP` for the name `http`. */
export function portVariables(names: readonly string[], ports: readonly number[]): Record<string, string> {
  return Object.fromEntries(names.map((name, i) => [portVariable(name), String(ports[i])]));
}

/** The values of the job's `fill`: job id, attempt, or a port. `ports` belong to `input.ports`, in the same order. */
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
