/** Variables through which somebody else's code gets into a process. A job may name them, but a worker runs it only where its
 *  `allowEnv` has them; most have none. So whoever makes such a job is told of it in time, and not by a failed run. */
import { isPlain } from "./check.ts";

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
