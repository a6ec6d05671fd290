/** Environment variables of commands: references that are filled in, and variables that a worker must allow. */
import { asList, fieldPath, isPlain, nearest } from "../check.ts";
import { ConfigError, show } from "../errors.ts";

// The variables of a command, as its job names them: values, ports that the worker is to find, and what it is to fill
// in under names of the job's choice. Which names a worker allows is its own matter (`worker/exec/environment.ts`).

/** What a worker can fill in besides ports. */
const FILLS = ["jobId", "attempt", "attemptIndex"] as const;
export type Fill =
  | { readonly kind: (typeof FILLS)[number] }
  /** The one of the ports that has this name. */
  | { readonly kind: "port"; readonly port: string };

const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const PORT_NAME = /^[A-Za-z][A-Za-z0-9_-]{0,62}$/;
const PORT_PREFIX = "port.";
const MAX_PORTS = 20;
const MAX_TEXT = 131_072; // Linux takes no longer argument, and no longer variable

/** An argument or a value: it may be empty. */
export function asArgument(value: unknown, path: string): string {
  if (typeof value === "string" && value.length <= MAX_TEXT && !value.includes("\0")) return value;
  throw new ConfigError({ path, given: value, allowed: `text of at most ${MAX_TEXT} characters, without NUL` });
}

export function checkEnv(value: unknown, path: string): Record<string, string> {
  return eachVariable(value, path, asArgument);
}

/** Names of ports, each of which makes a variable of its own. */
export function checkPorts(value: unknown, path: string): string[] {
  const variables = new Set<string>();
  return asList(
    value,
    path,
    (name, at) => {
      if (typeof name !== "string" || !PORT_NAME.test(name)) {
        const allowed = "a name of 1 to 63 letters, digits, _ and -, beginning with a letter";
        throw new ConfigError({ path: at, given: name, allowed });
      }
      const variable = portVariable(name);
      if (variables.has(variable)) {
        const problem = `${show(name)} would be ${variable}, which another port is already`;
        throw new ConfigError({
          path: at,
          given: name,
          allowed: "names that differ in more than case, _ and -",
          problem,
        });
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

/** Names and what stands for their values. No name may have a value in `env` too. */
export function checkFill(
  value: unknown,
  path: string,
  given: { readonly ports: readonly string[]; readonly env: Readonly<Record<string, string>> },
): Record<string, Fill> {
  return eachVariable(value, path, (word, at, name) => {
    if (Object.hasOwn(given.env, name)) {
      throw new ConfigError({
        path: at,
        given: word,
        allowed: "a name that is not in env too",
        problem: "given twice",
      });
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
  const allowed = `${known.join(", ")}${ports.length === 0 ? ", or port.NAME for one of ports, of which there are none" : ""}`;
  throw new ConfigError({
    path,
    given: word,
    allowed,
    nearest: typeof word === "string" ? nearest(word, known) : null,
  });
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
      const allowed = "names of letters, digits and _, not beginning with a digit";
      throw new ConfigError({ path: at, given: name, allowed });
    }
    if (name.startsWith("PERDURE_")) {
      const allowed = "other names: those with PERDURE_ are set by the worker";
      throw new ConfigError({ path: at, given: name, allowed });
    }
    checked[name] = check(each, at, name);
  }
  return checked;
}

// Variables through which somebody else's code gets into a process. A job may name them, but a worker runs it only
// where its `allowEnv` has them; most have none. So whoever makes such a job is told of it in time, and not by a
// failed run.

const RISKY =
  /^(PATH|IFS|ENV|BASH_ENV|SHELLOPTS|PS4|CDPATH|LD_.*|DYLD_.*|NODE_OPTIONS|NODE_PATH|PYTHON.*|PERL5?(LIB|OPT|DB).*|RUBY(LIB|OPT)|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|CLASSPATH|GIT_.*|GLIBC_TUNABLES|GCONV_PATH|OPENSSL_CONF|DOTNET_STARTUP_HOOKS|LESSOPEN|ZDOTDIR|PROMPT_COMMAND|LUA_(PATH|CPATH|INIT).*|GEM_(HOME|PATH)|npm_config_.*|NPM_CONFIG_.*)$/;

/** Whether a worker must allow a job to set this variable. */
export function isRisky(name: string): boolean {
  return RISKY.test(name);
}

/** Those that the commands among these jobs set, each once. */
export function riskyVariables(jobs: readonly { readonly task: unknown; readonly input?: unknown }[]): string[] {
  const names = jobs.flatMap(({ task, input }) => {
    const { env } = (task === "exec" && isPlain(input) ? input : {}) as { env?: unknown };
    return isPlain(env) ? Object.keys(env).filter(isRisky) : [];
  });
  return [...new Set(names)];
}

/** What is said of one of them. */
export function riskyNote(name: string): string {
  return `${name}: a worker runs this command only if its worker.allowEnv has this variable`;
}
