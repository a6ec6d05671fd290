/** Submits the command, runs it in this process, and follows it to its end. */

import { createHash, randomBytes } from "node:crypto";
import { runQueue } from "../../core/run-queue.ts";
import type { Log } from "../../engine/engine.ts";
import { withFields } from "../../lib/field-log.ts";
import type { Context } from "../command.ts";
import { withWorkingStore } from "../direct.ts";
import type { StoreTarget } from "../store-target.ts";
import { follow } from "./follow.ts";
import { type Here, sayer } from "./here.ts";
import { LiveOutput } from "./live-output.ts";
import { submitOrMeet, type Wanted } from "./meet.ts";
import { report } from "./report.ts";

/** Nobody can go on with a job that has no key: what a killed process left behind is not kept waiting for ever. */
const ABANDONED_AFTER = "1h";

export async function runHere(context: Context, target: StoreTarget, wanted: Wanted): Promise<number> {
  const live = new LiveOutput(context.io);
  const say = sayer(context, live);
  const logger: Log = (level, message, fields) => {
    if (level === "error") say(`perdure: ${withFields(message, fields)}`);
  };
  return withWorkingStore(context, target, logger, (perdure) => runJob({ perdure, context, live, say }, wanted));
}

async function runJob(here: Here, wanted: Wanted): Promise<number> {
  const { say } = here;
  const { key } = wanted;
  // A queue of its own, so that no other `perdure run` on this data takes it; by its key, who comes later finds it again.
  const name = key === undefined ? randomBytes(8).toString("hex") : createHash("sha256").update(key).digest("hex");
  const queue = runQueue(name);
  const met = await submitOrMeet(here, wanted, { queue, ...(key === undefined ? { expireIn: ABANDONED_AFTER } : {}) });
  if (met.exitCode !== null) return met.exitCode;
  const { job } = met;
  const asked = await follow(here, job, queue, key !== undefined);
  if (asked?.kind === "leave") {
    say(`${job.id}: handed back, nothing is charged; run it again with the same --key to go on`);
    return report({ ...here, say: () => {} }, job, asked.exitCode);
  }
  return report(here, job, asked?.exitCode ?? null);
}
