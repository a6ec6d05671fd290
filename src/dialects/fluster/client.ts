/** fluster's client on an engine in this process or a server: `submit`, `wait`, `status`, `terminate`, with its names
 *  and units (seconds). A failed job is a status, not an error; a wait that times out throws. */

import type { Perdure } from "../../core/api.ts";
import { asNumber, isPlain } from "../../core/check.ts";
import { MAX_DURATION_MS } from "../../core/duration.ts";
import { ConfigError, PerdureError } from "../../core/errors.ts";
import { riskyNote, riskyVariables } from "../../core/input/exec-env.ts";
import { type AnyTask, isTask, type Task } from "../../core/task/task.ts";
import { readParts } from "../read-view.ts";
import { dialectSettingsFrom } from "../settings.ts";
import { type FlusterResources, readFluster } from "./dialect.ts";
import type { FlusterEntrypoint, FlusterEnvironment } from "./entrypoint.ts";
import type { FlusterRetryConfig } from "./retry.ts";
import { type FlusterStatus, flusterStatus } from "./view.ts";

/** What the client needs of an engine, or of a client of a server. */
export type FlusterCluster = Pick<Perdure, "submitMany" | "job" | "cancel" | "dialectSettings">;

/** A function runs on workers that have its task; it cannot be sent to them. */
export interface CallableEntrypoint {
  readonly task: AnyTask;
  readonly args?: unknown;
}

/** A job for fluster's client.
 *  @example
 *  const wanted: FlusterSubmit = { name: "train", entrypoint: { command: ["python", "train.py"] } }; */
export interface FlusterSubmit {
  readonly entrypoint: FlusterEntrypoint | CallableEntrypoint;
  readonly name: string;
  readonly resources?: FlusterResources;
  readonly environment?: FlusterEnvironment | null;
  readonly ports?: readonly string[] | null;
  /** 0 waits forever. */
  readonly scheduling_timeout_seconds?: number;
  readonly retry?: FlusterRetryConfig | null;
  readonly parent_job_id?: string;
}

export interface FlusterOptions {
  /** Called for each thing that a job asks for and Perdure does not support. Default: `console.warn`. */
  readonly onNote?: (note: string) => void;
  /** The current time, to decide whether a retry is ready. Default: this process's clock. A job's timestamps use the
   *  clock of its server or database: if they differ, `retry_available_at_ms` becomes 0 too early or too late by the
   *  difference. Only what is shown is affected, not when the job starts. */
  readonly now?: () => number;
}

/** fluster's client with its names and units (seconds), on an engine or a server.
 *  @example
 *  const cluster: FlusterClient = fluster(perdure);
 *  const status = await cluster.wait(await cluster.submit(wanted), { timeout: 60 }); */
export interface FlusterClient {
  /** Stores a job and returns its id. */
  submit(job: FlusterSubmit): Promise<string>;
  /** Waits until the job ends, whatever its state. After `timeout` seconds it throws an error with the code
   *  `result_timeout`, and the job continues. Without it, waits without limit. */
  wait(id: string, options?: { readonly timeout?: number }): Promise<FlusterStatus>;
  status(id: string): Promise<FlusterStatus>;
  /** Kills a job and its children. An ended job stays unchanged. */
  terminate(id: string): Promise<void>;
}

/** What a fluster job runs, if not a command.
 *  @example
 *  const entrypoint = Entrypoint.fromCallable(resize, { url });
 *  await fluster(perdure).submit({ name: "resize", entrypoint }); */
export const Entrypoint = {
  fromCallable<Input, Received>(
    task: Task<Input, unknown, Received>,
    ...[args]: undefined extends Input ? [args?: NoInfer<Input>] : [args: NoInfer<Input>]
  ): CallableEntrypoint {
    if (isTask(task)) return { task, args };
    const allowed = "a task made with task()";
    throw new ConfigError({ path: "entrypoint", given: task, allowed });
  },

  fromCommand(argv: readonly string[]): FlusterEntrypoint {
    return { command: argv };
  },
} as const;

/** fluster's client for `cluster`, from `Perdure.open()` or `Perdure.connect()`.
 *  @example
 *  const id = await fluster(perdure).submit({ name: "train", entrypoint: { command: ["python", "train.py"] } }); */
export function fluster(
  cluster: FlusterCluster,
  { onNote = warn, now = systemTime }: FlusterOptions = {},
): FlusterClient {
  async function status(id: string): Promise<FlusterStatus> {
    const parts = await readParts(await cluster.job(id));
    // The events have the names of the workers.
    return flusterStatus({ ...parts, workerName: () => null, now: now() });
  }

  return {
    async submit(job) {
      const { fluster: settings } = await dialectSettingsFrom(cluster);
      const callable = callableOf(job);
      const { jobs, notes } = readFluster(callable === null ? job : { ...job, entrypoint: named(callable) }, settings);
      const entries = jobs.map((entry) => (callable === null ? entry : { ...entry, task: callable.task }));
      const [answer] = await cluster.submitMany(entries);
      if (answer === undefined) throw new PerdureError("internal", "a submit has no answer");
      if (!answer.ok) throw answer.error;
      for (const note of [...notes, ...riskyVariables(jobs).map(riskyNote)]) onNote(note);
      return answer.job.id;
    },

    async wait(id, { timeout } = {}) {
      const handle = await cluster.job(id);
      try {
        await handle.result(timeout === undefined ? {} : { timeout: secondsOf(timeout) });
      } catch (error) {
        const { code } = error as Partial<PerdureError>;
        if (code !== "job_failed" && code !== "job_cancelled") throw error;
      }
      return status(id);
    },

    status,

    async terminate(id) {
      await cluster.cancel(id);
    },
  };
}

/** Dialects have no clock; a client in a program uses this one. */
function systemTime(): number {
  return Date.now();
}

function warn(note: string): void {
  console.warn(`perdure: ${note}`);
}

/** Null for anything else: the reader reports whether it is a job. */
function callableOf(job: FlusterSubmit): CallableEntrypoint | null {
  const { entrypoint } = (isPlain(job) ? job : {}) as Partial<FlusterSubmit>;
  return isPlain(entrypoint) && isTask((entrypoint as CallableEntrypoint).task)
    ? (entrypoint as CallableEntrypoint)
    : null;
}

/** In a form that a document could have. */
function named({ task, ...rest }: CallableEntrypoint): FlusterEntrypoint {
  return { ...rest, task: task.kind };
}

function secondsOf(timeout: number): number {
  return Math.round(asNumber(timeout, "timeout", { min: 0, max: MAX_DURATION_MS / 1_000 }) * 1_000);
}
