/** fluster's client against a server: the same calls, with the defaults of the cluster. */
import { expect, it, onTestFinished } from "vitest";
import { task } from "../../src/core/task/task.ts";
import { Entrypoint, fluster } from "../../src/dialects/fluster/client.ts";
import { DIALECT_DEFAULTS } from "../../src/dialects/settings.ts";
import { openKit } from "../client/kit.ts";

const defaults = { defaultMaxRetriesFailure: 2, defaultMaxRetriesPreemption: 7, defaultRetryDelayMs: 1 };

it("a job is submitted, waited for, looked at and terminated over HTTP, by the defaults of the server", async () => {
  const kit = await openKit({ dialects: { ...DIALECT_DEFAULTS, fluster: defaults } });
  onTestFinished(() => kit.close());
  const draws = [0.1, 0.4, 0.7];
  const flaky = task("flaky", (_: { seed: number }) => {
    if ((draws.shift() ?? 1) < 0.5) throw new Error("Random failure");
    return "success";
  });
  await kit.embedded.work([flaky], { name: "w1" });
  const client = fluster(kit.client, { onNote: () => {} });
  const id = await client.submit({
    entrypoint: Entrypoint.fromCallable(flaky, { seed: 1 }),
    name: "flaky-job",
    resources: { cpu: 0.5, memory: "16m" },
  });
  expect(await client.wait(id, { timeout: 25 })).toMatchObject({
    ...{ job_id: id, name: "flaky-job", state: "SUCCEEDED", failure_count: 2, worker_id: "w1" },
    ...{ max_retries_failure: 2, max_retries_preemption: 7 },
    attempts: [{ error: "Random failure" }, { error: "Random failure" }, { state: "SUCCEEDED" }],
  });

  // No worker here runs commands.
  const parent = await client.submit({ entrypoint: ["true"], name: "parent", retry: { max_retries_failure: 1 } });
  const child = await client.submit({ entrypoint: ["true"], name: "child", parent_job_id: parent });
  expect(await client.status(child)).toMatchObject({ state: "PENDING", parent_job_id: parent, max_retries_failure: 2 });
  await client.terminate(parent);
  for (const each of [parent, child]) {
    expect(await client.wait(each, { timeout: 25 })).toMatchObject({ state: "KILLED", error: "Terminated by user" });
  }
  await expect(
    client.wait(await client.submit({ entrypoint: ["true"], name: "x" }), { timeout: 0.01 }),
  ).rejects.toThrow(expect.objectContaining({ code: "result_timeout" }));
});
