/** A cancel of a running job reaches it through its session. Where the row of that session is missing, nobody gets it, and no
 *  lease will end: the attempt is settled as lost at once, as the reaper does, so that the cancel takes effect also where no
 *  engine is at work. A row that is missing never comes back, so that it may be read before the job is locked; that the job
 *  still runs this attempt is checked under its lock. */
import { exec } from "../core/builtin.ts";
import { isTerminal, type Job } from "../core/job.ts";
import { fewAtOnce } from "../lib/few-at-once.ts";
import type { EngineParts } from "./engine.ts";
import { lostReport } from "./lost-verdict.ts";
import { settle } from "./settle.ts";

const READ_AT_ONCE = 8;

/** Of jobs whose cancel is stored: those that had no session, and have ended. */
export async function endOrphans(parts: EngineParts, cancelled: readonly Job[]): Promise<ReadonlySet<string>> {
  const running = cancelled.filter(({ state }) => state === "running");
  if (running.length === 0) return new Set();
  const sessions = new Set(running.flatMap(({ worker }) => (worker === null ? [] : [worker])));
  const reached = new Set((await parts.store.cancelsFor([...sessions])).map(({ jobId }) => jobId));
  const orphans = running.filter(({ id }) => !reached.has(id));
  if (orphans.length === 0) return new Set();
  const inTurn = fewAtOnce(READ_AT_ONCE);
  const now = parts.clock.now();
  const reports = await Promise.all(
    orphans.map(({ id, attempt, kind }) =>
      inTurn(() => lostReport(parts, { jobId: id, attempt }, { isCommand: kind === exec.kind, now })),
    ),
  );
  const answers = await settle(parts, reports, { at: now, tidied: true });
  const ended = orphans.filter((_, i) => {
    const answer = answers[i];
    return answer?.status === "accepted" && isTerminal(answer.state);
  });
  return new Set(ended.map(({ id }) => id));
}
