/** Runs the job here until it has ended, or until somebody wants us to stop. */
import { exec } from "../../core/builtin.ts";
import type { JobHandle } from "../../core/face.ts";
import { exitWithin, LAST_MS } from "../serve/until-stopped.ts";
import type { Here } from "./here.ts";
import { RunTeller } from "./run-teller.ts";
import { type Asked, untilAsked, untilUnread } from "./signals.ts";

/** Null: it ended by itself. `leave`: it was handed back, for whoever goes on with it. `cancel`: it was cancelled. */
export async function follow(
  { perdure, context, live, say }: Here,
  job: JobHandle<unknown>,
  queue: string,
  hasKey: boolean,
): Promise<Asked | null> {
  const teller = new RunTeller(job, say, (await job.attempts()).length);
  let [force, release] = [() => {}, () => {}];
  const signals = untilAsked((exitCode) => {
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
