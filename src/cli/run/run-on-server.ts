/** Submits the command to a server, whose workers run it, and follows it to its end. The job is the server's: it lives on
 *  when this terminal goes away, and only Ctrl-C cancels it. */

import type { JobHandle } from "../../core/api.ts";
import { PerdureError } from "../../core/errors.ts";
import type { CommandContext } from "../command.ts";
import { followOutput } from "../follow/follow-output.ts";
import { LiveOutput } from "../output/live-output.ts";
import { onStopSignals, type StopRequest, untilUnread } from "../stop-signals.ts";
import { type Target, withServer } from "../target/target.ts";
import { ReportedAttempts } from "./progress.ts";
import { noteWriter, type RunContext, reportEnd } from "./run-context.ts";
import { type RunRequest, submitOrResume } from "./submit-or-resume.ts";
import { reportIfWaiting } from "./why-waiting.ts";

export const DEFAULT_QUEUE = "default";

export async function runOnServer(
  context: CommandContext,
  target: Extract<Target, { kind: "server" }>,
  wanted: RunRequest,
): Promise<number> {
  const live = new LiveOutput(context.io);
  const say = noteWriter(context, live);
  const queue = context.given.text("queue") ?? DEFAULT_QUEUE;
  return withServer(target, async (perdure) => {
    const there: RunContext = { perdure, context, live, say };
    const { job, exitCode } = await submitOrResume(there, wanted, { queue });
    if (exitCode !== null) return exitCode;
    if (job.created) say(`${job.id}: submitted to ${new URL(target.url).origin}, queue ${queue}`);
    const asked = await follow(there, job);
    if (asked?.kind !== "leave") return reportEnd(there, job, asked?.exitCode ?? null);
    say(`${job.id}: it goes on without us; follow it with \`perdure logs -f ${job.id}\``);
    return context.given.flag("json") ? reportEnd({ ...there, say: () => {} }, job, asked.exitCode) : asked.exitCode;
  });
}

/** Null: it ended by itself. `leave`: it goes on there. `cancel`: it was cancelled. */
async function follow(there: RunContext, job: JobHandle<unknown>): Promise<StopRequest | null> {
  const { perdure, context, live, say } = there;
  const over = new AbortController();
  // Of a job that is new nothing has been shown, however soon it ended.
  const { state, attempt } = job.created ? { state: "queued", attempt: 0 } : await job.get();
  const told = new ReportedAttempts(job, say, job.created ? 0 : (await job.attempts()).length);
  const signals = onStopSignals();
  const followed = followOutput({
    ...{ perdure, job, signal: over.signal },
    from: state === "running" ? attempt : attempt + 1,
    show: (chunk) => live.show(chunk, context.out.gone),
    onEnd: () => {
      live.flush();
      return told.tell();
    },
  }).then(() => null);
  void reportIfWaiting(there, job, over.signal);
  try {
    const asked = await Promise.race([followed, signals.asked, untilUnread(context)]);
    if (asked === null || asked.kind === "leave") return asked;
    say(`${job.id}: cancelling; press once more to leave at once`);
    await perdure.cancel(job.id).catch(unlessEnded);
    await followed;
    return asked;
  } finally {
    over.abort();
    followed.catch(() => {});
    signals.stop();
    live.flush();
  }
}

/** It may have ended this very moment. */
function unlessEnded(error: unknown): void {
  if (!(error instanceof PerdureError) || error.code !== "wrong_state") throw error;
}
