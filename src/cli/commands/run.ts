/** `perdure run`: the shortest way to make a command reliable. */
import { isAbsolute, resolve } from "node:path";
import { toMs } from "../../core/duration.ts";
import { ConfigError, show } from "../../core/errors.ts";
import { checkExecInput, type ExecInput } from "../../core/input/exec-input.ts";
import { isName, MAX_KEY } from "../../core/names.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import { LIMITS } from "../../engine/limits.ts";
import { isOver } from "../../lib/text.ts";
import type { CliCommand, CommandContext } from "../command.ts";
import { usageError } from "../exit.ts";
import { NO_STDIN, pipedInput, STDIN } from "../input/piped-input.ts";
import { ENV, envOf, givenPolicyOf, POLICY_OPTIONS, policyOf, timeOf } from "../input/shared-options.ts";
import { DEFAULT_QUEUE, runJob } from "../run/run-job.ts";
import { isThisMachine, TARGET, type Target, targetOf } from "../target/target.ts";

export const run: CliCommand = {
  name: "run",
  summary: "Run a command until it has truly succeeded or truly failed",
  usage: "perdure run [OPTIONS] -- COMMAND [ARGS…]",
  endsAtFirstWord: true,
  about:
    "Submits the command as a job and retries it as the options say. It runs here, or on the workers of a server, if one " +
    "serves this data or --server names one. Its output is shown as it comes, with one line per attempt on stderr. " +
    "Standard input that is piped is stored with the job, up to 64 MiB, and each attempt reads it from the start. Exits " +
    "with the command's last exit code; 124 after a timeout, 125 if its attempts were lost, 126 or 127 if it could not be " +
    "started, 130 if it was cancelled (Ctrl-C), 2 for a mistake in the options. On a server the job keeps running when " +
    "this terminal is closed.",
  options: [
    ...POLICY_OPTIONS,
    { name: "timeout", type: "string", value: "TIME", help: "End an attempt that takes longer: 30s, 5m." },
    { name: "name", type: "string", value: "NAME", help: "The name shown in lists. Default: made from the command." },
    {
      name: "key",
      type: "string",
      value: "KEY",
      help: "Names the job: run again with it to resume the job, or to see how it ended.",
    },
    {
      name: "again",
      type: "boolean",
      help: "With --key: redrive a job that failed or was cancelled, with the options given here.",
    },
    ENV,
    {
      ...{ name: "cwd", type: "string", value: "DIR" },
      help: "The command's working directory. Default: this one; on a server elsewhere, one of its own.",
    },
    {
      ...{ name: "queue", type: "string", value: "NAME" },
      help: `On a server: the queue of the job. Default: ${DEFAULT_QUEUE}.`,
    },
    NO_STDIN,
    STDIN,
    { name: "keep", type: "boolean", help: "Keep the scratch files when the job has ended." },
    ...TARGET,
    { name: "json", type: "boolean", help: "Print how it ended as one JSON object on the last line of stdout." },
    { name: "quiet", short: "q", type: "boolean", help: "Print nothing on stderr but the command's own." },
  ],
  examples: [
    "perdure run -- ./flaky.sh",
    "perdure run --max-attempts 3 --backoff 5s --timeout 10m -- ./backup.sh",
    "perdure run --key nightly-2026-11-16 --env AWS_PROFILE -- ./nightly.sh",
    "perdure run --retry-on 75 -- sh -c 'exit 75'",
    "pg_dump app | perdure run -- ./upload.sh",
  ],

  async run(context) {
    const { given } = context;
    // All of it is checked before anything is stored.
    if (given.positionals.length === 0) throw usageError(`no command; usage: ${run.usage}`);
    const target = targetOf(context);
    const input = inputOf(context, target);
    const retry = policyOf(given);
    inTheWordsOfOptions(() => resolvePolicy(retry, "retry"));
    const timeout = timeOf(given, "timeout");
    if (timeout !== undefined && toMs(timeout, "--timeout") === 0) {
      throw usageError("--timeout: got 0; give a time such as 30s");
    }
    const key = given.text("key");
    if (key !== undefined && !isName(key, MAX_KEY)) {
      throw usageError(`--key: got ${show(key)}; give a text of 1 to 500 characters, none of them control characters`);
    }
    if (given.flag("again") && key === undefined) throw usageError("--again requires --key, which names the job");
    checkQueue(given.text("queue"), target);
    const name = given.text("name");
    if (name !== undefined && !isName(name.trim())) {
      throw usageError(`--name: got ${show(name)}; use 1 to 200 characters, none of them control characters`);
    }
    const own = givenPolicyOf(given);
    const changes = {
      ...(Object.keys(own).length === 0 ? {} : { retry: own }),
      ...(timeout === undefined ? {} : { timeout }),
    };
    // Last: standard input is read only when everything else is right.
    const piped = await pipedInput(context, stdinWish(context));
    try {
      return await runJob(context, target, { input, retry, timeout, key, name, changes, piped });
    } finally {
      await piped?.close();
    }
  },
};

function stdinWish({ given }: CommandContext): Parameters<typeof pipedInput>[1] {
  const [read, leave] = [given.flag("stdin"), given.flag("no-stdin")];
  if (read && leave) throw usageError("--stdin and --no-stdin cannot be used together");
  return read ? "read" : leave ? "leave" : "if piped";
}

const OPTION_OF: Readonly<Record<string, string>> = {
  "retry.preset": "--preset",
  "retry.maxAttempts": "--max-attempts",
  "retry.backoff.initial": "--backoff",
  "retry.backoff.factor": "--backoff-factor",
  "retry.backoff.max": "--backoff-max",
  "retry.backoff.jitter": "--jitter",
  "retry.retryWhen": "--retry-when",
  "retry.stopWhen": "--stop-when",
};

/** A mistake in a policy names the field of the policy; who typed it knows the option. */
function inTheWordsOfOptions(check: () => void): void {
  try {
    check();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const path = error.path ?? "";
    const [, name] = /^command\.env(?:\.|\[")([^"\]]*)/.exec(path) ?? [];
    const option = OPTION_OF[path] ?? (name === undefined ? undefined : `--env ${name}`);
    const argument = /^command\.argv\[(\d+)\]/.exec(path)?.[1];
    const told = option ?? (argument === undefined ? path : argument === "0" ? "COMMAND" : `argument ${argument}`);
    throw usageError(error.message.replace(`${path}:`, `${told}:`));
  }
}

/** Without a server each job has a queue of its own, so that no other `perdure run` takes it. */
function checkQueue(queue: string | undefined, { kind }: Target): void {
  if (queue === undefined) return;
  if (kind === "store") {
    throw usageError("--queue requires a server: leave it out, or name a server with --server or PERDURE_URL");
  }
  if (!isName(queue)) {
    throw usageError(
      `--queue: got ${show(queue)}; give a name of 1 to 200 characters, none of them control characters`,
    );
  }
}

function inputOf({ given, io }: CommandContext, target: Target): ExecInput {
  const cwd = directoryOf(given.text("cwd"), io.cwd, target);
  const input: ExecInput = {
    argv: given.positionals,
    ...(cwd === undefined ? {} : { cwd }),
    env: envOf(given.texts("env"), io.env),
    ...(given.flag("keep") ? { keep: true } : {}),
  };
  inTheWordsOfOptions(() => checkExecInput(input, "command"));
  if (isOver(JSON.stringify(input), LIMITS.payloadBytes)) {
    throw usageError("COMMAND: with its arguments and environment it is over 1 MiB; give it a file instead");
  }
  return input;
}

/** Undefined: the attempt's own. Where we are means nothing to workers on other machines. */
function directoryOf(given: string | undefined, here: string, target: Target): string | undefined {
  if (given !== undefined && given.trim() === "") throw usageError(`--cwd: got ${show(given)}; give a directory`);
  if (given !== undefined && isAbsolute(given)) return given;
  if (target.kind === "store" || isThisMachine(target.url)) return resolve(here, given ?? ".");
  if (given === undefined) return undefined;
  throw usageError(
    `--cwd: got ${show(given)}; for a server elsewhere give the full path of a directory on its workers`,
  );
}
