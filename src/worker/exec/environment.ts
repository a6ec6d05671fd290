/** The environment of a command: a minimal base, what the job names, and what tells it who it is. Nothing else of the
 *  worker's own environment, where its secrets are, is ever handed on. */
import { ConfigError } from "../../core/errors.ts";

/** What programs need to find each other and to speak the user's language. */
const BASE = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"];
const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Names through which somebody else's code gets into a process: a job may set them only where the worker allows it. */
const RISKY =
  /^(PATH|IFS|ENV|BASH_ENV|SHELLOPTS|PS4|CDPATH|LD_.*|DYLD_.*|NODE_OPTIONS|NODE_PATH|PYTHON.*|PERL5?(LIB|OPT|DB).*|RUBY(LIB|OPT)|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|CLASSPATH|GIT_.*|GLIBC_TUNABLES|GCONV_PATH|OPENSSL_CONF|DOTNET_STARTUP_HOOKS|LESSOPEN|ZDOTDIR|PROMPT_COMMAND|LUA_(PATH|CPATH|INIT).*|GEM_(HOME|PATH)|npm_config_.*|NPM_CONFIG_.*)$/;

/** Whether a worker must allow a job to set this variable. */
export function isRisky(name: string): boolean {
  return RISKY.test(name);
}

export interface EnvironmentParts {
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
