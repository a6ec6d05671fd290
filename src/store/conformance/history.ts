/** Random actions of clients, workers, reapers and operators in any order, with a clock that jumps: the audit after the
 *  test checks that each row equals the fold of its events, and that each attempt has one winner. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { IS_FULL } from "../../../test/tier.ts";
import type { ClaimedJob, Report } from "../../core/worker-protocol.ts";
import type { Bench } from "./bench.ts";
import {
  broke,
  done,
  INTERRUPTED,
  LEASE,
  overdue,
  placeOf,
  RELEASED,
  reaped,
  released,
  reportOf,
  SECOND,
  T0,
  usageOf,
} from "./kit.ts";

const VERBS = [
  ...["submit", "claim", "claim", "report", "report", "report again", "late", "reap", "renew", "release"],
  ...["cancel", "retry", "redrive", "reschedule", "discard", "pause", "resume", "sweep", "beat", "jump", "expire"],
] as const;

interface Step {
  readonly verb: (typeof VERBS)[number];
  readonly which: number;
  readonly ms: number;
}

const step: fc.Arbitrary<Step> = fc.record({
  verb: fc.constantFrom(...VERBS),
  which: fc.nat(1_000),
  ms: fc.nat(4_000),
});

const OUTCOMES = [done('{"a":1}'), done(null), broke("again"), broke("no"), INTERRUPTED, RELEASED, broke()];

export function historyTests(bench: Bench): void {
  test("a row equals the fold of its events, whatever happened", async () => {
    const steps = fc.array(step, { minLength: 20, maxLength: 120 });
    await fc.assert(fc.asyncProperty(steps, play), { numRuns: IS_FULL ? 30 : 5 });
  });

  async function play(steps: readonly Step[]): Promise<void> {
    const ids: string[] = [];
    const sessions = [await bench.open(), await bench.open({ labels: { gpu: "1" } })];
    const claims: { job: ClaimedJob; session: string }[] = [];
    const sent: Report[] = [];
    const winners = new Map<string, number>();
    let now = T0;

    async function send(...reports: Report[]): Promise<void> {
      sent.push(...reports);
      const answers = await bench.settle(reports, now);
      answers.forEach((answer, i) => {
        const { jobId, attempt, from } = reports[i] as Report;
        if (answer.status !== "accepted" || answer.repeated || from.kind === "expiry") return;
        const name = `${jobId} ${attempt}`;
        winners.set(name, (winners.get(name) ?? 0) + 1);
        expect(winners.get(name)).toBe(1);
      });
    }

    for (const { verb, which, ms } of steps) {
      now += verb === "jump" ? (ms - 2_000) * 20 : ms;
      const pick = <T>(list: readonly T[]): T | undefined => list[which % Math.max(1, list.length)];
      const id = pick(ids);
      const held = pick(claims);
      switch (verb) {
        case "submit":
          ids.push(await bench.submit(someJob(which, now)));
          break;
        case "claim": {
          const session = pick(sessions) as string;
          const { alive, jobs } = await bench.claimAnswer(session, 1 + (which % 3), now);
          claims.push(...jobs.map((job) => ({ job, session })));
          if (!alive) sessions[sessions.indexOf(session)] = await bench.open({}, now);
          break;
        }
        case "report":
          if (held === undefined) break;
          await send(reportOf(held.job, pick(OUTCOMES), { usage: which % 4 === 0 ? usageOf(which) : null }));
          break;
        case "report again":
          if (sent.length > 0) await send(pick(sent) as Report);
          break;
        case "late":
          if (held !== undefined)
            await send(reportOf(held.job, broke()), reaped(placeOf(held.job)), reportOf(held.job));
          break;
        case "reap":
          if (held !== undefined) await send(reaped(placeOf(held.job)));
          break;
        case "release":
          if (held !== undefined) await send(released(placeOf(held.job), held.session));
          break;
        case "expire":
          if (id !== undefined) await send(overdue({ jobId: id, attempt: (await bench.row(id)).attempt }));
          break;
        case "renew": {
          const own = claims.filter(({ session }) => session === pick(sessions));
          const renewals = own.map(({ job }) => ({ ...placeOf(job), usage: usageOf(ms), progress: `${ms}`, log: "." }));
          await bench.renew(pick(sessions) as string, renewals, now);
          break;
        }
        case "cancel":
        case "retry":
        case "redrive":
        case "discard":
          if (id !== undefined) await bench.amend(id, { kind: verb }, now);
          break;
        case "reschedule":
          if (id !== undefined) await bench.amend(id, { kind: verb, runAt: now + which * 10 }, now);
          break;
        case "pause":
        case "resume":
          await bench.store.queues.setPaused("default", "default", verb === "pause", now);
          break;
        case "sweep": {
          const found = await bench.store.expired({ now, limit: 3 });
          await send(...found.map((job) => (job.why === "lost" ? reaped(job) : overdue(job, job.why))));
          break;
        }
        case "jump":
        case "beat":
          await bench.beat(now, verb === "jump" ? (ms - 2_000) * 20 : 0);
          break;
      }
    }
    await bench.store.queues.setPaused("default", "default", false, now);
  }

  function someJob(which: number, now: number) {
    // biome-ignore lint/suspicious/noThenProperty: the policy language says "then"; a rule is never awaited.
    const rule = { if: { message: "again" }, then: "defer" as const, maxRetries: 2 };
    return {
      at: now,
      runAt: now + (which % 5 === 0 ? 2 * SECOND : 0),
      ...(which % 3 === 0 ? { expireInMs: 5 * SECOND } : {}),
      ...(which % 7 === 0 ? { deadlineAt: now + LEASE } : {}),
      ...(which % 4 === 0 ? { labels: { gpu: "1" } } : {}),
      retry: { maxAttempts: 1 + (which % 4), rules: which % 2 === 0 ? [rule] : [], noRetryOn: ["no"] },
    };
  }
}
