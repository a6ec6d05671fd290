/** The text rules of the engine with a real store: everything that a worker sends can be stored and is returned as
 *  text, and an invalid result fails its attempt and nothing else. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { failure } from "../../core/decision/failure.ts";
import { resolvePolicy } from "../../core/policy/resolve-policy.ts";
import type { ClaimedJob, ReportedOutcome } from "../../core/worker-protocol.ts";
import { Engine } from "../../engine/engine.ts";
import { LIMITS } from "../../engine/limits.ts";
import { idMaker } from "../../lib/id.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { audit } from "../conformance/audit.ts";
import type { Store } from "../store.ts";
import { openSqlite } from "./open.ts";

/** NUL, lone halves of pairs, and far too long. */
const NASTY = `a\0b\ud83d c\udc00 ${"é".repeat(100_000)}\0`;

let store: Store;
let engine: Engine;
beforeEach(async () => {
  store = await openSqlite({ path: ":memory:", random: Math.random, newSecret: () => "a secret of the text rules" });
  const newId = idMaker({ now: Date.now, randomBytes: (bytes) => crypto.getRandomValues(bytes) });
  engine = new Engine({ store, clock: systemClock, random: () => 0.5, newId, name: "engine-1", log: () => {} });
});
afterEach(async () => {
  await audit(store);
  await engine.stop();
  await store.close();
});

async function running(retry: Parameters<typeof resolvePolicy>[0] = 1): Promise<{ job: ClaimedJob; session: string }> {
  await engine.submit([{ kind: "work", payload: "null", policy: resolvePolicy(retry) }]);
  const parts = {
    namespace: "default",
    name: "w",
    host: "h",
    pid: 1,
    kinds: ["work"],
    queues: null,
    labels: {},
    slots: 1,
  };
  const session = await engine.openSession(parts);
  const { jobs } = await engine.claim(session, { limit: 1 });
  return { job: jobs[0] as ClaimedJob, session };
}
async function report(job: ClaimedJob, outcome: ReportedOutcome, log: string | null = null) {
  const from = { kind: "worker", token: job.token, reportId: "r1" } as const;
  const [answer] = await engine.report([{ jobId: job.id, attempt: job.attempt, from, outcome, usage: null, log }]);
  return answer;
}
function expectStorable(text: string | null | undefined, limit: number): void {
  expect(text?.length).toBe(limit);
  expect(text?.isWellFormed()).toBe(true);
  expect(text).not.toContain("\0");
  expect(text?.startsWith("a\ufffdb\ufffd c\ufffd é")).toBe(true);
}

test("a failure of any text is kept as text, cut to its limits", async () => {
  const { job } = await running();
  const parts = { message: NASTY, name: NASTY, code: NASTY, signal: NASTY, stack: NASTY };
  const answer = await report(job, { kind: "failed", failure: failure({ kind: "error", ...parts }) }, NASTY);
  expect(answer).toMatchObject({ status: "accepted", state: "failed" });
  const [attempt] = await store.attempts(job.id);
  expectStorable(attempt?.failure?.message, LIMITS.failureMessage);
  expectStorable(attempt?.failure?.name, LIMITS.name);
  expectStorable(attempt?.failure?.code, LIMITS.name);
  expectStorable(attempt?.failure?.signal, LIMITS.name);
  expectStorable(attempt?.failure?.stack, LIMITS.stack);
  expectStorable(attempt?.log, LIMITS.logChunk);
  await engine.explain(job.id);
});

test("progress and log of a renewal are kept as text", async () => {
  const { job, session } = await running();
  await engine.renew(session, [{ jobId: job.id, attempt: 1, progress: NASTY, log: NASTY }]);
  expectStorable((await store.jobs([job.id]))[0]?.progress, LIMITS.progress);
});

const BAD_RESULTS = {
  "over its limit": JSON.stringify("x".repeat(LIMITS.payloadBytes)),
  "not JSON": "{oops",
  "not JSON for its NUL": '"a\0b"',
  "not well-formed": '"\ud800"',
  "nothing at all": "",
};
for (const [what, result] of Object.entries(BAD_RESULTS)) {
  for (const retry of [5, { maxAttempts: 5, retryWhen: "{{ result.state == 'pending' }}" }]) {
    test(`a result that is ${what} fails its attempt${retry === 5 ? "" : ", also where a condition reads it"}`, async () => {
      const { job } = await running(retry);
      expect(await report(job, { kind: "completed", result })).toMatchObject({ state: "failed", reason: "rejected" });
      const [attempt] = await store.attempts(job.id);
      expect(attempt).toMatchObject({ outcome: "failed", failure: { kind: "result", class: "logical" }, result: null });
    });
  }
}

test("a job whose text cannot be stored is refused at submit, its neighbours are not", async () => {
  const policy = resolvePolicy();
  const item = { kind: "work", payload: "null", policy };
  const bad = [
    { ...item, queue: "a\0b" },
    { ...item, kind: "\ud800" },
    { ...item, key: "a\0" },
    { ...item, tags: ["ok", "\udc00"] },
    { ...item, labels: { ok: "a\0" } },
    { ...item, priority: 11 },
    { ...item, payload: '"a\0"' },
    { ...item, payload: '"\ud800"' },
  ];
  const answers = await engine.submit(bad.flatMap((one) => [item, one]));
  expect(answers.map((answer) => answer.status)).toEqual(bad.flatMap(() => ["ok", "refused"]));
});
