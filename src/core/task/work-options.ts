/** The options of a worker, and the handle of a running one. Types only; `worker/work-options.ts` checks them. */
import type { Duration } from "../duration.ts";
import type { ResourcesInput } from "../input/resources.ts";

/** The options of a worker.
 *  @example
 *  const options: WorkOptions = { concurrency: 5, queues: ["images"], labels: { gpu: "yes" } };
 *  await perdure.work([resize], options); */
export interface WorkOptions {
  /** The number of handlers that may run at a time. Default: 10. */
  concurrency?: number;
  /** Default: all queues of the namespace. */
  queues?: readonly string[];
  /** A name for display. Default: host and process id. */
  name?: string;
  /** Names that start with `runtime/` or `connection/` are reserved for `runtimes` and `connections`. */
  labels?: Readonly<Record<string, string>>;
  /** Runtimes for commands, as in ["python", "cuda"]: each is the label `runtime/NAME` with the value "yes". */
  runtimes?: readonly string[];
  /** The cpu and memory for jobs. Default: those of this machine. Only jobs that name resources count, and nothing is enforced
   *  while they run. */
  resources?: ResourcesInput;
  /** How long a handler may continue after its signal is aborted. Default: 5 s. */
  stopGrace?: Duration;
  /** For commands: names such as PATH or LD_PRELOAD that jobs may set, or "*" for all. */
  allowEnv?: readonly string[];
  /** For commands: runs each in a pid namespace where possible (Linux, as root), so that no process it started can outlive it.
   *  Without privileges its processes are found by a variable in their environment. */
  isolate?: boolean;
  /** For requests: loopback and private addresses that are permitted, as in ["127.0.0.1", "10.0.0.0/8"]. */
  allowAddresses?: readonly string[];
  /** For SQL: addresses of PostgreSQL databases by name, as in { shop: "postgres://user:password@host/db" }. They stay in this
   *  process; each is the label `connection/NAME` with the value "yes", which jobs for it require. In names, case and `-` or `_`
   *  make no difference. */
  connections?: Readonly<Record<string, string>>;
  /** Called with the output of commands as it arrives. The command waits for a returned promise. */
  onOutput?: (chunk: OutputChunk) => Promise<void> | undefined;
}

/** A piece of output of a command.
 *  @example
 *  const show = ({ stream, bytes }: OutputChunk) => void process[stream].write(bytes);
 *  await perdure.work([exec], { onOutput: show }); */
export interface OutputChunk {
  readonly jobId: string;
  readonly attempt: number;
  readonly stream: "stdout" | "stderr";
  readonly bytes: Uint8Array;
}

/** A running worker.
 *  @example
 *  const worker: WorkerHandle = await perdure.work([resize]);
 *  await worker.stop({ grace: "30s" }); */
export interface WorkerHandle extends AsyncDisposable {
  /** Its session's id. */
  readonly session: string;
  /** Handlers running now. */
  readonly running: number;
  /** Resolves when the worker has stopped after a drain that an operator requested. */
  readonly drained: Promise<void>;
  /** Claims no more jobs, waits up to `grace` (default 30 s) for running ones and returns the others to the queue, which does not
   *  count as an attempt. A second call waits for the first; with `force` it ends it. */
  stop(options?: StopOptions): Promise<void>;
}

/** The options of a stop.
 *  @example
 *  const now: StopOptions = { grace: 0, force: true };
 *  await worker.stop(now); */
export interface StopOptions {
  /** How long jobs may continue. Default: 30 s. */
  grace?: Duration;
  /** Kills commands immediately, without their own grace time, and does not wait for handlers. */
  force?: boolean;
}
