/** Reads the policy to simulate, and the fields of its job that matter, from the options or from a file. */
import { resolve } from "node:path";
import { isPlain } from "../../core/check.ts";
import { toMs } from "../../core/duration.ts";
import { ConfigError } from "../../core/errors.ts";
import type { Policy, PolicyFields, PolicyInput } from "../../core/policy/policy.ts";
import { MAX_COUNT } from "../../core/policy/resolve-backoff.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import type { Scenario } from "../../core/simulate/simulate.ts";
import type { ReadEntry } from "../../dialects/dialect.ts";
import { retryBlock, retryDialects } from "../../dialects/retry-block.ts";
import { DIALECT_DEFAULTS, withPrograms } from "../../dialects/settings.ts";
import type { YamlText } from "../../yaml/read.ts";
import { YAML_LIMITS } from "../../yaml/scan.ts";
import { dialectSettingsFor, unusedSettings } from "../apply/dialect-settings.ts";
import { KINDS } from "../apply/documents.ts";
import { readJobFiles } from "../apply/read-jobs.ts";
import type { Arguments, CommandContext, CommandOption } from "../command.ts";
import { conflictError, requirementError, usageError, valueError } from "../exit.ts";
import { bytesOf, stepsOf } from "../input/job-file.ts";
import { POLICY_OPTIONS, policyOf } from "../input/shared-options.ts";
import { readSmallFile, readYamlDocuments, textIn, yamlUsageError } from "../input/yaml-file.ts";
import { INPUT_OPTIONS, OPTION_OF, pairsOf } from "../submit/entry-from-options.ts";
import { TARGET, targetOf } from "../target/target.ts";
import { withJitter } from "./plan.ts";

const PARAM = INPUT_OPTIONS.find(({ name }) => name === "param") as (typeof INPUT_OPTIONS)[number];

export const SOURCE_OPTIONS: readonly CommandOption[] = [
  {
    ...{ name: "file", short: "f", type: "string", value: "FILE", multiple: true },
    help: "A file as for `perdure apply`, or one with only a `retry:` policy; - reads standard input.",
  },
  { name: "job", type: "string", value: "N", help: "Which job of a file that has several, from 1." },
  { ...PARAM, help: "A parameter, for files that take them; KEY:=JSON for any value other than text." },
  { name: "dialect", type: "string", value: "NAME", help: `What the file is: ${KINDS.join(", ")}.` },
  ...TARGET,
  ...POLICY_OPTIONS.map((option) =>
    option.name === "jitter"
      ? { ...option, help: "Spread all waits by up to this, replacing the jitter of the policy; 0 gives exact waits." }
      : option,
  ),
];

/** Options that may change the policy of a file. All others must be in the file. */
const OVER_A_FILE = ["jitter", "max-attempts"];

export interface SimulationSource {
  readonly policy: Policy;
  readonly job: NonNullable<Scenario["job"]>;
  readonly annotations: Readonly<Record<string, string>>;
  /** Fields of the file that Perdure does not support, and settings that are not used here. */
  readonly notes: readonly string[];
}

/** The text of the only file; null if there is none, or more than one, or if it does not exist. */
export async function onlyText({ given, io }: CommandContext): Promise<string | null> {
  const [name, ...others] = given.texts("file");
  return name === undefined || others.length > 0 ? null : textOf(name, io);
}

/** `text`: of the only file, which was read. */
export async function sourceOf(context: CommandContext, text: string | null): Promise<SimulationSource> {
  const { given } = context;
  const { fields, jitter } = optionsOf(given);
  const source = given.flag("file")
    ? await fromFiles(context, text)
    : ofPolicy(fromOptions(given, fields), unusedSettings(context));
  return jitter === null ? source : { ...source, policy: withJitter(source.policy, jitter) };
}

function ofPolicy(policy: Policy, notes: readonly string[] = []): SimulationSource {
  return { policy, job: {}, annotations: {}, notes };
}

/** Without the jitter: in a policy it applies to the main backoff, in a simulation to every backoff. */
function optionsOf(given: Arguments): { readonly fields: PolicyFields; readonly jitter: number | null } {
  const { backoff = {}, ...fields } = policyOf(given);
  if (!("jitter" in backoff)) return { fields: { ...fields, backoff }, jitter: null };
  const { jitter, ...rest } = backoff;
  if (typeof jitter === "number" && jitter < 1) return { fields: { ...fields, backoff: rest }, jitter };
  throw valueError("--jitter", jitter, "a number from 0 to below 1, such as 0.2");
}

function fromOptions(given: Arguments, { backoff, ...fields }: PolicyFields): Policy {
  const stray = ["job", "param", "dialect", ...TARGET.map(({ name }) => name)].find((name) => given.flag(name));
  if (stray !== undefined) throw requirementError(`--${stray}`, "--file");
  try {
    return resolvePolicy(Object.keys(backoff ?? {}).length === 0 ? fields : { ...fields, ...(backoff && { backoff }) });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    // The error names the field of the policy; the message must name the option.
    const path = error.path ?? "";
    throw usageError(error.message.replace(`${path}:`, `${OPTION_OF[path] ?? path}:`));
  }
}

async function fromFiles(context: CommandContext, text: string | null): Promise<SimulationSource> {
  const { given } = context;
  const extra = POLICY_OPTIONS.find((option) => given.flag(option.name) && !OVER_A_FILE.includes(option.name));
  if (extra !== undefined) throw conflictError(`--${extra.name}`, "--file", "put it into the file");
  const source = await readSource(context, text);
  const maxAttempts = given.integer("max-attempts", { min: 1, max: MAX_COUNT });
  return maxAttempts === undefined ? source : { ...source, policy: { ...source.policy, maxAttempts } };
}

async function readSource(context: CommandContext, text: string | null): Promise<SimulationSource> {
  const { given, io } = context;
  const [files, parameters, dialect] = [given.texts("file"), pairsOf(given, "param"), given.text("dialect")];
  const [name = ""] = files;
  if (text !== null) {
    const alone = await retryAlone(context, readYamlDocuments(text, shownName(name)), dialect);
    if (alone !== null) return alone;
  }
  const { jobs, playbooks, notes } = await readJobFiles({
    ...{ files, io, dialect, parameters },
    ...(name === "-" && text !== null ? { stdin: again(text) } : {}),
    settings: async () => withPrograms(await dialectSettingsFor(context, targetOf(context))),
  });
  const [playbook] = playbooks;
  if (playbook !== undefined)
    throw usageError(`${playbook.yaml.where([])}: a playbook; its steps have policies of their own`);
  return ofEntry(chosen(given, files.join(", "), jobs).entry, notes);
}

function shownName(name: string): string {
  return name === "-" ? "stdin" : name;
}

/** Null if the file does not exist. */
async function textOf(name: string, io: CommandContext["io"]): Promise<string | null> {
  const limit = YAML_LIMITS.bytes + 1;
  const bytes = name === "-" ? await bytesOf(process.stdin) : readSmallFile(resolve(io.cwd, name), name, limit);
  return bytes === null ? null : textIn(bytes, shownName(name));
}

/** Standard input can be read only once. */
async function* again(text: string): AsyncGenerator<string> {
  yield text;
}

/** The policy of a file that contains only a policy; null for other files. */
async function retryAlone(
  context: CommandContext,
  [file, second]: readonly YamlText[],
  dialect: string | undefined,
): Promise<SimulationSource | null> {
  const value = file?.value;
  if (file === undefined || second !== undefined || !isPlain(value)) return null;
  if (Object.keys(value).join() !== "retry") return null;
  const { retry } = value as { retry: unknown };
  try {
    const settings = isForeign(retry, dialect)
      ? await dialectSettingsFor(context, targetOf(context))
      : DIALECT_DEFAULTS;
    const notes: string[] = [];
    const policy = resolvePolicy(retryBlock(retry, "retry", () => settings, dialect, notes) ?? (retry as PolicyInput));
    if (typeof retry === "number" && dialect === undefined)
      notes.push(`retry: read as Perdure's own.${hintFor(retry)}`);
    return ofPolicy(
      policy,
      notes.map((note) => `${file.where(["retry"])}: ${note}`),
    );
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const hint = dialect === undefined ? hintFor(retry) : "";
    throw yamlUsageError(file, stepsOf(error.path ?? ""), error.message + hint);
  }
}

/** Values such as `true` and 3, and fields such as `initial_delay`, are valid in several dialects. */
function hintFor(retry: unknown): string {
  const names = retryDialects(retry, "retry", DIALECT_DEFAULTS);
  return names.length === 0 ? "" : ` It can be read with --dialect ${names.join(" or ")}`;
}

/** Whether the policy is in the format of a dialect, whose settings are then read. */
function isForeign(retry: unknown, dialect: string | undefined): boolean {
  return retryBlock(retry, "retry", () => DIALECT_DEFAULTS, dialect) !== null;
}

function chosen<T>(given: Arguments, name: string, jobs: readonly T[]): T {
  const [first] = jobs;
  if (first === undefined) throw usageError(`${name}: no job in it`);
  const number = given.integer("job", { min: 1, max: jobs.length });
  if (number === undefined && jobs.length > 1) {
    throw usageError(`${name} has ${jobs.length} jobs; choose one with --job, from 1 to ${jobs.length}`);
  }
  return jobs[(number ?? 1) - 1] as T;
}

function ofEntry({ task, options = {} }: ReadEntry, notes: readonly string[]): SimulationSource {
  const { retry, timeout, expireIn, annotations = {} } = options;
  return {
    policy: resolvePolicy(retry),
    job: {
      kind: task,
      timeoutMs: timeout === undefined ? null : toMs(timeout, "timeout"),
      expireInMs: expireIn === undefined ? null : toMs(expireIn, "expireIn"),
    },
    ...{ annotations, notes },
  };
}
