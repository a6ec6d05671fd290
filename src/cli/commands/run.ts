/** `perdure run`: runs one command with retries, or a playbook, here or on a server. */
import { isAbsolute, resolve } from "node:path";
import { toMs } from "../../core/duration.ts";
import { ConfigError } from "../../core/errors.ts";
import { checkExecInput, type ExecInput } from "../../core/input/exec-input.ts";
import { isName, MAX_KEY } from "../../core/names.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import { LIMITS } from "../../engine/limits.ts";
import { isOver } from "../../lib/text.ts";
import type { CliCommand, CommandContext } from "../command.ts";
import { conflictError, missingArgument, requirementError, usageError, valueError } from "../exit.ts";
import { NO_STDIN, pipedInput, STDIN } from "../input/piped-input.ts";
import {
  ENV,
  envOf,
  givenPolicyOf,
  KEY_RULE,
  NAME_RULE,
  POLICY_OPTIONS,
  policyOf,
  timeOf,
} from "../input/shared-options.ts";
import { checkFileOptions, FILE_OPTIONS, runFile } from "../playbooks/run-file.ts";
import { DEFAULT_QUEUE, runJob } from "../run/run-job.ts";
import { isThisMachine, TARGET, type Target, targetOf } from "../target/target.ts";

export const run: CliCommand = {
  name: "run",
  summary: "Run a command or a playbook until it has truly succeeded or failed",
  usage: "perdure run [OPTIONS] -- COMMAND [ARGS…] | -f FILE [-p KEY=VALUE…]",
  endsAtFirstWord: true,
  about:
    "Submits the command as a job and retries it by the options. It runs here, or on the workers of a server if one is " +
    "running on this data or --server names one. Its output is shown as it comes, with one line per attempt on stderr. " +
    "Standard input that is piped is stored with the job, up to 64 MiB, and each attempt reads it from the start. Exits " +
    "with the command's last exit code; 124 after a timeout, 125 if its attempts were lost, 126 or 127 if it could not be " +
    "started, 130 if it was cancelled (Ctrl-C), 2 for a mistake in the options. On a server the job keeps running when " +
    "this terminal is closed. With --file it starts a run of a playbook and prints a line for each step on stderr and its " +
    "result on stdout, as JSON. Without a server its steps run here, with the workers' settings of this machine. Exits with " +
    "0 if the run succeeded, 1 if it failed, 124 after its timeout, 130 if it was cancelled.",
  options: [
    ...FILE_OPTIONS,
    ...POLICY_OPTIONS,
    { name: "timeout", type: "string", value: "TIME", help: "End an attempt that takes longer: 30s, 5m." },
    {
      name: "name",
      type: "string",
      value: "NAME",
      help: "The name shown in lists. Default: derived from the command.",
    },
    {
      name: "key",
      type: "string",
      value: "KEY",
      help: "Identifies the job: run again with the same key to resume the job, or to see how it ended.",
    },
    {
      name: "again",
      type: "boolean",
      help: "With --key: redrive a job that failed or was cancelled, with the options given here.",
    },
    ENV,
    {
      ...{ name: "cwd", type: "string", value: "DIR" },
      help: "The command's working directory. Default: this one; on a server elsewhere, a new directory.",
    },
    {
      ...{ name: "queue", type: "string", value: "NAME" },
      help: `On a server: the queue of the job. Default: ${DEFAULT_QUEUE}.`,
    },
    NO_STDIN,
    STDIN,
    { name: "keep", type: "boolean", help: "Keep the scratch files when the job has ended." },
    ...TARGET,
    { name: "json", type: "boolean", help: "Print the result as one JSON object on the last line of stdout." },
    { name: "quiet", short: "q", type: "boolean", help: "Print only the command's own output on stderr." },
  ],
  examples: [
    "perdure run -- ./flaky.sh",
    "perdure run --max-attempts 3 --backoff 5s --timeout 10m -- ./backup.sh",
    "perdure run --key nightly-2026-11-16 --env AWS_PROFILE -- ./nightly.sh",
    "perdure run --retry-on 75 -- sh -c 'exit 75'",
    "pg_dump app | perdure run -- ./upload.sh",
    "perdure run -f orders.yaml -p city=Oslo --key orders-2026-11-20",
  ],

  async run(context) {
    const { given } = context;
    // Everything is checked before anything is stored.
    checkFileOptions(context, COMMAND_ONLY);
    if (given.positionals.length === 0 && !given.flag("file")) throw missingArgument("COMMAND", run.usage);
    const target = targetOf(context);
    const retry = policyOf(given);
    namingOptions(() => resolvePolicy(retry, "retry"));
    const timeout = timeOf(given, "timeout");
    if (timeout !== undefined && toMs(timeout, "--timeout") === 0) {
      throw usageError("--timeout: must be more than 0, such as 30s; got 0");
    }
    const key = given.text("key");
    if (key !== undefined && !isName(key, MAX_KEY)) {
      throw valueError("--key", key, KEY_RULE);
    }
    if (given.flag("again") && key === undefined) throw requirementError("--again", "--key");
    checkQueue(given.text("queue"), target);
    const name = given.text("name");
    if (name !== undefined && !isName(name.trim())) {
      throw valueError("--name", name, NAME_RULE);
    }
    if (given.flag("file")) return runFile(context, target);
    const input = inputOf(context, target);
    const own = givenPolicyOf(given);
    const changes = {
      ...(Object.keys(own).length === 0 ? {} : { retry: own }),
      ...(timeout === undefined ? {} : { timeout }),
    };
    // Last: standard input is read only when everything else is right.
    const piped = await pipedInput(context, stdinMode(context));
    try {
      return await runJob(context, target, { input, retry, timeout, key, name, changes, piped });
    } finally {
      await piped?.close();
    }
  },
};

const COMMAND_ONLY = [...POLICY_OPTIONS.map(({ name }) => name), ...["env", "cwd", "no-stdin", "stdin", "keep"]];

function stdinMode({ given }: CommandContext): Parameters<typeof pipedInput>[1] {
  const [read, leave] = [given.flag("stdin"), given.flag("no-stdin")];
  if (read && leave) throw conflictError("--stdin", "--no-stdin");
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

/** Replaces the field of a policy that an error names by the option that sets it. */
function namingOptions(check: () => void): void {
  try {
    check();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const path = error.path ?? "";
    const [, name] = /^command\.env(?:\.|\[")([^"\]]*)/.exec(path) ?? [];
    const option = OPTION_OF[path] ?? (name === undefined ? undefined : `--env ${name}`);
    const argument = /^command\.argv\[(\d+)\]/.exec(path)?.[1];
    const named = option ?? (argument === undefined ? path : argument === "0" ? "COMMAND" : `argument ${argument}`);
    throw usageError(error.message.replace(`${path}:`, `${named}:`));
  }
}

/** Without a server each job has its own queue, so that no other `perdure run` takes it. */
function checkQueue(queue: string | undefined, { kind }: Target): void {
  if (queue === undefined) return;
  if (kind === "store") {
    throw requirementError("--queue", "a server: pass --server or set PERDURE_URL");
  }
  if (!isName(queue)) {
    throw valueError("--queue", queue, NAME_RULE);
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
  namingOptions(() => checkExecInput(input, "command"));
  if (isOver(JSON.stringify(input), LIMITS.payloadBytes)) {
    throw usageError("COMMAND: over 1 MiB with its arguments and environment; pass a file instead");
  }
  return input;
}

/** Undefined: the directory of the attempt. Workers on other machines do not have this directory. */
function directoryOf(given: string | undefined, here: string, target: Target): string | undefined {
  if (given !== undefined && given.trim() === "") throw valueError("--cwd", given, "a directory");
  if (given !== undefined && isAbsolute(given)) return given;
  if (target.kind === "store" || isThisMachine(target.url)) return resolve(here, given ?? ".");
  if (given === undefined) return undefined;
  throw valueError("--cwd", given, "the full path of a directory on the workers, as the server is on another machine");
}
