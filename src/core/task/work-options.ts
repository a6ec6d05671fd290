/** How a worker is started, and what is in one's hands when it runs. Types only; `worker/work-options.ts` checks them. */
import type { Duration } from "../duration.ts";
import type { ResourcesInput } from "../input/resources.ts";

/** How a worker is started.
 *  @example
 *  const options: WorkOptions = { concurrency: 5, queues: ["images"], labels: { gpu: "yes" } };
 *  await perdure.work([resize], options); */
export interface WorkOptions {
  /** Handlers at a time; default 10. */
  concurrency?: number;
  /** Default: all queues of the namespace. */
  queues?: readonly string[];
  /** Shown to people; default host and process id. */
  name?: string;
  /** Names that begin with `runtime/` are kept for `runtimes`. */
  labels?: Readonly<Record<string, string>>;
  /** What commands find here, as in ["python", "cuda"]: each is the label `runtime/NAME` with the value "yes". */
  runtimes?: readonly string[];
  /** The cpu and memory that jobs may take here; default: those of this machine. Only jobs that name resources are counted,
   *  and nothing is enforced while they run. */
  resources?: ResourcesInput;
  /** How long a handler may go on after it was asked to stop; default 5 s. */
  stopGrace?: Duration;
  /** For commands: names such as PATH or LD_PRELOAD that jobs may set, or "*" for all. */
  allowEnv?: readonly string[];
  /** For commands: each in a pid namespace of its own, where it can be had (Linux, as root): then nothing that it started
   *  can outlive it. Without privileges they are found by a mark in their environment. */
  isolate?: boolean;
  /** For requests: loopback and private addresses that they may reach, as in ["127.0.0.1", "10.0.0.0/8"]. */
  allowAddresses?: readonly string[];
  /** Sees what commands write, as it comes. A promise holds the command up until it resolves. */
  onOutput?: (chunk: OutputChunk) => Promise<void> | undefined;
}

/** What a command wrote.
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
  /** Resolves when an operator has had it drained: it has finished what it held, and is stopped. Never otherwise. */
  readonly drained: Promise<void>;
  /** Claims no more, waits for what runs up to `grace` (default 30 s), hands back the rest. Nothing is charged. Repeated, it
   *  waits for the first stop, which `force` cuts short. */
  stop(options?: StopOptions): Promise<void>;
}

/** How a worker is stopped.
 *  @example
 *  const now: StopOptions = { grace: 0, force: true };
 *  await worker.stop(now); */
export interface StopOptions {
  /** How long jobs may go on; default 30 s. */
  grace?: Duration;
  /** Commands are killed at once, without the grace time they have themselves, and handlers are not waited for. */
  force?: boolean;
}
