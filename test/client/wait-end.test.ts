/** How waits share calls. The server is a function that answers when the test triggers it. */
import { describe, expect, it } from "vitest";
import { type AwaitedJob, EndWaiter, type FetchEnds } from "../../src/client/wait-end.ts";
import { PerdureError } from "../../src/core/errors.ts";

interface Asked {
  readonly jobs: readonly AwaitedJob[];
  readonly signal: AbortSignal;
  tell(...ended: string[]): void;
  fail(error: Error): void;
}

/** Calls as they come. */
function fakeServer() {
  const asked: Asked[] = [];
  let noticed: (() => void) | null = null;
  const ask: FetchEnds = (jobs, _waitMs, signal) =>
    new Promise((resolve, reject) => {
      const tell = (...ended: string[]) => resolve({ ended, missing: [] });
      asked.push({ jobs, signal, tell, fail: reject });
      signal.addEventListener("abort", () => reject(new Error("aborted")));
      noticed?.();
    });
  /** The n-th call, once it has come. */
  async function call(n: number): Promise<Asked> {
    while (asked[n] === undefined) {
      await new Promise<void>((resolve) => {
        noticed = resolve;
      });
    }
    return asked[n];
  }
  const open = () => asked.filter(({ signal }) => !signal.aborted).length;
  return { waiter: new EndWaiter(ask), call, asked, open };
}

const FOREVER = { timeoutMs: null } as const;
const job = (n: number, chapter = 1) => ({ id: `job_${n}`, chapter });

describe("waits for the ends of jobs", () => {
  it("share one call when they begin together, and continue when it is answered for one of them", async () => {
    const { waiter, call } = fakeServer();
    const waits = [1, 2, 3].map((n) => waiter.wait(job(n), FOREVER));
    const first = await call(0);
    expect(first.jobs).toEqual([job(1), job(2), job(3)]);
    first.tell("job_2");
    expect(await waits[1]).toBe("ended");
    const second = await call(1);
    expect(second.jobs).toEqual([job(1), job(3)]);
    second.tell("job_1", "job_3");
    expect(await Promise.all(waits)).toEqual(["ended", "ended", "ended"]);
  });

  it("wait for at most 1,000 jobs with one call", async () => {
    const { waiter, call, asked } = fakeServer();
    const waits = Array.from({ length: 2_500 }, (_, n) => waiter.wait(job(n), FOREVER));
    await call(2);
    expect(asked.map(({ jobs }) => jobs.length)).toEqual([1_000, 1_000, 500]);
    for (const { jobs, tell } of asked) tell(...jobs.map(({ id }) => id));
    expect(new Set(await Promise.all(waits))).toEqual(new Set(["ended"]));
  });

  it("that begin one after another are combined: few calls are open, and none is lost", async () => {
    const { waiter, call, asked, open } = fakeServer();
    const waits: Promise<unknown>[] = [];
    for (let n = 0; n < 20; n++) {
      waits.push(waiter.wait(job(n), FOREVER));
      await call(n);
    }
    expect(open()).toBeLessThanOrEqual(3);
    const live = asked.filter(({ signal }) => !signal.aborted);
    expect(live.flatMap(({ jobs }) => jobs).length).toBe(20);
    for (const { jobs, tell } of live) tell(...jobs.map(({ id }) => id));
    await Promise.all(waits);
  });

  it("for two chapters of a job wait for the earlier one, and both are woken", async () => {
    const { waiter, call } = fakeServer();
    const waits = [waiter.wait(job(1, 2), FOREVER), waiter.wait(job(1, 1), FOREVER)];
    const first = await call(0);
    expect(first.jobs).toEqual([job(1, 1)]);
    first.tell("job_1");
    expect(await Promise.all(waits)).toEqual(["ended", "ended"]);
  });

  it("continue through outages, and end with any other error", async () => {
    const { waiter, call } = fakeServer();
    const wait = waiter.wait(job(1), FOREVER);
    for (const [n, code] of (["server_unreachable", "overloaded", "store_unavailable"] as const).entries()) {
      (await call(n)).fail(new PerdureError(code, "away"));
    }
    (await call(3)).fail(new PerdureError("unauthorized", "the token was revoked"));
    await expect(wait).rejects.toMatchObject({ code: "unauthorized" });
  });

  it("end by their own timeout and signal, and abort a call that is not needed any more", async () => {
    const { waiter, call } = fakeServer();
    const controller = new AbortController();
    const short = waiter.wait(job(1), { timeoutMs: 5 });
    const aborted = waiter.wait(job(2), { timeoutMs: 4_000_000_000, signal: controller.signal });
    const { signal } = await call(0);
    expect(await short).toBe("timeout");
    expect(signal.aborted).toBe(false);
    controller.abort();
    expect(await aborted).toBe("aborted");
    expect(signal.aborted).toBe(true);
    expect(await waiter.wait(job(3), { timeoutMs: null, signal: controller.signal })).toBe("aborted");
  });

  it("end with the client", async () => {
    const { waiter, call } = fakeServer();
    const waits = [waiter.wait(job(1), FOREVER)];
    const { signal } = await call(0);
    waits.push(waiter.wait(job(2), FOREVER));
    waiter.close();
    await Promise.all(waits.map((wait) => expect(wait).rejects.toMatchObject({ code: "closed" })));
    expect(signal.aborted).toBe(true);
    await expect(waiter.wait(job(3), FOREVER)).rejects.toMatchObject({ code: "closed" });
  });
});
