/** `perdure run`: submits the command or resumes its job, shows its output and one line per attempt, and reports its end.
 *  The same for a job here and on a server; `RunPlace` is the difference. */

import { createHash, randomBytes } from "node:crypto";
import type { JobHandle } from "../../core/api/jobs.ts";
import type { Perdure } from "../../core/api.ts";
import { PerdureError } from "../../core/errors.ts";
import { exec } from "../../core/input/builtin.ts";
import { runQueue } from "../../core/names.ts";
import type { SubmitOptions } from "../../core/task/task.ts";
import type { OutputChunk, WorkerHandle } from "../../core/task/work-options.ts";
import { withFields } from "../../lib/log.ts";
import type { CommandContext } from "../command.ts";
import { followOutput } from "../follow/follow-output.ts";
import { LiveOutput } from "../output/live-output.ts";
import { exitWithin, LAST_MS, onStopSignals, type StopRequest, untilUnread } from "../stop-signals.ts";
import type { StoreTarget } from "../target/store-target.ts";
import { type ServerTarget, type Target, withServer } from "../target/target.ts";
import { ProgressPrinter } from "./progress.ts";
import { noteWriter, type RunContext, reportEnd } from "./run-context.ts";
import { type RunRequest, submitOrResume } from "./submit-or-resume.ts";
import { reportIfWaiting } from "./why-waiting.ts";

export const DEFAULT_QUEUE = "default";
/** A job without a key cannot be resumed: it expires if its process was killed. */
const ABANDONED_AFTER = "1h";

type ShowOutput = (chunk: OutputChunk) => Promise<void> | undefined;

/** What differs between a job that this process runs and one that the workers of a server run. */
interface RunPlace {
  open(use: (perdure: Perdure) => Promise<number>): Promise<number>;
  readonly submit: Pick<SubmitOptions, "queue" | "expireIn">;
  /** Starts a worker in this process, which shows the output. Null: other workers run the job, and its output is read. */
  readonly work: ((perdure: Perdure, show: ShowOutput) => Promise<WorkerHandle>) | null;
  /** Printed when a new job is stored. */
  readonly submitted: string | null;
  /** Printed when this process ends before the job does. Null: the job is cancelled first. */
  readonly left: ((id: string) => string) | null;
}

export async function runJob(context: CommandContext, target: Target, wanted: RunRequest): Promise<number> {
  const live = new LiveOutput(context.io);
  const note = noteWriter(context, live);
  const place = target.kind === "store" ? here(context, target, wanted.key, note) : onServer(context, target);
  return place.open(async (perdure) => {
    const run: RunContext = { perdure, context, live, note };
    const { job, ended, exitCode } = await submitOrResume(run, wanted, place.submit);
    if (exitCode !== null) return exitCode;
    if (job.created && place.submitted !== null) note(`${job.id}: ${place.submitted}`);
    const stop = await follow(run, place, job, ended);
    if (stop?.kind !== "leave" || place.left === null) return reportEnd(run, job, stop?.exitCode ?? null);
    note(`${job.id}: ${place.left(job.id)}`);
    return context.given.flag("json") ? reportEnd({ ...run, note: () => {} }, job, stop.exitCode) : stop.exitCode;
  });
}

function here(
  context: CommandContext,
  target: StoreTarget,
  key: string | undefined,
  note: RunContext["note"],
): RunPlace {
  // Its own queue, so that no other `perdure run` on this data takes the job. With a key the queue is the same each time.
  const queue = runQueue(
    key === undefined ? randomBytes(8).toString("hex") : createHash("sha256").update(key).digest("hex"),
  );
  return {
    async open(use) {
      const { withWorkingStore } = await import("../target/open-store.ts");
      const log = (level: string, message: string, fields?: Parameters<typeof withFields>[1]) => {
        if (level === "error") note(`perdure: ${withFields(message, fields)}`);
      };
      return withWorkingStore(context, target, log, use);
    },
    submit: { queue, ...(key === undefined ? { expireIn: ABANDONED_AFTER } : {}) },
    work: (perdure, show) => perdure.work([exec], { queues: [queue], concurrency: 1, allowEnv: ["*"], onOutput: show }),
    submitted: null,
    left:
      key === undefined
        ? null
        : () => "interrupted (not counted as an attempt); run again with the same --key to resume",
  };
}

function onServer({ given }: CommandContext, target: ServerTarget): RunPlace {
  const queue = given.text("queue") ?? DEFAULT_QUEUE;
  return {
    open: (use) => withServer(target, use),
    submit: { queue },
    work: null,
    submitted: `submitted to ${new URL(target.url).origin}, queue ${queue}`,
    left: (id) => `still running on the server; follow it with \`perdure logs -f ${id}\``,
  };
}

/** Returns null when the job has ended, or the signal on which this process must stop: the job was then cancelled or left
 *  running. `ended`: attempts that had ended before. */
async function follow(
  run: RunContext,
  place: RunPlace,
  job: JobHandle<unknown>,
  ended: number,
): Promise<StopRequest | null> {
  const { perdure, context, live, note } = run;
  const over = new AbortController();
  const progress = new ProgressPrinter(job, note, ended);
  const show: ShowOutput = (chunk) => live.show(chunk, context.out.gone);
  let [force, release] = [(exitCode: number): void => process.exit(exitCode), () => {}];
  const signals = onStopSignals((exitCode) => force(exitCode));
  let followed: Promise<null> = Promise.resolve(null);
  try {
    await using worker = (await place.work?.(perdure, show)) ?? null;
    if (worker !== null) {
      force = (exitCode) => {
        void worker.stop({ grace: 0, force: true }).catch(() => {});
        release = exitWithin(exitCode, LAST_MS);
      };
    }
    followed = followOutput({
      ...{ perdure, job, signal: over.signal, from: ended + 1, show: worker === null ? show : null },
      onEnd() {
        live.flush();
        return progress.report();
      },
    }).then(() => null);
    void reportIfWaiting(run, job, over.signal);
    const stop = await Promise.race([followed, signals.requested, untilUnread(context)]);
    if (stop === null) return null;
    if (stop.kind === "leave" && place.left !== null) {
      await worker?.stop({ grace: 0 });
      return stop;
    }
    if (stop.exitCode === 130) note(`${job.id}: cancelling; press Ctrl-C again to exit now`);
    await perdure.cancel(job.id).catch(unlessEnded);
    await followed;
    return { kind: "cancel", exitCode: stop.exitCode };
  } finally {
    over.abort();
    followed.catch(() => {});
    signals.stop();
    live.flush();
    release();
  }
}

/** Ignores the error of a job that has ended meanwhile. */
function unlessEnded(error: unknown): void {
  if (!(error instanceof PerdureError) || error.code !== "wrong_state") throw error;
}
