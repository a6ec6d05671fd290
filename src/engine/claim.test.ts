import { describe, expect, it, vi } from "vitest";
import { type Bench, gate, openBench, openSession } from "../../test/kit.ts";
import { resolvePolicy } from "../core/policy/resolve-policy.ts";
import type { ClaimAnswer } from "../store/store.ts";
import { Engine } from "./engine.ts";

/** Another engine on the same store: ours gets no signal when it writes. */
function neighbour(bench: Bench): Engine {
  let made = 0;
  const newId = (prefix: string) => `${prefix}_0000000000000000000000000${made++}`;
  const { store, clock } = bench;
  return new Engine({ store, clock, newId, random: () => 0.5, log: () => {}, name: "neighbour" });
}

const POLICY = resolvePolicy();

describe("a waiting claim", () => {
  it("is answered as soon as a job is submitted here, without the clock moving", async () => {
    const bench = await openBench({ services: false });
    const session = await openSession(bench);
    const claimed = bench.engine.claim(session, { limit: 5, waitMs: 30_000 });
    await bench.settled();
    const id = await bench.submit("k");
    expect((await claimed).jobs.map((job) => job.id)).toEqual([id]);
  });

  it("does not poll again because some session was renewed: many idle workers would poll for nothing", async () => {
    const bench = await openBench({ services: false });
    const [session, other] = [await openSession(bench), await openSession(bench)];
    const asked = vi.spyOn(bench.store, "claim");
    const leaving = new AbortController();
    const claimed = bench.engine.claim(session, { limit: 5, waitMs: 30_000, signal: leaving.signal });
    await bench.settled();
    const before = asked.mock.calls.length;
    for (let n = 0; n < 10; n++) await bench.engine.renew(other, []);
    await bench.settled();
    expect(asked.mock.calls.length).toBe(before);
    // A session with an expired lease got nothing meanwhile: it polls at once.
    await bench.advance(16_000);
    const atLast = asked.mock.calls.length;
    await bench.engine.renew(session, []);
    await bench.settled();
    expect(asked.mock.calls.length).toBe(atLast + 1);
    leaving.abort();
    await claimed;
  });

  it("is answered at the instant the next job falls due", async () => {
    const bench = await openBench({ services: false });
    const session = await openSession(bench);
    await bench.submit("k", { delayMs: 333 });
    const claimed = gate<number>();
    const start = bench.clock.now();
    void bench.engine.claim(session, { limit: 5, waitMs: 30_000 }).then(() => claimed.open(bench.clock.now()));
    await bench.advance(1_000);
    expect((await claimed.passed) - start).toBe(333);
  });

  it("finds within a second what another engine wrote, also without a hint", async () => {
    const bench = await openBench({ services: false });
    const session = await openSession(bench);
    const claimed = gate<ClaimAnswer>();
    void bench.engine.claim(session, { limit: 5, waitMs: 10_000 }).then(claimed.open);
    await bench.settled();
    await neighbour(bench).submit([{ kind: "k", payload: "null", policy: POLICY }]);
    await bench.settled();
    expect(claimed.isOpen).toBe(false);
    await bench.advance(1_000);
    expect((await claimed.passed).jobs).toHaveLength(1);
  });

  it("returns nothing when its time is up", async () => {
    const bench = await openBench({ services: false });
    const session = await openSession(bench);
    const claimed = gate<ClaimAnswer>();
    void bench.engine.claim(session, { limit: 5, waitMs: 2_500 }).then(claimed.open);
    await bench.advance(2_499);
    expect(claimed.isOpen).toBe(false);
    await bench.advance(1);
    expect(await claimed.passed).toMatchObject({ alive: true, jobs: [] });
  });

  it("takes nothing after it is aborted", async () => {
    const bench = await openBench({ services: false });
    const session = await openSession(bench);
    const controller = new AbortController();
    const claimed = bench.engine.claim(session, { limit: 5, waitMs: 30_000, signal: controller.signal });
    await bench.settled();
    const [answer] = await neighbour(bench).submit([{ kind: "k", payload: "null", policy: POLICY }]);
    controller.abort();
    expect(await claimed).toMatchObject({ jobs: [] });
    expect(await bench.engine.claim(session, { limit: 5, signal: controller.signal })).toMatchObject({ jobs: [] });
    expect(await bench.job((answer as { id: string }).id)).toMatchObject({ state: "queued", attempt: 0 });
  });

  it("reports that its session has ended", async () => {
    const bench = await openBench({ services: false });
    const session = await openSession(bench);
    const claimed = bench.engine.claim(session, { limit: 5, waitMs: 30_000 });
    await bench.settled();
    await bench.engine.closeSession(session);
    await bench.advance(1_000);
    expect((await claimed).alive).toBe(false);
    expect(await bench.engine.claim("ses_unknown", { limit: 1 })).toMatchObject({ alive: false, jobs: [] });
  });

  it("gives each job to one of many waiting claims", async () => {
    const bench = await openBench({ services: false });
    const sessions = await Promise.all(Array.from({ length: 8 }, () => openSession(bench)));
    const claims = sessions.map((session) => bench.engine.claim(session, { limit: 3, waitMs: 5_000 }));
    await bench.settled();
    const items = Array.from({ length: 10 }, () => ({ kind: "k", payload: "null", policy: POLICY }));
    const submitted = await bench.engine.submit(items);
    await bench.advance(5_000);
    const got = (await Promise.all(claims)).flatMap((answer) => answer.jobs.map((job) => job.id));
    expect(got.sort()).toEqual(submitted.map((answer) => (answer as { id: string }).id).sort());
  });

  it("repeated with its id gets the same jobs again, and no others", async () => {
    const bench = await openBench({ services: false });
    const session = await openSession(bench);
    for (let i = 0; i < 5; i++) await bench.submit("k");
    const first = await bench.engine.claim(session, { limit: 2, claimId: "c1" });
    const again = await bench.engine.claim(session, { limit: 2, claimId: "c1" });
    expect(again.jobs).toEqual(first.jobs);
    const next = await bench.engine.claim(session, { limit: 9, claimId: "c2" });
    expect(next.jobs).toHaveLength(3);
  });
});
