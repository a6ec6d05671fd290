/** Testing a task with `perdure/testing`: a real engine on an in-memory database, with a clock that you move. Waits of
 *  seconds or days take milliseconds, and delays are exact. Works with any test runner; this is Node's own.
 *  Run: npx tsx examples/testing.ts */
import assert from "node:assert/strict";
import { test } from "node:test";
import { task } from "perdure";
import { openTestEngine } from "perdure/testing";

test("fails twice, then succeeds after 1 s and 2 s", async () => {
  await using kit = await openTestEngine();
  const startedAt: number[] = [];
  const flaky = task("flaky", { retry: { maxAttempts: 3, backoff: { initial: "1s" } } }, (n: number, ctx) => {
    startedAt.push(kit.clock.now());
    if (ctx.attempt < 3) throw new Error(`attempt ${ctx.attempt} failed`);
    return n * 2;
  });
  await kit.perdure.work([flaky]);

  const job = await kit.perdure.submit(flaky, 21);
  const ended = await kit.runToEnd(job);

  assert.equal(ended.state, "succeeded");
  assert.equal(ended.result, 42);
  const waits = startedAt.slice(1).map((at, i) => at - (startedAt[i] as number));
  assert.deepEqual(waits, [1_000, 2_000]);
});

test("a delayed job does not start before its time", async () => {
  await using kit = await openTestEngine();
  const nightly = task("nightly", () => "done");
  await kit.perdure.work([nightly]);
  const job = await kit.perdure.submit(nightly, undefined, { delay: "8h" });

  await kit.advance("7h");
  assert.equal((await job.get()).state, "queued");
  await kit.advance("1h");
  assert.equal((await job.get()).state, "succeeded");
});
