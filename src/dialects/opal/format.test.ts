/** The document of OPAL A2.1, "Retry Policy & Idempotency Guard", section by section. What stands in quotes is its own. */
import { describe, expect, it } from "vitest";
import { decide } from "../../core/decision/decide.ts";
import type { Outcome } from "../../core/decision/outcome.ts";
import { ConfigError } from "../../core/errors.ts";
import type { Job } from "../../core/job/job.ts";
import { completed, exited, failed, lost, TestJobHistory, testJob, timedOut } from "../../core/job/testing-job.ts";
import { presets } from "../../core/policy/presets.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import { opalAttempts, opalResult } from "./attempts.ts";
import {
  isoTime,
  type OpalSession,
  type OpalStatus,
  opalId,
  opalIdOf,
  opalKey,
  opalStatus,
  opalWorker,
  reclaimLine,
} from "./format.ts";
import { type OpalEndedAttempt, opalJob, type ShownJob } from "./job.ts";
import { opalPolicy, opalSettings } from "./settings.ts";
import { logTime, reclaimRecord } from "./worker-log.ts";

const policyOf = (env: Record<string, string> = {}) => resolvePolicy(opalPolicy(opalSettings(env)));
const afterLosing = (attempt: number, env?: Record<string, string>) => {
  const job = testJob({ attempt, losses: attempt - 1, policy: policyOf(env) });
  return decide(job, lost()(job), 0, 0.9);
};
const retriedAfter = (attempt: number, env?: Record<string, string>) => {
  const decision = afterLosing(attempt, env);
  return decision.kind === "retry" ? decision.delay.delayMs / 1_000 : decision.kind;
};

describe("Policy Defaults (Production-Grade)", () => {
  it("are those of the table", () => {
    expect(opalSettings({})).toEqual({
      ...{ maxRetries: 2, backoffs: [3, 8, 15], leaseTtlSecs: 15, leaseRenewSecs: 5 },
      ...{ reclaimScanEveryLoops: 10, heartbeatIntervalSecs: 2, workerTtlSecs: 10 },
    });
    expect(opalSettings({ OPAL_MAX_RETRIES: "", OPAL_RETRY_BACKOFFS: " ", OPAL_OTHER: "x" })).toEqual(opalSettings({}));
    expect(policyOf()).toEqual(presets.opal);
  });

  it("can be set, each by its variable", () => {
    const env = {
      ...{ OPAL_MAX_RETRIES: "4", OPAL_RETRY_BACKOFFS: "[1, 2.5]", OPAL_LEASE_TTL_SECS: "30" },
      ...{ OPAL_LEASE_RENEW_SECS: "10", OPAL_RECLAIM_SCAN_EVERY_LOOPS: "5", OPAL_HEARTBEAT_INTERVAL_SECS: "0.5" },
      OPAL_WORKER_TTL_SECS: " 3 ",
    };
    expect(opalSettings(env)).toEqual({
      ...{ maxRetries: 4, backoffs: [1, 2.5], leaseTtlSecs: 30, leaseRenewSecs: 10 },
      ...{ reclaimScanEveryLoops: 5, heartbeatIntervalSecs: 0.5, workerTtlSecs: 3 },
    });
    for (const text of ["[3, 8, 15]", "3,8,15", " 3, 8 ,15 "]) {
      expect(opalSettings({ OPAL_RETRY_BACKOFFS: text }).backoffs).toEqual([3, 8, 15]);
    }
  });

  it.each([
    ["OPAL_MAX_RETRIES", "-1"],
    ["OPAL_MAX_RETRIES", "2.5"],
    ["OPAL_MAX_RETRIES", "two"],
    ["OPAL_MAX_RETRIES", "0x10"],
    ["OPAL_MAX_RETRIES", "1000001"],
    ["OPAL_RETRY_BACKOFFS", "[]"],
    ["OPAL_RETRY_BACKOFFS", "[3, 8"],
    ["OPAL_RETRY_BACKOFFS", '["3"]'],
    ["OPAL_RETRY_BACKOFFS", "3,,15"],
    ["OPAL_RETRY_BACKOFFS", "3;8"],
    ["OPAL_RETRY_BACKOFFS", "-3"],
    ["OPAL_LEASE_TTL_SECS", "0"],
    ["OPAL_LEASE_TTL_SECS", "15s"],
    ["OPAL_LEASE_RENEW_SECS", "15"], // of a lease of 15
    ["OPAL_RECLAIM_SCAN_EVERY_LOOPS", "0"],
    ["OPAL_HEARTBEAT_INTERVAL_SECS", "10"], // of a registry of 10
    ["OPAL_WORKER_TTL_SECS", "1e9"],
  ])("%s=%s is refused by its name", (name, text) => {
    expect(() => opalSettings({ [name]: text })).toThrow(ConfigError);
    expect(() => opalSettings({ [name]: text })).toThrow(new RegExp(`^${name}`));
  });

  it("a lease below the default of its renewal is refused with both numbers", () => {
    expect(() => opalSettings({ OPAL_LEASE_TTL_SECS: "3" })).toThrow(
      "OPAL_LEASE_RENEW_SECS: it is 5, and OPAL_LEASE_TTL_SECS is 3; must be less than OPAL_LEASE_TTL_SECS; set both.",
    );
  });

  it('"total attempts = MAX_RETRIES"; 0 is one attempt as well', () => {
    expect([2, 3, 1, 0].map((n) => policyOf({ OPAL_MAX_RETRIES: `${n}` }).maxAttempts)).toEqual([2, 3, 1, 1]);
    for (const n of [0, 1, 2, 3, 7]) {
      const story = new TestJobHistory({ policy: policyOf({ OPAL_MAX_RETRIES: `${n}` }) });
      while (story.job.state === "queued") story.run(lost());
      expect([story.job.state, story.job.attempt]).toEqual(["failed", Math.max(1, n)]);
    }
  });
});

describe("Backoff Schedule Semantics", () => {
  it('"Attempt 1 fails → backoff = BACKOFF[min(1, len(BACKOFF)-1)] = 8s"', () => {
    expect(retriedAfter(1)).toBe(8);
    expect(retriedAfter(1, { OPAL_MAX_RETRIES: "3" })).toBe(8);
  });

  it('"Attempt 2 fails → backoff = BACKOFF[min(2, len(BACKOFF)-1)] = 15s", where a third run is allowed', () => {
    expect(retriedAfter(2, { OPAL_MAX_RETRIES: "3" })).toBe(15);
    expect(afterLosing(2)).toMatchObject({ kind: "fail", reason: "lost" });
    expect(afterLosing(3, { OPAL_MAX_RETRIES: "3" })).toMatchObject({ kind: "fail", reason: "lost" });
  });

  it('"Backoff index: min(attempt_index, len(BACKOFF_SCHEDULE) - 1)"', () => {
    const schedules: Record<string, number[]> = {
      "[3, 8, 15]": [8, 15, 15, 15],
      "7": [7, 7, 7],
      "0,0.25": [0.25, 0.25],
    };
    for (const [text, delays] of Object.entries(schedules)) {
      const env = { OPAL_MAX_RETRIES: "9", OPAL_RETRY_BACKOFFS: text };
      expect(delays.map((_, i) => retriedAfter(i + 1, env))).toEqual(delays);
    }
  });

  it('"Jobs in backoff remain status=queued (no new status introduced)"', () => {
    const { job } = new TestJobHistory({ policy: policyOf() }).run(lost());
    expect([job.state, opalStatus(job.state)]).toEqual(["queued", "queued"]);
  });
});

describe("Retry Reason Filtering, which it recommends", () => {
  const decided = (outcome: Outcome) => decide(testJob({ policy: policyOf() }), outcome, 0, 0.5);

  it("fails at once on what the engine reports", () => {
    for (const outcome of [exited(1), failed("invalid_input"), timedOut()]) expect(decided(outcome).kind).toBe("fail");
  });

  it('"`invalid_input` → no retry, `worker_oom` → retry", as a command reports them', () => {
    const reported = (message: string) => failed({ kind: "result", class: "logical", message, exitCode: 1 });
    const onStderr = (line: string) => failed({ kind: "exit", exitCode: 1, message: `exit code 1: ${line}` });
    for (const made of [reported, onStderr]) {
      for (const oom of [
        "worker_oom",
        "CUDA: worker_oom(3 GB)",
        "preinvalid_inputs: WORKER_OOM",
        "coworker_oomph worker_oom.",
      ]) {
        expect(decided(made(oom))).toMatchObject({ kind: "retry", match: { by: "preset", preset: "opal" } });
      }
      for (const other of [
        "invalid_input",
        "invalid_input: worker_oom is no prompt",
        "model_missing",
        "coworker_oomph",
        "no_worker_oom",
      ]) {
        expect(decided(made(other))).toMatchObject({ kind: "fail", reason: "rejected" });
      }
    }
  });

  it('"worker_oom → retry", by the same schedule and budget', () => {
    const oom = failed({ kind: "oom", message: "out of memory" });
    expect(decided(oom)).toMatchObject({ kind: "retry", delay: { delayMs: 8_000 } });
    expect(new TestJobHistory({ policy: policyOf() }).run(oom, lost()).job).toMatchObject({
      state: "failed",
      attempt: 2,
    });
  });
});

// Jobs as a client reads them.

const ID = "job_92e725aa5034";
const ENGINE = ["/opt/opal/engine", "--fast"];
const worker = (session: string) => `worker-${session}`;
const start = (parts = {}) => new TestJobHistory({ key: opalKey(ID), tags: ["opal"], policy: policyOf(), ...parts });

/** The attempts of a story, as a store would list them. */
function endedOf({ events }: TestJobHistory): OpalEndedAttempt[] {
  const ended: OpalEndedAttempt[] = [];
  let chapter = 1;
  let startedAt = 0;
  const OUTCOMES: Record<string, string> = {
    ...{ "attempt.succeeded": "completed", "attempt.failed": "failed", "attempt.timed_out": "timeout" },
    ...{ "attempt.lost": "lost", "attempt.interrupted": "interrupted" },
  };
  for (const { name, data, at } of events) {
    if (name === "attempt.started") startedAt = at;
    else if (name === "job.redriven") chapter += 1;
    else if (OUTCOMES[name] !== undefined && "decision" in data) {
      const outcome = "why" in data && data.why === "released" ? "released" : (OUTCOMES[name] as string);
      const failure = data.failure === undefined ? null : { ...data.failure, stack: null };
      ended.push({ attempt: data.attempt, chapter, startedAt, endedAt: at, outcome, failure });
    }
  }
  return ended;
}

const read = (story: TestJobHistory, more: Partial<ShownJob> = {}) =>
  opalJob({ ...story.job, payload: { argv: ENGINE }, ...more }, endedOf(story), worker, story.events);
const document = (story: TestJobHistory) => opalAttempts(story.job, endedOf(story), story.events);
const at = (seconds: number) => isoTime(Date.UTC(2026, 0, 1, 0, 0, seconds));

describe("Test #1: Retry Success", () => {
  const file = { name: "final report/a&b.txt", size: 3, mime: "text/plain", sha256: "ab".repeat(32) };

  it("shows queued, running, queued with backoff=8s, running (attempt=2), succeeded", () => {
    const story = start();
    expect(read(story)).toEqual({
      ...{ completed_at: null, created_at: at(0), error: null, id: ID, outputs: [], run_provenance: null },
      ...{ started_at: null, status: "queued", updated_at: at(0), worker_id: null },
    });
    expect(document(story)).toEqual({
      ...{ job_id: ID, attempts: 0, updated_at: at(0), not_before: null, backoff_secs_applied: null, reclaim: null },
      history: [],
    });

    story.start();
    const provenance = { engine: "/opt/opal/engine", attempt: 1, exit_code: null, worker_id: "worker-s1" };
    expect(read(story)).toMatchObject({
      ...{ status: "running", error: null, started_at: at(0), worker_id: "worker-s1", run_provenance: provenance },
    });

    story.settle(lost(), { afterMs: 15_000 });
    expect(read(story)).toMatchObject({
      ...{ status: "queued", error: "lease_expired_retry_1", updated_at: at(15), worker_id: null, completed_at: null },
      ...{ started_at: at(0), run_provenance: provenance, outputs: [] },
    });
    const reclaim = { reclaimed_by: "engine-1", reclaimed_at: at(15), reason: "lease_expired" };
    const first = {
      ...{ attempt: 1, started_at: at(0), ended_at: at(15), outcome: "lease_expired", error: "lease_expired_retry_1" },
      ...{ worker_id: "worker-s1", backoff_secs: 8 },
    };
    const waiting = { not_before: at(23), backoff_secs_applied: 8, reclaim };
    expect(document(story)).toEqual({ job_id: ID, attempts: 1, updated_at: at(15), ...waiting, history: [first] });

    story.start();
    expect(read(story)).toMatchObject({ status: "running", error: null, started_at: at(23), worker_id: "worker-s2" });
    const second = {
      ...{ attempt: 2, started_at: at(23), ended_at: null, outcome: null, error: null, worker_id: "worker-s2" },
      backoff_secs: null,
    };
    expect(document(story)).toEqual({
      job_id: ID,
      attempts: 2,
      updated_at: at(23),
      ...waiting,
      history: [first, second],
    });

    story.settle(completed(), { afterMs: 20_000 });
    const shown = read(story, { result: { exitCode: 0, output: null, outputs: [file] } });
    expect(shown).toEqual({
      ...{ completed_at: at(43), created_at: at(0), error: null, id: ID, started_at: at(23), status: "succeeded" },
      ...{ updated_at: at(43), worker_id: "worker-s2" },
      run_provenance: { engine: "/opt/opal/engine", attempt: 2, exit_code: 0, worker_id: "worker-s2" },
      outputs: [{ ...file, href: `/api/artifacts/${ID}/attempt_2/final%20report/a%26b.txt` }],
    });
    expect(document(story)).toEqual({
      ...{ job_id: ID, attempts: 2, updated_at: at(43), not_before: null, backoff_secs_applied: null, reclaim },
      history: [first, { ...second, ended_at: at(43), outcome: "succeeded" }],
    });
  });

  it('"[Lease] ♻️ Reclaiming job job_92e725aa5034 (Attempt 1/2) -> QUEUED (backoff=8s)"', () => {
    expect(reclaimLine({ id: ID, attempt: 1, maxRetries: 2, backoffSecs: 8 })).toBe(
      "[Lease] ♻️ Reclaiming job job_92e725aa5034 (Attempt 1/2) -> QUEUED (backoff=8s)",
    );
    const last = { id: ID, attempt: 2, maxRetries: 2, backoffSecs: null };
    expect(reclaimLine(last)).toMatch(
      /^\[Lease\] ♻️ Reclaiming job job_92e725aa5034 \(Attempt 2\/2\) -> FAILED \(max_retries_exceeded_a2\)$/,
    );
    expect(reclaimLine({ ...last, error: "cancelled" })).toMatch(/ -> FAILED \(cancelled\)$/);
  });
});

describe("Output Isolation", () => {
  it('"attempt_1/ … result.json", "attempt_2/ … result.json": each attempt has one, whoever wrote it', () => {
    const result = (story: TestJobHistory, attempt: number) => {
      const code = JSON.stringify({ exitCode: 0, outputs: [] });
      const rows = endedOf(story).map((row) => ({ ...row, result: row.outcome === "completed" ? code : null }));
      return opalResult(story.job, rows, story.events, attempt);
    };
    const story = start();
    expect(result(story, 1)).toBeNull();
    story.start();
    const first = { job_id: ID, attempt: 1, started_at: at(0), worker_id: "worker-s1" };
    expect(result(story, 1)).toEqual({
      ...{ ...first, status: "running", outcome: null, error: null, exit_code: null, completed_at: null },
    });
    story.settle(lost(), { afterMs: 15_000 });
    const killed = { ...first, status: "failed", outcome: "lease_expired", error: "lease_expired_retry_1" };
    expect(result(story, 1)).toEqual({ ...killed, exit_code: null, completed_at: at(15) });
    story.start().settle({ kind: "interrupted" });
    expect(result(story, 2)).toMatchObject({ status: "failed", outcome: "interrupted", error: "interrupted" });
    story.start().settle(completed(), { afterMs: 20_000 });
    expect(result(story, 3)).toMatchObject({ status: "succeeded", error: null, exit_code: 0, completed_at: at(43) });
    expect(result(story, 1)).toMatchObject(killed);
    expect(result(story, 4)).toBeNull();

    const bad = start().run(exited(7));
    expect(result(bad, 1)).toMatchObject({ status: "failed", outcome: "failed", exit_code: 7 });
    expect(result(bad, 1)?.error).toBe(read(bad).error);
  });
});

describe("Test #4: Backoff Logic, its log sample", () => {
  it('has the keys "timestamp", "level", "worker" and "event", with the forms of the document', () => {
    expect(logTime(Date.UTC(2026, 1, 5, 17, 8, 53, 260))).toBe("2026-02-05 17:08:53,260");
    const story = start({ key: opalKey("job_b853289fff4d") });
    story.start().settle(lost(), { afterMs: 15_000 });
    const { job, events } = story;
    const record = reclaimRecord(job, events as never[], 1);
    expect(record?.line).toEqual({
      timestamp: logTime(story.now),
      level: "WARNING",
      worker: "engine-1", // `reclaimed_by` of the attempt document
      event: "[Lease] ♻️ Reclaiming job job_b853289fff4d (Attempt 1/2) -> QUEUED (backoff=8s)",
    });
    expect(Object.keys(record?.line ?? {})).toEqual(["timestamp", "level", "worker", "event"]);
    expect(document(story).reclaim?.reclaimed_by).toBe(record?.line.worker);
    expect(reclaimRecord(job, events as never[], 2)).toBeNull();
  });
});

describe("Test #2: Max Retries Exceeded", () => {
  it('"Job failed after 2 attempts", with a final attempt store without a backoff', () => {
    const story = start({ key: opalKey("job_b853289fff4d") });
    story.start().settle(lost(), { afterMs: 15_000 });
    story.start().settle(lost(), { afterMs: 15_000 });
    expect(read(story)).toMatchObject({
      ...{ id: "job_b853289fff4d", status: "failed", error: "max_retries_exceeded_a2", outputs: [] },
      ...{ completed_at: at(38), updated_at: at(38), run_provenance: { attempt: 2, exit_code: null } },
    });
    expect(document(story)).toMatchObject({
      ...{ job_id: "job_b853289fff4d", attempts: 2, not_before: null, backoff_secs_applied: null },
      reclaim: { reclaimed_by: "engine-1", reclaimed_at: at(38), reason: "lease_expired" },
      history: [
        { error: "lease_expired_retry_1", backoff_secs: 8 },
        { error: "max_retries_exceeded_a2", backoff_secs: null },
      ],
    });
  });
});

describe("Error Message Conventions", () => {
  it("lease_expired_retry_2: with MAX_RETRIES=3, since at 2 it cannot come", () => {
    const story = start({ policy: policyOf({ OPAL_MAX_RETRIES: "3" }) }).run(lost(), lost());
    expect(read(story)).toMatchObject({ status: "queued", error: "lease_expired_retry_2" });
    expect(document(story)).toMatchObject({ attempts: 2, backoff_secs_applied: 15 });
    expect(read(story.run(lost()))).toMatchObject({ status: "failed", error: "max_retries_exceeded_a2" });
  });

  it("the engine's own message if it failed", () => {
    const story = start().run(exited(7));
    expect(read(story)).toMatchObject({ status: "failed", error: "exit code 7", run_provenance: { exit_code: 7 } });
    expect(document(story).history).toMatchObject([{ outcome: "failed", error: "exit code 7", backoff_secs: null }]);
    expect(document(story)).toMatchObject({ reclaim: null, not_before: null });
    expect(read(start().run(timedOut()))).toMatchObject({ status: "failed", error: "it ran longer than 2 min" });
  });

  it("out of memory: its own words while it waits, the limit's when a lease is among the spent runs", () => {
    const oom = failed({ kind: "oom", message: "out of memory", exitCode: 137 });
    expect(read(start().run(oom))).toMatchObject({ status: "queued", error: "out of memory" });
    expect(read(start().run(oom, oom))).toMatchObject({ status: "failed", error: "out of memory" });
    expect(read(start().run(lost(), oom))).toMatchObject({ status: "failed", error: "max_retries_exceeded_a2" });
  });

  it("cancelled, which is a failure here", () => {
    const story = start();
    story.command({ kind: "cancel" });
    expect(read(story)).toMatchObject({ status: "failed", error: "cancelled", completed_at: at(0) });
    const running = start().start();
    running.command({ kind: "cancel" });
    expect(read(running)).toMatchObject({ status: "running", error: null });
    running.settle(failed("killed"));
    expect(read(running)).toMatchObject({ status: "failed", error: "cancelled" });
    expect(document(running).history).toMatchObject([{ outcome: "failed", error: "cancelled" }]);
    const waiting = start().run(lost());
    waiting.command({ kind: "cancel" });
    expect(document(waiting)).toMatchObject({ attempts: 1, not_before: null, backoff_secs_applied: null });
  });

  it("no error for a returned attempt, nor for attempts before a redrive", () => {
    const story = start().start().settle({ kind: "interrupted" });
    expect(read(story)).toMatchObject({ status: "queued", error: null });
    expect(document(story)).toMatchObject({ attempts: 1, not_before: null, backoff_secs_applied: null });

    const released = start().run(lost()).start().settle({ kind: "released", session: "s2" });
    expect(read(released)).toMatchObject({ status: "queued", error: "lease_expired_retry_1" });
    expect(document(released)).toMatchObject({ attempts: 2, backoff_secs_applied: 8, not_before: at(9) });

    const redriven = start().run(lost(), lost());
    redriven.now += 60_000;
    redriven.command({ kind: "redrive" });
    const updated_at = isoTime(redriven.now);
    expect(read(redriven)).toMatchObject({ status: "queued", error: null, completed_at: null, updated_at });
    expect(document(redriven)).toMatchObject({ attempts: 2, not_before: null, reclaim: null });
    expect(document(redriven).history).toHaveLength(2);
  });
});

describe("Test #5: Zero ABI Drift", () => {
  const KEYS = [
    ...["completed_at", "created_at", "error", "id", "outputs", "run_provenance", "started_at", "status"],
    ...["updated_at", "worker_id"],
  ];
  it("every job has the ten keys, in every state", () => {
    const cancelled = start();
    cancelled.command({ kind: "cancel" });
    const stories = [start(), start().start(), start().run(lost()), start().run(lost(), lost()), cancelled];
    for (const story of [...stories, start().run(completed())]) expect(Object.keys(read(story)).sort()).toEqual(KEYS);
  });

  it("attempt documents have the keys of the Attempt Store Schema, and a history", () => {
    const { history, ...schema } = document(start().run(lost()));
    expect(Object.keys(schema)).toEqual([
      ...["job_id", "attempts", "updated_at", "not_before", "backoff_secs_applied", "reclaim"],
    ]);
    expect(Object.keys(schema.reclaim ?? {})).toEqual(["reclaimed_by", "reclaimed_at", "reason"]);
    expect(history).toHaveLength(1);
  });

  it("statuses are four", () => {
    const states: Record<Job["state"], OpalStatus> = {
      ...{ queued: "queued", blocked: "queued", running: "running" },
      ...{ succeeded: "succeeded", failed: "failed", cancelled: "failed" },
    };
    for (const [state, status] of Object.entries(states)) expect(opalStatus(state as Job["state"])).toBe(status);
  });

  it("a job that is not from OPAL, or with another kind of result, is shown as far as possible", () => {
    const story = start({ key: "img-42" }).run(completed());
    const shown = read(story, { payload: undefined, result: "done" });
    expect(shown).toMatchObject({ id: story.job.id, status: "succeeded", outputs: [] });
    expect(shown.run_provenance).toEqual({ engine: null, attempt: 1, exit_code: null, worker_id: "worker-s1" });
    const unpaired = { name: "a\ud800", size: 1, mime: "text/plain", sha256: "" };
    expect(read(story, { result: { outputs: [unpaired] } }).outputs[0]?.href).toMatch(/\/attempt_1\/a%EF%BF%BD$/);
  });
});

describe("Ids", () => {
  it("are the client's, or job_ and 12 hex digits", () => {
    const bytes = (size: number) => Uint8Array.from([0x92, 0xe7, 0x25, 0xaa, 0x50, 0x34].slice(0, size));
    expect(opalId(undefined, bytes)).toBe("job_92e725aa5034");
    expect(opalId(null, bytes)).toBe("job_92e725aa5034");
    for (const id of ["a", "job_abc123", "A.b_c-9", "...", "x".repeat(100)]) expect(opalId(id, bytes)).toBe(id);
    for (const id of ["", ".", "..", "a/b", "a b", "ü", "a\n", "x".repeat(101), 7, {}, ["a"]]) {
      expect(() => opalId(id, bytes)).toThrow(/^job_id/);
    }
  });

  it("are kept in the submit key", () => {
    expect(opalKey("job_1")).toBe("opal:job_1");
    expect(opalIdOf({ id: "job_0", key: "opal:job_1" })).toBe("job_1");
    expect([null, "mine"].map((key) => opalIdOf({ id: "job_0", key, annotations: {} }))).toEqual([null, null]);
  });

  it("are the job's own where its file names none", () => {
    const annotations = { "opal/file": "yes" };
    expect(opalIdOf({ id: "job_0", key: null, annotations })).toBe("job_0");
    expect(opalIdOf({ id: "job_0", key: "opal:job_1", annotations })).toBe("job_1");
    expect(opalIdOf({ id: "job_0", key: "mine", annotations })).toBe(null);
  });
});

describe("Workers", () => {
  const NAME = "Ittipongs-Mac-mini.local-86390";
  const session: OpalSession = {
    ...{ name: NAME, host: "Ittipongs-Mac-mini.local", pid: 86_390 },
    ...{ renewedAt: 60_000, endedAt: null, running: 2 },
  };

  it("are online for OPAL_WORKER_TTL_SECS after they were last seen", () => {
    expect(opalWorker(session, 70_000, 10)).toEqual({
      ...{ id: NAME, name: NAME, host: "Ittipongs-Mac-mini.local", pid: 86_390, status: "online" },
      ...{ last_seen: "1970-01-01T00:01:00.000Z", current_jobs: 2 },
    });
    expect(opalWorker(session, 70_001, 10).status).toBe("offline");
    expect(opalWorker({ ...session, endedAt: 60_000 }, 60_000, 10).status).toBe("offline");
  });
});
