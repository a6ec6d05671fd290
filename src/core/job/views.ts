/** What people and programs are shown of jobs, attempts, queues, workers and files: plain data, the same from a database
 *  in this process and over the wire. Types only. */
import type { BudgetNow } from "../decision/budget.ts";
import type { Failure } from "../decision/failure.ts";
import type { NewSession, WorkerHealth } from "../worker-protocol.ts";
import type { Job, JobState, Usage } from "./job.ts";

/** A job as a user of the library sees it: texts that hold JSON are given as values.
 *  @example
 *  const { state, attempt, runAt }: JobInfo = await job.get(); */
export interface JobInfo extends Job {
  readonly payload: unknown;
  /** Texts that came with it: kept, shown, and never read by the engine. */
  readonly annotations: Readonly<Record<string, string>>;
  /** For people: its own name, else its action or manifest, else its kind and a short argument (`jobName`). */
  readonly name: string;
  /** How its last attempt failed, of a job that failed, or that is queued, running or blocked after it in the same redrive.
   *  Without the stack; null where that attempt had no failure. */
  readonly failure: Failure | null;
  /** Of the winning attempt; undefined until there is one. */
  readonly result: unknown;
  /** What the latest attempt last said of its progress. */
  readonly progress: unknown;
  /** What the running attempt has used so far, as it has reported; `usage` is of those that have ended. Null where none runs. */
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

/** A report that came when its attempt was closed already. */
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
  /** Of the queued ones, those whose time has come. */
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
  /** When it was told to take no more jobs. */
  readonly drainingAt: number | null;
  /** As it last told. */
  readonly health: WorkerHealth | null;
  readonly running: number;
}

/** A file that an attempt left.
 *  @example
 *  const { files } = await (await perdure.outputs(job.id)).files(1);
 *  const largest: BlobFile | undefined = files.toSorted((a, b) => b.size - a.size)[0]; */
export interface BlobFile {
  /** With `/` between folders. Whoever wrote it chose it: print it with care. */
  readonly name: string;
  readonly size: number;
  readonly mime: string;
  readonly sha256: string;
}

/** A setting in force, for people. Secrets are not in it. */
export interface SettingFact {
  readonly key: string;
  /** Null: it has no value. */
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
