/** The output of `perdure explain` and `perdure events` for a job with Attune's retry policy. */
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { task } from "../../src/core/task/task.ts";
import { Perdure } from "../../src/embedded/perdure.ts";
import { perdure } from "./kit.ts";
import { newDir } from "./targets.ts";

/** Fails twice in ways that Attune retries, then in a way that it does not. */
const MESSAGES = ["Worker heartbeat is stale", "worker did not pick up task", "Permission denied"];

async function endedJob(preset: "attune" | "noetl") {
  const dir = newDir();
  const engine = await Perdure.open(join(dir, "perdure.db"));
  const flaky = task("flaky", {}, async (_: undefined, ctx) => {
    throw new Error(MESSAGES[ctx.attempt - 1] ?? "no more");
  });
  const retry = { preset, maxAttempts: 3, backoff: { initial: "1ms" } } as const;
  const job = await engine.submit(flaky, undefined, { retry });
  const worker = await engine.work([flaky]);
  await job.result({ timeout: "20s" }).catch(() => {});
  await worker.stop();
  await engine.close();
  return { id: job.id, ask: async (...argv: string[]) => (await perdure([...argv, "--data", dir])).stdout };
}

describe("a job of preset attune", () => {
  it("is explained with the retry reason and the pattern that matched, in text and as JSON", async () => {
    const { id, ask } = await endedJob("attune");
    const lines = (await ask("explain", id)).split("\n");
    const shown = lines
      .filter((line) => /Decision|Retry reason/.test(line))
      .map((line) => line.replace(/\. (Attempt|Counted) .*$/, ""));
    expect(shown).toEqual([
      '  Decision: retry: retryOn "heartbeat ... stale" matched "Worker heartbeat is stale"',
      "  Retry reason: worker_heartbeat_stale.",
      '  Decision: retry: retryOn "worker did not pick up task" matched "worker did not pick up task"',
      "  Retry reason: queue_timeout.",
      '  Decision: fail (rejected): noRetryOn "permission denied" matched "Permission denied"',
    ]);
    const explained = JSON.parse(await ask("explain", id, "--json"));
    expect(explained.retries).toMatchObject([
      { attempt: 1, reason: "worker_heartbeat_stale", match: { list: "retryOn", entry: "heartbeat ... stale" } },
      { attempt: 2, reason: "queue_timeout", match: { line: "worker did not pick up task" } },
    ]);
    expect(explained.attempts[2]).toMatchObject({
      match: { by: "list", list: "noRetryOn", entry: "permission denied" },
    });
    expect(await ask("events", id)).toMatch(
      /attempt\.failed, job\.retry_scheduled +attempt 1, retrying in 1 ms, by retryOn "heartbeat \.\.\. stale": Worker heartbeat/,
    );
    const { chain } = JSON.parse(await ask("get", id, "-o", "attune"));
    expect(chain).toMatchObject([
      { id, retry_of: null, retry_reason: null },
      { id: `${id}.r1`, retry_of: id, retry_reason: "worker_heartbeat_stale" },
      { id: `${id}.r2`, retry_of: `${id}.r1`, retry_reason: "queue_timeout" },
    ]);
  });

  it("has retry reasons only if its policy is Attune's", async () => {
    const { id, ask } = await endedJob("noetl");
    expect(await ask("explain", id)).not.toContain("Retry reason");
    expect(JSON.parse(await ask("explain", id, "--json")).retries).toMatchObject([{ reason: null }, { reason: null }]);
  });
});
