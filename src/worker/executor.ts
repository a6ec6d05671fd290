/** How a worker runs jobs of a kind: a function of a task, a command, an HTTP request. */
import type { ReportedOutcome } from "../core/work.ts";
import type { AttemptRun } from "./attempt-run.ts";

export interface Executor {
  readonly kind: string;
  /** Runs the attempt to its end. Never throws, and ends what it started when `run.signal` is aborted. */
  run(run: AttemptRun): Promise<Executed>;
  /** What runs, and what is asked to stop from now on, is ended without any grace. */
  force?(): void;
  /** The report was answered: nobody will ask for this attempt again. */
  answered?(run: AttemptRun): void;
  /** The report was accepted, and the job has ended with it. */
  jobEnded?(jobId: string): void;
}

export interface Executed {
  readonly outcome: ReportedOutcome;
  /** The task itself said how it ended: that counts, also when it was asked to stop meanwhile. */
  readonly isVerdict?: boolean;
}
