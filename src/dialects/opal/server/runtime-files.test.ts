/** What OPAL keeps in files, as its document has it under "Data Plane" and "Verification (DoD)". */
import { describe, expect, it } from "vitest";
import type { JobEvent } from "../../../core/job/event.ts";
import { completed, exited, failed, lost, TestJobHistory } from "../../../core/job/testing-job.ts";
import { resolvePolicy } from "../../../core/policy/resolve-policy.ts";
import { opalAttempts } from "../attempts.ts";
import { isoTime, opalKey } from "../format.ts";
import { opalPolicy, opalSettings } from "../settings.ts";
import { workerLog } from "../worker-log.ts";
import { attemptFolder, attemptsFile, attemptsText, leaseFile, leaseText, workerLogFile } from "./runtime-files.ts";

const ID = "job_b853289fff4d";
const start = () => new TestJobHistory({ key: opalKey(ID), policy: resolvePolicy(opalPolicy(opalSettings({}))) });
const linesOf = ({ job, events }: TestJobHistory) =>
  workerLog(job, events.map((event, i) => ({ ...event, seq: i + 1 })) as JobEvent[]).map(({ line }) => line);

describe("runtime/", () => {
  it('has "job_leases/<job_id>.json", "job_attempts/<job_id>.json" and "<job_id>/attempt_N/"', () => {
    expect(leaseFile(ID).join("/")).toBe(`job_leases/${ID}.json`);
    expect(attemptsFile(ID).join("/")).toBe(`job_attempts/${ID}.json`);
    expect(attemptFolder(ID, 2).join("/")).toBe(`opal_artifacts/${ID}/attempt_2`);
  });

  it('has attempt stores with the keys of the "Attempt Store Schema" and no others', () => {
    const story = start().run(lost());
    const text = attemptsText(opalAttempts(story.job, [], story.events as JobEvent[]));
    expect(text).toBe(`${JSON.stringify(JSON.parse(text), null, 2)}\n`);
    expect(Object.keys(JSON.parse(text))).toEqual([
      ...["job_id", "attempts", "updated_at", "not_before", "backoff_secs_applied", "reclaim"],
    ]);
    expect(JSON.parse(text)).toMatchObject({
      attempts: 1,
      backoff_secs_applied: 8,
      reclaim: { reason: "lease_expired" },
    });
  });

  it("has leases with times as they are elsewhere", () => {
    const text = leaseText({ id: ID, worker: "host-7", attempt: 2, acquiredAt: 1_000, expiresAt: 16_000 });
    expect(JSON.parse(text)).toEqual({
      ...{ job_id: ID, worker_id: "host-7", attempt: 2, acquired_at: isoTime(1_000), expires_at: isoTime(16_000) },
    });
  });
});

describe("worker logs", () => {
  it('have lines of {"timestamp", "level", "worker", "event"}, made of the events alone', () => {
    const story = start().run(lost()).start().settle(completed());
    const lines = linesOf(story);
    for (const line of lines) expect(Object.keys(line)).toEqual(["timestamp", "level", "worker", "event"]);
    expect(lines.map(({ level, worker, event }) => `${level} ${worker} ${event}`)).toEqual([
      `INFO worker-s1 [Worker] Running job ${ID} (Attempt 1/2)`,
      `WARNING engine-1 [Lease] ♻️ Reclaiming job ${ID} (Attempt 1/2) -> QUEUED (backoff=8s)`,
      `INFO worker-s2 [Worker] Running job ${ID} (Attempt 2/2)`,
      `INFO worker-s2 [Worker] Finished job ${ID} (Attempt 2/2) -> SUCCEEDED`,
    ]);
  });

  it("report each way in which an attempt ends", () => {
    const endOf = (story: TestJobHistory) =>
      linesOf(story)
        .at(-1)
        ?.event.replace(/^.*\) -> /, "");
    expect(endOf(start().run(exited(7)))).toBe("FAILED (exit code 7)");
    expect(endOf(start().start().settle({ kind: "interrupted" }))).toBe("QUEUED");
    const oom = failed({ kind: "oom", message: "out of memory", exitCode: 137 });
    expect(endOf(start().run(oom))).toBe("QUEUED (backoff=8s): out of memory");
    expect(endOf(start().run(lost(), lost()))).toBe("FAILED (max_retries_exceeded_a2)");
    const cancelled = start().start();
    cancelled.command({ kind: "cancel" });
    expect(endOf(cancelled.settle(failed("killed")))).toBe("FAILED (cancelled)");
  });

  it("have names that no worker's own name leads elsewhere", () => {
    expect(workerLogFile("Ittipongs-Mac-mini.local-85805")).toBe("worker_Ittipongs-Mac-mini.local-85805");
    expect(workerLogFile(null)).toBe("worker_unknown");
    const odd = ["../../etc/passwd", "../../etc_passwd", "a b", "ü".repeat(300), "a\nb"].map(workerLogFile);
    for (const name of odd) expect(name).toMatch(/^worker_[A-Za-z0-9._-]{1,100}~[0-9a-f]{8}$/);
    expect(new Set(odd).size).toBe(odd.length);
  });
});
