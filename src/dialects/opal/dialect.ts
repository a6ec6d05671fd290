/** An OPAL job in a file: the fields that its clients send to the API.
 *
 *    prompt: Draw a fox
 *    metadata: { style: ink }
 *    job_id: job_92e725aa5034       # one id, one job; without it each apply is a new job
 *    input_file: fox.png            # beside this file
 *    retry: { max_retries: 3, backoff: [3, 8, 15] }   # or backoff: { initial: 1, factor: 2, max: 60, jitter: 0.2 }
 *    env: { OPAL_MAX_RETRIES: 3 }   # OPAL's variables; not together with the same field in `retry`
 *
 *  The setting `opal.engine` has the program that runs it, as for the API. */
import { asObject, asText, fieldPath, isPlain, nearest } from "../../core/check.ts";
import { ConfigError } from "../../core/errors.ts";
import { checkExecInput } from "../../core/input/exec-input.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import type { Dialect, ReadContext, Reading, ViewParts } from "../dialect.ts";
import { type OpalAttempts, opalAttempts } from "./attempts.ts";
import { opalExec } from "./exec.ts";
import { isOpalId, OPAL_FILE_ANNOTATION, OPAL_TAG, opalId, opalIdOf, opalKey } from "./format.ts";
import { type OpalJob, opalJob } from "./job.ts";
import { type OpalRetry, opalJobPolicy, opalRetry } from "./retry.ts";
import { type OpalFileSettings, type OpalSettings, opalVariables } from "./settings.ts";

const KEYS = ["prompt", "metadata", "job_id", "input_file", "retry", "env"] as const;
const MAX_PATH = 1_024;

/** Fields of `retry` and the variables that set the same value. */
const SAME = [
  ["max_retries", "OPAL_MAX_RETRIES"],
  ["backoff", "OPAL_RETRY_BACKOFFS"],
] as const;

/** The variables that apply to one job. The other five are for servers and workers. */
const OF_JOBS = ["OPAL_MAX_RETRIES", "OPAL_RETRY_BACKOFFS"];
const OF_SERVERS = [
  ...["OPAL_LEASE_TTL_SECS", "OPAL_LEASE_RENEW_SECS", "OPAL_RECLAIM_SCAN_EVERY_LOOPS"],
  ...["OPAL_HEARTBEAT_INTERVAL_SECS", "OPAL_WORKER_TTL_SECS"],
];

export const opal = {
  name: "opal",
  called: "an OPAL job",
  recognises,
  signs: { text: "prompt", fields: ["prompt"], common: ["metadata"] },
  isSource: (job: JobInfo) => opalIdOf(job) !== null,
  read,
  view: ({ job, attempts, workerName, events }: ViewParts): OpalJob => opalJob(job, attempts, workerName, events),
  bookkeeping: [OPAL_FILE_ANNOTATION],
  keysOf: (reference: string) => (isOpalId(reference) ? [opalKey(reference)] : []),
  reference: "the id that a client of OPAL uses",
} as const satisfies Dialect;

/** The attempt document that OPAL keeps beside a job. */
export function opalAttemptsView({ job, attempts, events }: ViewParts): OpalAttempts {
  return opalAttempts(job, attempts, events);
}

function recognises(document: unknown): boolean {
  return isPlain(document) && Object.hasOwn(document, "prompt") && !Object.hasOwn(document, "kind");
}

function read(document: unknown, context: ReadContext): Reading {
  const { prompt, metadata, job_id, input_file, env, retry: own } = asObject(document, "", KEYS);
  const notes: string[] = [];
  const settings = settingsOf(env, context.settings.opal, notes);
  // Without one, Perdure's job id is used: a file that is applied twice is two jobs, even if it was converted in between.
  const id = job_id === undefined || job_id === null ? null : opalId(job_id, context.randomBytes);
  const inputFile = input_file === undefined || input_file === null ? {} : { inputFile: fileOf(input_file, context) };
  const engine = engineOf(context.settings.opal);
  const ofJob = opalRetry(own, "retry");
  checkOnce(ofJob, env);
  const input = opalExec({ engine, prompt, opalId: id, metadata, retry: ofJob, ...inputFile });
  checkExecInput(input, "");
  const retry = opalJobPolicy(settings, ofJob);
  resolvePolicy(retry, ofJob === null ? "env" : "retry");
  const known = id === null ? { annotations: { [OPAL_FILE_ANNOTATION]: "yes" } } : { key: opalKey(id) };
  return { jobs: [{ task: "exec", input, options: { ...known, tags: [OPAL_TAG], retry } }], notes };
}

function engineOf({ engine }: OpalFileSettings): readonly string[] {
  if (engine !== null) return engine;
  const fix = "set an engine: opal.engine, or PERDURE_OPAL_ENGINE in the environment";
  throw new ConfigError({ path: "prompt", given: null, problem: "no engine is configured to run it", fix });
}

function fileOf(given: unknown, { bytes }: ReadContext): { name: string; base64: string } {
  const path = asText(given, "input_file", MAX_PATH);
  const found = bytes(path);
  if (found === null) throw new ConfigError({ path: "input_file", given, allowed: "a file in the folder of this one" });
  return { name: path, base64: Buffer.from(found).toString("base64") };
}

/** Settings apply where the file sets nothing. */
function settingsOf(given: unknown, { maxRetries, backoffs }: OpalFileSettings, notes: string[]): OpalSettings {
  const env: Record<string, string> = {
    OPAL_MAX_RETRIES: String(maxRetries),
    OPAL_RETRY_BACKOFFS: backoffs.join(","),
  };
  for (const [name, value] of Object.entries(given === undefined || given === null ? {} : asObject(given, "env"))) {
    if (!OF_JOBS.includes(name) && !OF_SERVERS.includes(name)) throw unknownVariable(name);
    env[name] = textOf(value, fieldPath("env", name));
    if (OF_SERVERS.includes(name))
      notes.push(`env.${name} is a setting of the server and its workers, and is ignored here; set it there`);
  }
  try {
    return opalVariables(env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const { path, given: value, allowed, nearest: near } = error;
    throw new ConfigError({ path: `env.${path}`, given: value, allowed, nearest: near });
  }
}

/** One value under two names would be ambiguous. */
function checkOnce(retry: OpalRetry | null, env: unknown): void {
  for (const [field, name] of SAME) {
    if (retry?.[field] === undefined || !isPlain(env) || !Object.hasOwn(env, name)) continue;
    const path = `retry.${field}`;
    const problem = `env.${name} sets the same value`;
    throw new ConfigError({ path, given: retry[field], problem, allowed: "one of the two" });
  }
}

function unknownVariable(name: string): ConfigError {
  const known = [...OF_JOBS, ...OF_SERVERS];
  const problem = `OPAL has no variable ${name}`;
  const path = fieldPath("env", name);
  return new ConfigError({ path, given: name, allowed: known.join(", "), nearest: nearest(name, known), problem });
}

/** As it would be in an environment. */
function textOf(value: unknown, path: string): string {
  if (typeof value === "string") return value;
  if (typeof value === "number" || Array.isArray(value)) return JSON.stringify(value);
  throw new ConfigError({ path, given: value, allowed: "a number, a list of numbers, or text" });
}
