/** The messages of fluster's `ControllerService` in JSON: requests become jobs, and a job becomes a `JobStatus`. Its
 *  clients identify a job by the name that they choose. */
import { ConfigError } from "../../core/errors.ts";
import type { ExecInput } from "../../core/input/exec-input.ts";
import type { JobInfo } from "../../core/job/views.ts";
import type { ReadEntry } from "../dialect.ts";
import { isJobId } from "../shared.ts";
import { readFluster } from "./dialect.ts";
import { PYTHON_LABEL, pythonEntrypoint } from "./entrypoint.ts";
import { type ProtoMessage, readProto, toProtoJson } from "./proto-json.ts";
import type { FlusterSettings } from "./settings.ts";
import { type FlusterStatus, flusterIdTag, flusterKey, isFlusterId, MAX_FLUSTER_ID } from "./view.ts";

const RESOURCE_SPEC: ProtoMessage = {
  ...{ cpu: "double", memory: "string", disk: "string" }, // an int32 in fluster; fractions are possible here
  device: {
    message: {
      cpu: { message: { variant: "string" } },
      gpu: { message: { variant: "string", count: "int32" } },
      tpu: { message: { variant: "string", topology: "string" } },
    },
  },
  ...{ replicas: "int32", preemptible: "bool", regions: { list: "string" } },
};
const ENVIRONMENT_CONFIG: ProtoMessage = {
  ...{ workspace: "string", pip_packages: { list: "string" }, env_vars: { map: "string" }, extras: { list: "string" } },
};
const RETRY_CONFIG: ProtoMessage = {
  ...{ max_retries_failure: "int32", max_retries_preemption: "int32" },
  ...{ initial_retry_delay_ms: "int64", max_retry_delay_ms: "int64", backoff_multiplier: "double" },
  ...{ retry_on_exit_codes: { list: "int32" }, no_retry_on_exit_codes: { list: "int32" } },
};
const LAUNCH_JOB_REQUEST: ProtoMessage = {
  ...{ name: "string", serialized_entrypoint: "bytes" },
  /** Not in fluster: a command or a task, as in fluster files for Perdure. */
  entrypoint: "json",
  ...{ resources: { message: RESOURCE_SPEC }, environment: { message: ENVIRONMENT_CONFIG } },
  ...{ bundle_gcs_path: "string", bundle_hash: "string", bundle_blob: "bytes" },
  ...{ scheduling_timeout_seconds: "int32", ports: { list: "string" }, parent_job_id: "string" },
  retry: { message: RETRY_CONFIG },
};
const JOB_ID_REQUEST: ProtoMessage = { job_id: "string", include_result: "bool" };
const LIST_JOBS_REQUEST: ProtoMessage = { namespace: "string" };

/** Annotations of a job from `LaunchJob`: its id there, its parent's id, and unsupported requests. */
export const FLUSTER_JOB_ID = "fluster/job-id";
export const FLUSTER_PARENT = "fluster/parent-job-id";
export const FLUSTER_NOTES = "fluster/notes";

/** The id that clients use: the job's name, or Perdure's id if it did not come from a client. */
export function flusterJobId({ id, annotations }: Pick<JobInfo, "id" | "annotations">): string {
  return annotations?.[FLUSTER_JOB_ID] ?? id;
}

export interface FlusterLaunch {
  readonly name: string;
  /** Its name or Perdure's id; null if it has no parent. */
  readonly parent: string | null;
  /** Without the parent and the bundle. */
  readonly job: ReadEntry;
  /** A zip in base64, for the standard input of the job. */
  readonly bundle: string | null;
}

export function readLaunch(body: unknown, settings: FlusterSettings): FlusterLaunch {
  const fields = readProto(body, LAUNCH_JOB_REQUEST, "");
  const name = launchName(fields.name);
  const { parent_job_id: parent = null, serialized_entrypoint: pickle, entrypoint } = fields;
  if ((pickle === undefined) === (entrypoint === undefined)) throw noLaunchEntrypoint(pickle !== undefined);
  const bundle = bundleOf(fields);
  const { resources, environment, ports, scheduling_timeout_seconds, retry } = fields;
  // The program is inserted below; here it is a placeholder.
  const document = {
    ...{ name, entrypoint: entrypoint ?? ["python3"], resources, environment, ports },
    ...{ scheduling_timeout_seconds, retry },
  };
  const { jobs, notes } = readFluster(withoutMissing(document), settings);
  const read = jobs[0] as ReadEntry;
  const python = pickle === undefined ? null : pythonEntrypoint(pickle as string, bundle !== null);
  const all = [...notes, ...bundleNotes(fields)];
  const { options = {} } = read;
  const job: ReadEntry = {
    task: read.task,
    ...(read.task === "exec" ? { input: commandOf(read.input as ExecInput, name, python) } : inputOf(read)),
    options: {
      ...options,
      key: flusterKey(name),
      tags: [...(options.tags ?? []), flusterIdTag(name)],
      ...(python === null ? {} : { labels: PYTHON_LABEL }),
      annotations: {
        ...options.annotations,
        [FLUSTER_JOB_ID]: name,
        ...(all.length === 0 ? {} : { [FLUSTER_NOTES]: all.join(" ").slice(0, MAX_NOTES).toWellFormed() }),
      },
    },
  };
  return { name, parent: parent as string | null, job, bundle };
}

const MAX_NOTES = 4_000;

function launchName(name: unknown): string {
  const allowed = `a name of 1 to ${MAX_FLUSTER_ID} characters, not only spaces, without control characters`;
  if (name === undefined) {
    throw new ConfigError({ path: "name", given: name, allowed, problem: "Job name is required" });
  }
  if (typeof name !== "string" || name.trim() === "" || !isFlusterId(name)) {
    throw new ConfigError({ path: "name", given: name, allowed });
  }
  if (!isJobId(name)) return name;
  const problem = "it would be read as the id of another job";
  throw new ConfigError({ path: "name", given: name, allowed: "a name that does not look like an id", problem });
}

function noLaunchEntrypoint(hasBoth: boolean): ConfigError {
  const problem = hasBoth ? "both serialized_entrypoint and entrypoint" : "no entrypoint";
  const allowed =
    'either serialized_entrypoint, a pickled callable in base64, or entrypoint, such as {"command": ["python", "train.py"]}';
  return new ConfigError({ path: "serialized_entrypoint", given: undefined, allowed, problem });
}

function bundleOf(fields: Readonly<Record<string, unknown>>): string | null {
  const { bundle_gcs_path: path, bundle_blob: blob, serialized_entrypoint: pickle } = fields;
  if (path !== undefined) {
    const allowed = "left out: workers fetch nothing from other storage; use bundle_blob";
    throw new ConfigError({ path: "bundle_gcs_path", given: path, allowed });
  }
  if (blob === undefined) return null;
  if (pickle !== undefined) return blob as string;
  const allowed = "left out: a bundle is for serialized_entrypoint; a command uses the files of its worker";
  throw new ConfigError({ path: "bundle_blob", given: "a bundle", allowed });
}

function bundleNotes({ bundle_blob, bundle_hash }: Readonly<Record<string, unknown>>): string[] {
  const notes: string[] = [];
  if (bundle_hash !== undefined) notes.push("bundle_hash is not used: bundles are not cached.");
  if (bundle_blob !== undefined) {
    notes.push("bundle_blob is unpacked for each attempt; dependencies of its pyproject.toml are not installed.");
  }
  return notes;
}

function commandOf(input: ExecInput, name: string, python: Pick<ExecInput, "argv" | "files"> | null): ExecInput {
  const { fill = {} } = input;
  // A Perdure task has no environment variables of fluster.
  if (!("FLUSTER_JOB_ID" in fill)) return input;
  const { FLUSTER_JOB_ID: _, ...others } = fill;
  return { ...input, ...python, env: { ...input.env, FLUSTER_JOB_ID: name }, fill: others };
}

function inputOf({ input }: ReadEntry): Pick<ReadEntry, "input"> {
  return input === undefined ? {} : { input };
}

function withoutMissing(fields: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** For `GetJobStatus` and `TerminateJob`: the name of a job, or Perdure's id. */
export function readJobId(body: unknown): string {
  const { job_id: id, include_result: wantsResult } = readProto(body, JOB_ID_REQUEST, "");
  if (wantsResult === true) {
    const file =
      "have it write a file into $PERDURE_OUTPUT_DIR/artifacts, and read it with `perdure artifacts NAME FILE`";
    const allowed = `false: the return value of a callable is not kept; ${file}`;
    throw new ConfigError({ path: "include_result", given: true, allowed });
  }
  if (typeof id === "string") return id;
  throw new ConfigError({ path: "job_id", given: id, allowed: "the job_id that LaunchJob returned" });
}

/** The requested namespace; null for that of the token. */
export function readListJobs(body: unknown): string | null {
  const { namespace = null } = readProto(body, LIST_JOBS_REQUEST, "");
  return namespace as string | null;
}

const INT64: ReadonlySet<string> = new Set(["started_at_ms", "finished_at_ms", "retry_available_at_ms"]);

/** Only the fields of `JobStatus`: strict JSON clients refuse unknown ones. A list leaves out the attempts, as in
 *  fluster. `message` is for people. */
export function jobStatusJson(
  status: FlusterStatus,
  job: Pick<JobInfo, "id" | "annotations">,
  message: string | null = null,
): object {
  const { job_id: _, name: __, next_retry_delay_ms: ___, attempts, state, ...shown } = status;
  const notes = job.annotations?.[FLUSTER_NOTES] ?? null;
  const fields = {
    job_id: flusterJobId(job),
    state: `JOB_STATE_${state}`,
    ...shown,
    parent_job_id: job.annotations?.[FLUSTER_PARENT] ?? shown.parent_job_id,
    status_message: [message, notes].filter((each) => each !== null).join(" "),
    attempts: attempts.map((each) => toProtoJson({ ...each, state: `JOB_STATE_${each.state}` }, INT64)),
  };
  return toProtoJson(fields, INT64);
}
