import { describe, expect, it } from "vitest";
import { RetryAfterError, task } from "../index.ts";
import { openTestEngine } from "./index.ts";

describe("the test engine", () => {
  it("runs a job that fails twice and succeeds after 1 s and 2 s, in milliseconds", async () => {
    await using kit = await openTestEngine();
    const startedAt: number[] = [];
    const flaky = task(
      "flaky",
      { retry: { maxAttempts: 3, backoff: { initial: "1s" } } },
      (input: { n: number }, ctx) => {
        startedAt.push(kit.clock.now());
        if (ctx.attempt < 3) throw new Error(`run ${ctx.attempt}`);
        return { doubled: input.n * 2 };
      },
    );
    await kit.perdure.work([flaky]);
    const job = await kit.perdure.submit(flaky, { n: 21 });
    const info = await kit.runToEnd(job);
    expect(info).toMatchObject({ state: "succeeded", attempt: 3, failures: 2, result: { doubled: 42 } });
    expect(startedAt.map((at) => at - (startedAt[0] as number))).toEqual([0, 1_000, 3_000]);
    expect(await job.result()).toEqual({ doubled: 42 });
  });

  it("crosses a day in one step", async () => {
    await using kit = await openTestEngine();
    const daily = task("daily", () => "done");
    await kit.perdure.work([daily]);
    const job = await kit.perdure.submit(daily, undefined, { delay: "1d" });
    await kit.advance("23h");
    expect((await job.get()).state).toBe("queued");
    await kit.advance("1h");
    expect((await job.get()).state).toBe("succeeded");
  });

  it("times a hanging handler out at its timeout", async () => {
    await using kit = await openTestEngine();
    const hang = task("hang", { timeout: "2m" }, (_: undefined, ctx) => {
      return new Promise<void>((_resolve, reject) =>
        ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason)),
      );
    });
    await kit.perdure.work([hang]);
    const job = await kit.perdure.submit(hang);
    await kit.advance("1m");
    expect((await job.get()).state).toBe("running");
    await kit.advance("1m");
    expect(await job.get()).toMatchObject({ state: "failed", reason: "timeout" });
  });

  it("waits as long as a RetryAfterError requests", async () => {
    await using kit = await openTestEngine();
    const limited = task("limited", { retry: 2 }, (_: undefined, ctx) => {
      if (ctx.attempt === 1) throw new RetryAfterError("slow down", "30s");
      return ctx.previous?.message;
    });
    await kit.perdure.work([limited]);
    const job = await kit.perdure.submit(limited);
    await kit.advance("29s");
    expect((await job.get()).state).toBe("queued");
    await kit.advance("1s");
    expect((await job.get()).result).toBe("slow down");
  });

  it("lets the default of a handler's parameter apply when no input is given, and keeps null as null", async () => {
    await using kit = await openTestEngine();
    const defaulted = task("defaulted", (input: { n: number } | null | undefined = { n: 5 }) => input?.n ?? "null");
    await kit.perdure.work([defaulted]);
    const without = await kit.runToEnd(await kit.perdure.submit(defaulted));
    expect(without).toMatchObject({ result: 5, payload: undefined });
    const withNull = await kit.runToEnd(await kit.perdure.submit(defaulted, null));
    expect(withNull).toMatchObject({ result: "null", payload: null });
  });

  it("counts a handler that completes after its timeout as done", async () => {
    await using kit = await openTestEngine();
    const late = task("late", { timeout: "1s" }, (_: undefined, ctx) => {
      return new Promise<string>((resolve) => ctx.signal.addEventListener("abort", () => resolve("done anyway")));
    });
    await kit.perdure.work([late]);
    const job = await kit.perdure.submit(late);
    await kit.advance("2s");
    expect(await job.get()).toMatchObject({ state: "succeeded", result: "done anyway" });
  });

  it("reports at once why a job cannot end, instead of moving the clock forever", async () => {
    await using kit = await openTestEngine();
    const job = await kit.perdure.submit("nobody");
    await expect(kit.runToEnd(job)).rejects.toThrow("No live worker takes this job");
  });
});
