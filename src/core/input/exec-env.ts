/** Environment variables of commands: references that are filled in, and variables that a worker must allow. */
import { asList, fieldPath, isPlain, nearest } from "../check.ts";
import { ConfigError, show } from "../errors.ts";

// Which names a worker allows is checked in `worker/exec/environment.ts`.

/** What a worker can fill in besides ports. */
const FILLS = ["jobId", "attempt", "attemptIndex"] as const;
export type Fill =
  | { readonly kind: (typeof FILLS)[number] }
  /** The port with this name. */
  | { readonly kind: "port"; readonly port: string };

const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const PORT_NAME = /^[A-Za-z][A-Za-z0-9_-]{0,62}$/;
const PORT_PREFIX = "port.";
const MAX_PORTS = 20;
/** The limit of Linux for an argument and for a variable. */
export const MAX_ARGUMENT = 131_072;

/** An argument or a value; may be empty. */
export function asArgument(value: unknown, path: string): string {
  if (typeof value === "string" && value.length <= MAX_ARGUMENT && !value.includes("\0")) return value;
  throw new ConfigError({ path, given: value, allowed: `text of at most ${MAX_ARGUMENT} characters, without NUL` });
}

export function checkEnv(value: unknown, path: string): Record<string, string> {
  return eachVariable(value, path, asArgument);
}

/** Names of ports, each with a variable of its own. */
export function checkPorts(value: unknown, path: string): string[] {
  const variables = new Set<string>();
  return asList(
    value,
    path,
    (name, at) => {
      if (typeof name !== "string" || !PORT_NAME.test(name)) {
        const allowed = "a name of 1 to 63 letters, digits, _ and -, starting with a letter";
        throw new ConfigError({ path: at, given: name, allowed });
      }
      const variable = portVariable(name);
      if (variables.has(variable)) {
        const problem = `${show(name)} has the variable ${variable}, which another port has too`;
        const fix = "use names that differ in more than case, _ and -";
        throw new ConfigError({ path: at, given: name, problem, fix });
      }
      variables.add(variable);
      return name;
    },
    MAX_PORTS,
  );
}

/** `PERDURE_PORT_METRICS_V2` for `metrics-v2`. */
export function portVariable(name: string): string {
  return `PERDURE_PORT_${name.toUpperCase().replaceAll("-", "_")}`;
}

/** Variables, each with the name of its value. None may have a value in `env` too. */
export function checkFill(
  value: unknown,
  path: string,
  given: { readonly ports: readonly string[]; readonly env: Readonly<Record<string, string>> },
): Record<string, Fill> {
  return eachVariable(value, path, (word, at, name) => {
    if (Object.hasOwn(given.env, name)) {
      throw new ConfigError({ path: at, given: word, problem: "is in env too", fix: "remove one of them" });
    }
    return fillOf(word, at, given.ports);
  });
}

function fillOf(word: unknown, path: string, ports: readonly string[]): Fill {
  const kind = FILLS.find((each) => each === word);
  if (kind !== undefined) return { kind };
  const port = ports.find((each) => `${PORT_PREFIX}${each}` === word);
  if (port !== undefined) return { kind: "port", port };
  const known = [...FILLS, ...ports.map((each) => `${PORT_PREFIX}${each}`)];
  const allowed = `one of ${known.join(", ")}${ports.length === 0 ? ", or port.NAME with a name in ports" : ""}`;
  const near = typeof word === "string" ? nearest(word, known) : null;
  throw new ConfigError({ path, given: word, allowed, nearest: near });
}

function eachVariable<T>(
  value: unknown,
  path: string,
  check: (value: unknown, path: string, name: string) => T,
): Record<string, T> {
  if (!isPlain(value)) throw new ConfigError({ path, given: value, allowed: "an object of names and texts" });
  const checked: Record<string, T> = Object.create(null);
  for (const [name, each] of Object.entries(value)) {
    const at = fieldPath(path, name);
    if (!ENV_NAME.test(name)) {
      const allowed = "a name of letters, digits and _, not starting with a digit";
      throw new ConfigError({ path: at, given: name, allowed });
    }
    if (name.startsWith("PERDURE_")) {
      const allowed = "a name without PERDURE_ at its start: the worker sets those";
      throw new ConfigError({ path: at, given: name, allowed });
    }
    checked[name] = check(each, at, name);
  }
  return checked;
}

// Variables that can change which code a program runs. A worker runs a job that sets one only if its `allowEnv` has
// it. The CLI prints a note at the submit, so that this is known before an attempt fails.

const RISKY =
  /^(PATH|IFS|ENV|BASH_ENV|SHELLOPTS|PS4|CDPATH|LD_.*|DYLD_.*|NODE_OPTIONS|NODE_PATH|PYTHON.*|PERL5?(LIB|OPT|DB).*|RUBY(LIB|OPT)|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|CLASSPATH|GIT_.*|GLIBC_TUNABLES|GCONV_PATH|OPENSSL_CONF|DOTNET_STARTUP_HOOKS|LESSOPEN|ZDOTDIR|PROMPT_COMMAND|LUA_(PATH|CPATH|INIT).*|GEM_(HOME|PATH)|npm_config_.*|NPM_CONFIG_.*)$/;

/** Whether a worker must allow a job to set this variable. */
export function isRisky(name: string): boolean {
  return RISKY.test(name);
}

/** The risky variables that the commands among these jobs set, each once. */
export function riskyVariables(jobs: readonly { readonly task: unknown; readonly input?: unknown }[]): string[] {
  const names = jobs.flatMap(({ task, input }) => {
    const { env } = (task === "exec" && isPlain(input) ? input : {}) as { env?: unknown };
    return isPlain(env) ? Object.keys(env).filter(isRisky) : [];
  });
  return [...new Set(names)];
}

/** The note about a risky variable. */
export function riskyNote(name: string): string {
  return `${name}: a worker runs this command only if its worker.allowEnv has this variable`;
}
