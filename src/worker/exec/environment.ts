/** The environment of a command: a minimal base, what the job names, and the variables that only its worker knows
 *  (ports, ids). Nothing else of the worker's own environment, where its secrets are, is passed on. */
import { ConfigError } from "../../core/errors.ts";
import { type Fill, isRisky, portVariable } from "../../core/input/exec-env.ts";
import type { CheckedExec } from "../../core/input/exec-input.ts";
import type { ClaimedJob } from "../../core/worker-protocol.ts";
import type { RunUser } from "./run-user.ts";

// The environment of a command: a minimal base, what the job names, and what tells it who it is. Nothing else of the
// worker's own environment, where its secrets are, is ever handed on.

/** What programs need to find each other and to speak the user's language. */
const BASE = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"];
const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** What the base says of the user, of another than the worker's own. Its temporary directory may be closed to that one. */
export function userVariables({ name, home }: RunUser, dir: string): Record<string, string | undefined> {
  return { HOME: home ?? dir, USER: name, LOGNAME: name, SHELL: "/bin/sh", TMPDIR: undefined };
}

interface EnvironmentParts {
  /** The worker's own. */
  readonly from: Readonly<Record<string, string | undefined>>;
  readonly job: Readonly<Record<string, string>>;
  /** What the job wants to be filled in, under names of its choice. */
  readonly filled?: Readonly<Record<string, string>>;
  /** Risky names that jobs may set; "*" for all. */
  readonly allow: readonly string[];
  /** PERDURE_*. */
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
        const allowed = `names that cannot change what the program is; a worker allows it with allowEnv: ["${name}"]`;
        throw new ConfigError({ path: `${field}.${name}`, given: name, allowed });
      }
      env[name] = value;
    }
  }
  return Object.assign(env, own);
}

// Fills in the variables of a command that only its worker knows: its ports, and who it is under names of its own
// choice.

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
