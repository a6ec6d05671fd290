/** fluster's client, over an engine in this process or a server: `submit`, `wait`, `status`, `terminate`, with its words
 *  and its units (seconds). A job that failed is a status here, not an error; what throws is a wait that is over too soon. */

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

/** What is asked of an engine, or of a client of a server. */
export type FlusterCluster = Pick<Perdure, "submitMany" | "job" | "cancel" | "dialectSettings">;

/** A function is run by the workers that have its task; it cannot be sent to them. */
export interface CallableEntrypoint {
  readonly task: AnyTask;
  readonly args?: unknown;
}

/** A job as fluster's client submits it.
 *  @example
 *  const wanted: FlusterSubmit = { name: "train", entrypoint: { command: ["python", "train.py"] } }; */
export interface FlusterSubmit {
  readonly entrypoint: FlusterEntrypoint | CallableEntrypoint;
  readonly name: string;
  readonly resources?: FlusterResources;
  readonly environment?: FlusterEnvironment | null;
  readonly ports?: readonly string[] | null;
  /** 0 is to wait for ever. */
  readonly scheduling_timeout_seconds?: number;
  readonly retry?: FlusterRetryConfig | null;
  readonly parent_job_id?: string;
}

export interface FlusterOptions {
  /** Hears what a job asks for and Perdure cannot do, one sentence each. Default: `console.warn`. */
  readonly onNote?: (note: string) => void;
  /** The time, by which a retry is ready or still waits. Default: that of this process. The instants of a job are by the clock
   *  of its server or database: where the two differ, `retry_available_at_ms` is 0 so much too early or too late. That is
   *  what is shown, not when the job starts. */
  readonly now?: () => number;
}

/** fluster's client: its terms and units (seconds), on an engine or a server.
 *  @example
 *  const cluster: FlusterClient = fluster(perdure);
 *  const status = await cluster.wait(await cluster.submit(wanted), { timeout: 60 }); */
export interface FlusterClient {
  /** Stores a job and answers its id. */
  submit(job: FlusterSubmit): Promise<string>;
  /** Waits for its end, whatever it is. `timeout` is in seconds; when it is over, an error with the code
   *  `result_timeout` is thrown and the job goes on. Without it: for as long as it takes. */
  wait(id: string, options?: { readonly timeout?: number }): Promise<FlusterStatus>;
  status(id: string): Promise<FlusterStatus>;
  /** Kills a job, and its children with it. One that has ended stays as it is. */
  terminate(id: string): Promise<void>;
}

/** What a fluster job runs, where it is not a command.
 *  @example
 *  const entrypoint = Entrypoint.fromCallable(resize, { url });
 *  await fluster(perdure).submit({ name: "resize", entrypoint }); */
export const Entrypoint = {
  fromCallable<Input, Received>(
    task: Task<Input, unknown, Received>,
    ...[args]: undefined extends Input ? [args?: NoInfer<Input>] : [args: NoInfer<Input>]
  ): CallableEntrypoint {
    if (isTask(task)) return { task, args };
    const allowed = "a task made with task(), which a worker runs";
    throw new ConfigError({ path: "entrypoint", given: task, allowed });
  },

  fromCommand(argv: readonly string[]): FlusterEntrypoint {
    return { command: argv };
  },
} as const;

/** The words of fluster's client for `cluster`: what `Perdure.open()` or `Perdure.connect()` gave.
 *  @example
 *  const id = await fluster(perdure).submit({ name: "train", entrypoint: { command: ["python", "train.py"] } }); */
export function fluster(
  cluster: FlusterCluster,
  { onNote = warn, now = systemTime }: FlusterOptions = {},
): FlusterClient {
  async function status(id: string): Promise<FlusterStatus> {
    const parts = await readParts(await cluster.job(id));
    // The events know the names of the workers.
    return flusterStatus({ ...parts, workerName: () => null, now: now() });
  }

  return {
    async submit(job) {
      const { fluster: settings } = await dialectSettingsFrom(cluster);
      const callable = callableOf(job);
      const { jobs, notes } = readFluster(callable === null ? job : { ...job, entrypoint: named(callable) }, settings);
      const entries = jobs.map((entry) => (callable === null ? entry : { ...entry, task: callable.task }));
      const [answer] = await cluster.submitMany(entries);
      if (answer === undefined) throw new PerdureError("internal", "a submit was not answered");
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

/** The dialects have no clock of their own; whoever makes a client in a program has this one. */
function systemTime(): number {
  return Date.now();
}

function warn(note: string): void {
  console.warn(`perdure: ${note}`);
}

/** Null for all else: whether it is a job at all is for the reader to say. */
function callableOf(job: FlusterSubmit): CallableEntrypoint | null {
  const { entrypoint } = (isPlain(job) ? job : {}) as Partial<FlusterSubmit>;
  return isPlain(entrypoint) && isTask((entrypoint as CallableEntrypoint).task)
    ? (entrypoint as CallableEntrypoint)
    : null;
}

/** As a document could say it. */
function named({ task, ...rest }: CallableEntrypoint): FlusterEntrypoint {
  return { ...rest, task: task.kind };
}

function secondsOf(timeout: number): number {
  return Math.round(asNumber(timeout, "timeout", { min: 0, max: MAX_DURATION_MS / 1_000 }) * 1_000);
}
