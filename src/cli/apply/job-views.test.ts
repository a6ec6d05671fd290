import { expect, it, onTestFinished } from "vitest";
import type { Perdure } from "../../core/api.ts";
import { task } from "../../core/task/task.ts";
import { openTestEngine } from "../../testing/index.ts";
import { viewParts } from "./job-views.ts";

it("are of one instant, although the job continues while they are read", async () => {
  const { perdure, advance, close } = await openTestEngine();
  onTestFinished(close);
  const failing = task("failing", () => {
    throw new Error("no");
  });
  await perdure.work([failing]);
  const { id } = await perdure.submit(failing, undefined, {
    retry: { maxAttempts: 1_000, backoff: { initial: "1ms", max: "1ms" } },
  });
  const goingOn = {
    async job() {
      const handle = await perdure.job(id);
      const get = async () => {
        const job = await handle.get();
        await advance(5);
        return job;
      };
      const attempts = async () => {
        await advance(5);
        return handle.attempts();
      };
      return { get, attempts, events: () => handle.events() };
    },
    workers: () => perdure.workers(),
  } as unknown as Perdure;
  for (let n = 0; n < 3; n++) {
    const { job, attempts, events } = await viewParts(goingOn, id);
    expect(events).toHaveLength(job.revision);
    expect(attempts).toHaveLength(job.failures);
  }
  expect((await perdure.job(id).then((job) => job.get())).failures).toBeGreaterThan(5);
});
