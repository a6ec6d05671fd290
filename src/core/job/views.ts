/** Jobs, attempts, queues, workers and files as the API returns them: plain data, the same in this process and over the wire.
 *  Types only. */
import type { BudgetNow } from "../decision/budget.ts";
import type { Failure } from "../decision/failure.ts";
import type { NewSession, WorkerHealth } from "../worker-protocol.ts";
import type { Job, JobState, Usage } from "./job.ts";

/** A job as the API returns it, with parsed JSON.
 *  @example
 *  const { state, attempt, runAt }: JobInfo = await job.get(); */
export interface JobInfo extends Job {
  readonly payload: unknown;
  /** Texts of the submit, which the engine never reads. */
  readonly annotations: Readonly<Record<string, string>>;
  /** For people: its own name, else its action or manifest, else its kind and a short argument (`jobName`). */
  readonly name: string;
  /** How its last attempt failed, of a job that failed, or that is queued, running or blocked after it in the same redrive.
   *  Without the stack; null where that attempt had no failure. */
  readonly failure: Failure | null;
  /** The result of the attempt that succeeded; undefined until there is one. */
  readonly result: unknown;
  /** The last progress that the latest attempt reported. */
  readonly progress: unknown;
  /** The usage that the running attempt has reported; null where none runs. `usage` is that of ended attempts. */
  readonly liveUsage: Usage | null;
  /** The budgets of tokens and money that cover it, the nearest first: its own, and those of jobs above it. */
  readonly budgets: readonly BudgetNow[];
}

/** An attempt that has ended.
 *  @example
 *  const attempts: AttemptRow[] = await job.attempts();
 *  for (const { attempt, failure } of attempts) console.log(attempt, failure?.message ?? "ok"); */
export interface AttemptRow {
  readonly jobId: string;
  readonly attempt: number;
  readonly chapter: number;
  readonly session: string | null;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly outcome: string;
  readonly failure: Failure | null;
  readonly usage: Usage | null;
  readonly result: string | null;
  readonly log: string | null;
}

/** A report that arrived after its attempt had ended. */
export interface LateReport {
  readonly attempt: number;
  readonly at: number;
  readonly session: string | null;
  readonly outcome: string;
}

/** A queue and how many jobs it has in each state.
 *  @example
 *  const queues: QueueCounts[] = await perdure.queues();
 *  for (const { queue, due, counts } of queues) console.log(queue, due, counts.running); */
export interface QueueCounts {
  readonly namespace: string;
  readonly queue: string;
  readonly paused: boolean;
  readonly pausedAt: number | null;
  readonly counts: Readonly<Record<JobState, number>>;
  /** Queued jobs that are due. */
  readonly due: number;
}

/** A worker's session.
 *  @example
 *  const workers: SessionRow[] = await perdure.workers();
 *  for (const { name, running, endedAt } of workers) console.log(name, running, endedAt === null); */
export interface SessionRow extends NewSession {
  readonly startedAt: number;
  readonly renewedAt: number;
  readonly leaseEndsAt: number;
  readonly endedAt: number | null;
  /** When draining was requested. */
  readonly drainingAt: number | null;
  /** As last reported. */
  readonly health: WorkerHealth | null;
  readonly running: number;
}

/** An output file of an attempt.
 *  @example
 *  const { files } = await (await perdure.outputs(job.id)).files(1);
 *  const largest: BlobFile | undefined = files.toSorted((a, b) => b.size - a.size)[0]; */
export interface BlobFile {
  /** With `/` between folders. The attempt chose it, so escape it before printing. */
  readonly name: string;
  readonly size: number;
  readonly mime: string;
  readonly sha256: string;
}

/** An effective setting, without secrets. */
export interface SettingFact {
  readonly key: string;
  /** Null: not set. */
  readonly value: string | number | boolean | readonly unknown[] | null;
  /** `--port`, `PERDURE_PORT`, `perdure.yaml:3` or `default`. */
  readonly source: string;
}

/** The settings of a server, and which process they belong to. */
export interface ServerSettings {
  readonly host: string;
  readonly pid: number;
  readonly startedAt: number;
  readonly settings: readonly SettingFact[];
}
