/** `perdure run` without a server: opens the store, works on the job in this process until it ends or a signal comes. */
import { createHash, randomBytes } from "node:crypto";
import type { JobHandle } from "../../core/api.ts";
import { exec } from "../../core/input/builtin.ts";
import { runQueue } from "../../core/names.ts";
import type { Log } from "../../engine/parts.ts";
import { withFields } from "../../lib/log.ts";
import type { CommandContext } from "../command.ts";
import { LiveOutput } from "../output/live-output.ts";
import { exitWithin, LAST_MS, onStopSignals, type StopRequest, untilUnread } from "../stop-signals.ts";
import { withWorkingStore } from "../target/open-store.ts";
import type { StoreTarget } from "../target/store-target.ts";
import { ProgressReporter } from "./progress.ts";
import { noteWriter, type RunContext, reportEnd } from "./run-context.ts";
import { type RunRequest, submitOrResume } from "./submit-or-resume.ts";

// Submits the command, runs it in this process, and follows it to its end.

/** Nobody can go on with a job that has no key: what a killed process left behind is not kept waiting for ever. */
const ABANDONED_AFTER = "1h";

export async function runLocally(context: CommandContext, target: StoreTarget, wanted: RunRequest): Promise<number> {
  const live = new LiveOutput(context.io);
  const say = noteWriter(context, live);
  const logger: Log = (level, message, fields) => {
    if (level === "error") say(`perdure: ${withFields(message, fields)}`);
  };
  return withWorkingStore(context, target, logger, (perdure) => runJob({ perdure, context, live, say }, wanted));
}

async function runJob(here: RunContext, wanted: RunRequest): Promise<number> {
  const { say } = here;
  const { key } = wanted;
  // A queue of its own, so that no other `perdure run` on this data takes it; by its key, who comes later finds it again.
  const name = key === undefined ? randomBytes(8).toString("hex") : createHash("sha256").update(key).digest("hex");
  const queue = runQueue(name);
  const met = await submitOrResume(here, wanted, {
    queue,
    ...(key === undefined ? { expireIn: ABANDONED_AFTER } : {}),
  });
  if (met.exitCode !== null) return met.exitCode;
  const { job } = met;
  const asked = await workOnJob(here, job, queue, key !== undefined);
  if (asked?.kind === "leave") {
    say(`${job.id}: handed back, nothing is charged; run it again with the same --key to go on`);
    return reportEnd({ ...here, say: () => {} }, job, asked.exitCode);
  }
  return reportEnd(here, job, asked?.exitCode ?? null);
}

// Runs the job here until it has ended, or until somebody wants us to stop.

/** Null: it ended by itself. `leave`: it was handed back, for whoever goes on with it. `cancel`: it was cancelled. */
async function workOnJob(
  { perdure, context, live, say }: RunContext,
  job: JobHandle<unknown>,
  queue: string,
  hasKey: boolean,
): Promise<StopRequest | null> {
  const teller = new ProgressReporter(job, say, (await job.attempts()).length);
  let [force, release] = [() => {}, () => {}];
  const signals = onStopSignals((exitCode) => {
    force();
    release = exitWithin(exitCode, LAST_MS);
  });
  const { gone } = context.out;
  try {
    await using worker = await perdure.work([exec], {
      ...{ queues: [queue], concurrency: 1, allowEnv: ["*"] },
      onOutput: (chunk) => live.show(chunk, gone),
    });
    force = () => void worker.stop({ grace: 0, force: true }).catch(() => {});
    const over = job.result().then(
      () => null,
      () => null, // how it ended is read from its record
    );
    const asked = await Promise.race([over, signals.asked, untilUnread(context)]);
    if (asked === null) return null;
    if (asked.kind === "leave" && hasKey) {
      await worker.stop({ grace: 0 });
      return asked;
    }
    if (asked.exitCode === 130) say(`${job.id}: cancelling; press once more to leave at once`);
    await perdure.cancel(job.id).catch(() => {}); // it may have ended this very moment
    await over;
    return { kind: "cancel", exitCode: asked.exitCode };
  } finally {
    signals.stop();
    live.flush();
    await teller.end();
    release();
  }
}
