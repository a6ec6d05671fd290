import { describe, expect, it } from "vitest";
import { all, openBench, openSession } from "../../test/kit.ts";
import { task } from "../core/task/task.ts";
import type { Commit, EngineObserver, SettledAttempt } from "./observer.ts";

function tally() {
  const seen = { submitted: 0, claimed: 0, reaped: 0 };
  const settled: SettledAttempt[] = [];
  const commits: Commit[] = [];
  const observer: EngineObserver = {
    submitted: (jobs) => {
      seen.submitted += jobs.length;
    },
    claimed: (_, jobs) => {
      seen.claimed += jobs.length;
    },
    settled: (attempts) => void settled.push(...attempts),
    reaped: (attempts) => {
      seen.reaped += attempts.length;
    },
    committed: (commit) => void commits.push(commit),
  };
  return { observer, seen, settled, commits };
}

describe("an observer", () => {
  it("gets what the event log records, once each", async () => {
    const { observer, seen, settled, commits } = tally();
    const bench = await openBench({ observer });
    const lost = await bench.submit("lost");
    await bench.engine.claim(await openSession(bench, ["lost"]), { limit: 1 });
    await bench.advance(20_000);
    const fails = task("fails", () => Promise.reject(new Error("no")));
    await bench.work([fails, task("lost", () => {})]);
    await bench.submit("fails", { key: "one" });
    await bench.submit("fails", { key: "one" }); // the same job
    await bench.advance(60_000);

    const names = (await all(bench.engine.events({}))).map(({ name }) => name);
    const count = (name: string) => names.filter((one) => one === name).length;
    expect(seen).toEqual({ submitted: 2, claimed: 3, reaped: 1 });
    expect(seen.submitted).toBe(count("job.submitted"));
    expect(seen.claimed).toBe(count("attempt.started"));
    expect(settled.map(({ outcome, state }) => `${outcome} ${state}`).sort()).toEqual([
      "completed succeeded",
      "failed failed",
      "lost queued",
    ]);
    expect(settled.filter(({ jobId }) => jobId === lost)).toHaveLength(2);
    expect(new Set(commits.map(({ verb }) => verb))).toEqual(new Set(["submit", "claim", "settle", "renew"]));
    for (const { ms } of commits) expect(ms).toBeGreaterThanOrEqual(0);
  });

  it("that throws is logged, and changes nothing", async () => {
    const fail = () => {
      throw new Error("out of order");
    };
    const bench = await openBench({
      observer: { submitted: fail, claimed: fail, settled: fail, committed: fail },
    });
    await bench.work([task("k", () => {})]);
    const id = await bench.submit("k");
    await bench.advance(1_000);
    expect((await bench.job(id)).state).toBe("succeeded");
    expect(bench.logged).toContain("error: engine observer failed: Error: out of order");
  });
});
