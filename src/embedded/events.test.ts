import { describe, expect, it } from "vitest";
import { all } from "../../test/kit.ts";
import { foldEvents, type JobEvent } from "../core/index.ts";
import { type PerdureEvent, task } from "../index.ts";
import { openTestEngine } from "../testing/index.ts";

const flaky = task("flaky", { retry: { maxAttempts: 2, backoff: { type: "none" } } }, (_, ctx) => {
  if (ctx.attempt === 1) throw new Error("down");
  return "up";
});

describe("events", () => {
  it("record a job's whole life, numbered without gaps, and fold to its row", async () => {
    await using kit = await openTestEngine();
    await kit.perdure.work([flaky]);
    const job = await kit.perdure.submit(flaky, undefined, { delay: "1s" });
    await kit.runToEnd(job);
    const events = (await all(job.events())) as JobEvent[];
    expect(events.map(({ n, name }) => `${n} ${name}`)).toEqual([
      "1 job.submitted",
      "2 attempt.started",
      "3 attempt.failed",
      "4 attempt.started",
      "5 attempt.succeeded",
    ]);
    expect(new Set(events.map((event) => event.jobId))).toEqual(new Set([job.id]));
    const { payload: _payload, result: _result, progress: _progress, ...row } = await job.get();
    expect(row).toMatchObject(foldEvents(events));
  });

  it("are returned in the order they were written, from any event on", async () => {
    await using kit = await openTestEngine();
    await kit.perdure.submitMany(Array.from({ length: 600 }, (_, i) => ({ task: "k", input: i })));
    const events = await all(kit.perdure.events());
    expect(events.length).toBeGreaterThanOrEqual(600); // more than a page
    expect(events.map(({ seq }) => seq)).toEqual([...events.map(({ seq }) => seq)].sort((a, b) => a - b));
    const middle = events[300] as PerdureEvent;
    expect(await all(kit.perdure.events(middle.seq))).toEqual(events.slice(301));
    expect(await all(kit.perdure.events({ after: middle.seq }))).toEqual(events.slice(301));
    expect(await all(kit.perdure.events({ after: (events.at(-1) as PerdureEvent).seq }))).toEqual([]);
  });

  it("are returned newest first, up to the limit", async () => {
    await using kit = await openTestEngine();
    await kit.perdure.submitMany(Array.from({ length: 600 }, (_, i) => ({ task: "k", input: i })));
    const events = await all(kit.perdure.events());
    const back = events.toReversed();
    expect(await all(kit.perdure.events({ order: "newest" }))).toEqual(back);
    expect(await all(kit.perdure.events({ order: "newest", limit: 520 }))).toEqual(back.slice(0, 520));
    const { seq, jobId } = events[9] as PerdureEvent;
    expect(await all(kit.perdure.events({ order: "newest", before: seq, limit: 2 }))).toEqual([events[8], events[7]]);
    expect(await all(kit.perdure.events({ before: seq, limit: 3 }))).toEqual(events.slice(0, 3));
    const job = await kit.perdure.job(jobId as string);
    expect(await all(job.events({ order: "newest", limit: 1 }))).toEqual([events[9]]);
    for (const options of [{ order: "newest" }, { before: 5 }, { limit: 1 }] as const) {
      expect(() => kit.perdure.events({ ...options, follow: true })).toThrow("must be nothing with follow");
    }
    expect(() => kit.perdure.events({ order: "up" as never })).toThrow(
      'events.order: must be "oldest" or "newest"; got "up".',
    );
  });

  it("of the engine belong to no job", async () => {
    await using kit = await openTestEngine();
    const worker = await kit.perdure.work([flaky]);
    await worker.stop();
    const events = await all(kit.perdure.events());
    expect(events).toMatchObject([
      { name: "worker.started", jobId: null, n: 0, data: { session: worker.session } },
      { name: "worker.stopped", jobId: null, n: 0, data: { session: worker.session } },
    ]);
  });

  it("can be followed: new events arrive as they are written, each once", async () => {
    await using kit = await openTestEngine();
    const job = await kit.perdure.submit(flaky);
    const controller = new AbortController();
    const seen: string[] = [];
    const following = (async () => {
      for await (const event of job.events({ follow: true, signal: controller.signal })) {
        seen.push(event.name);
        if (event.name === "attempt.succeeded") controller.abort();
      }
    })();
    await kit.settled();
    expect(seen).toEqual(["job.submitted"]);
    await kit.perdure.work([flaky]);
    await following;
    expect(seen).toEqual([
      ...["job.submitted", "attempt.started", "attempt.failed", "attempt.started", "attempt.succeeded"],
    ]);
  });

  it("followed by several at once are the same for all", async () => {
    await using kit = await openTestEngine();
    const controller = new AbortController();
    const follow = async () => {
      const seqs: number[] = [];
      for await (const { seq } of kit.perdure.events({ follow: true, signal: controller.signal })) seqs.push(seq);
      return seqs;
    };
    const followers = [follow(), follow(), follow()];
    await kit.perdure.work([flaky]);
    for (let i = 0; i < 20; i++) await kit.perdure.submit(flaky);
    await kit.settled();
    controller.abort();
    const [first, ...others] = await Promise.all(followers);
    expect(first).toEqual((await all(kit.perdure.events())).map(({ seq }) => seq));
    for (const other of others) expect(other).toEqual(first);
  });

  it("stop at once for a signal that is aborted already", async () => {
    await using kit = await openTestEngine();
    await kit.perdure.submit("k");
    expect(await all(kit.perdure.events({ follow: true, signal: AbortSignal.abort() }))).toEqual([]);
  });

  it("end for a follower with an error when the engine is closed", async () => {
    const kit = await openTestEngine();
    const following = all(kit.perdure.events({ follow: true })).catch((error: unknown) => error);
    await kit.settled();
    await kit.close();
    kit.clock.moveTo(kit.clock.now() + 1_000);
    expect(await following).toMatchObject({ code: "closed" });
  });

  it("of a job are deleted with it, and numbers are never used again", async () => {
    await using kit = await openTestEngine({ retention: { cancelled: 0 } });
    const job = await kit.perdure.submit("k");
    await job.cancel();
    const last = (await all(kit.perdure.events())).at(-1)?.seq as number;
    await kit.advance("1ms");
    await kit.perdure.prune();
    expect(await all(job.events())).toEqual([]);
    await kit.perdure.submit("k");
    const [next] = await all(kit.perdure.events());
    expect(next?.seq).toBeGreaterThan(last);
  });
});
