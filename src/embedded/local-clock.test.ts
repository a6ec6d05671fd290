/** When the wall clock is set back, no job waits longer than its delay and none starts early: in the running process, in others
 *  on the same file, and in one started afterwards. */
import { copyFileSync } from "node:fs";
import { describe, expect, it, onTestFinished } from "vitest";
import { all, openSession, tempFile } from "../../test/kit.ts";
import { resolvePolicy } from "../core/policy/resolve-policy.ts";
import type { Engine } from "../engine/engine.ts";
import type { SubmitItem } from "../engine/submit-item.ts";
import type { Clock } from "../lib/clock.ts";
import { systemLoop } from "../lib/system-clock.ts";
import { directoryBlobs } from "../store/directory-blobs.ts";
import { VirtualClock } from "../testing/virtual-clock.ts";
import { openEngine } from "./open-engine.ts";

const SECOND = 1_000;
const MINUTE = 60_000;
const HOUR = 3_600_000;
const policy = resolvePolicy();

/** One machine: its monotonic clock, its wall clock, which may be set, and its boot id. */
class Machine {
  readonly time = new VirtualClock();
  wallMs = 0;
  boot: string | null = "one";

  get clock(): Clock {
    const { time } = this;
    return {
      ...systemLoop,
      now: () => time.now() + this.wallMs,
      monotonic: () => time.now(),
      after: (ms, call) => time.after(ms, call),
    };
  }
  wall = () => this.time.now() + this.wallMs;
  pass = (ms: number) => this.time.moveTo(this.time.now() + ms);

  /** A process on this machine. Nothing runs in the background: the test triggers beats. */
  async open(url: string) {
    const boot = this.boot === null ? null : { name: this.boot, originMs: 0 };
    const log = () => {};
    const { engine, close } = await openEngine(
      { url, schema: undefined, connections: undefined, log, outputs: () => directoryBlobs(`${tempFile()}-files`) },
      { clock: this.clock, random: () => 0.5, boot },
    );
    const closed = { promise: null as Promise<void> | null };
    const end = () => {
      closed.promise ??= close();
      return closed.promise;
    };
    onTestFinished(end);
    return { engine, close: end };
  }
}

async function submit(engine: Engine, item: Partial<SubmitItem> = {}): Promise<string> {
  const [answer] = await engine.submit([{ kind: "k", payload: "null", policy, ...item }]);
  if (answer?.status !== "ok") throw new Error(JSON.stringify(answer));
  return answer.id;
}

/** The ids of the jobs that are due now. */
async function due(engine: Engine): Promise<string[]> {
  const session = await openSession({ engine });
  return (await engine.claim(session, { limit: 100 })).jobs.map(({ id }) => id);
}

describe("a wall clock that is set back an hour", () => {
  it("keeps due jobs due, and each delay at its requested length", async () => {
    const machine = new Machine();
    const { engine } = await machine.open(":memory:");
    const queued = await submit(engine);
    const delayed = await submit(engine, { delayMs: 10 * MINUTE });
    await engine.reap();
    machine.wallMs = -HOUR;
    expect((await engine.explain(queued)).text).not.toContain("no sooner");
    const after = await submit(engine);
    const later = await submit(engine, { delayMs: 10 * MINUTE });
    expect(await due(engine)).toEqual([queued, after]);
    machine.pass(10 * MINUTE - 1);
    expect(await due(engine)).toEqual([]);
    machine.pass(1);
    expect(await due(engine)).toEqual([delayed, later]);
  });

  it("and corrected again changes nothing either; if it is set ahead, the engine follows", async () => {
    const machine = new Machine();
    const { engine } = await machine.open(":memory:");
    const delayed = await submit(engine, { delayMs: 10 * MINUTE });
    await engine.reap();
    machine.wallMs = -HOUR;
    await engine.reap();
    machine.wallMs = 0;
    await engine.reap();
    machine.pass(10 * MINUTE - 1);
    expect(await due(engine)).toEqual([]);
    machine.pass(1);
    expect(await due(engine)).toEqual([delayed]);
    const far = await submit(engine, { delayMs: HOUR });
    machine.wallMs = HOUR;
    expect(engine.clock.now()).toBe(machine.wall());
    expect(await due(engine)).toEqual([far]);
    const steps = (await all(engine.events({}))).filter(({ name }) => name === "engine.clock_stepped");
    expect(steps.map(({ data }) => data)).toMatchObject([
      { stepMs: -HOUR, aheadMs: HOUR },
      { stepMs: HOUR, aheadMs: 0 },
    ]);
  });

  it("loses no lease and does not delay the reaper: leases do not depend on it", async () => {
    const machine = new Machine();
    const { engine } = await machine.open(":memory:");
    const id = await submit(engine);
    const session = await openSession({ engine });
    await engine.claim(session, { limit: 1 });
    for (let i = 0; i < 20; i++) {
      if (i === 2) machine.wallMs = -HOUR;
      machine.pass(SECOND);
      await engine.reap();
    }
    // Its lease of 15 s expires exactly then.
    expect(await engine.store.jobs([id])).toMatchObject([{ attempt: 1, losses: 1 }]);
    const names = (await all(engine.events({}))).map(({ name }) => name);
    expect(names).not.toContain("engine.reaping_held");
  });

  it("does not make an instant by the wall clock come early: runAt, reschedule", async () => {
    const machine = new Machine();
    const { engine } = await machine.open(":memory:");
    await engine.reap();
    machine.wallMs = -HOUR;
    const runAt = machine.wall() + 30 * MINUTE;
    const asked = await submit(engine, { runAt });
    const moved = await submit(engine, { delayMs: 5 * HOUR });
    await engine.command(moved, { kind: "reschedule", runAt, by: null });
    const ended = await submit(engine, { delayMs: 5 * HOUR, deadlineAt: runAt });
    machine.pass(30 * MINUTE - 1);
    expect(await due(engine)).toEqual([]);
    await engine.reap();
    expect(await engine.store.jobs([ended])).toMatchObject([{ state: "queued" }]);
    machine.pass(1);
    expect((await due(engine)).toSorted()).toEqual([asked, moved].toSorted());
    machine.pass(1);
    await engine.reap();
    expect(await engine.store.jobs([ended])).toMatchObject([{ state: "failed", reason: "unschedulable" }]);
  });

  it.each(["one", null])("is handled the same by a process that opens the file afterwards, boot %s", async (boot) => {
    const machine = new Machine();
    machine.boot = boot;
    const file = tempFile();
    const { engine } = await machine.open(file);
    const queued = await submit(engine);
    await engine.reap();
    machine.wallMs = -HOUR;
    const other = await machine.open(file);
    const delayed = await submit(other.engine, { delayMs: 10 * MINUTE });
    expect(await due(other.engine)).toEqual([queued]);
    machine.pass(10 * MINUTE - 1);
    expect(await due(engine)).toEqual([]);
    machine.pass(1);
    expect(await due(engine)).toEqual([delayed]);
  });

  it("is handled the same by a process that had the file open before, on a host whose clock is behind", async () => {
    const [machine, behind] = [new Machine(), new Machine()];
    Object.assign(behind, { boot: "two", wallMs: -HOUR });
    const file = tempFile();
    const other = await behind.open(file);
    const { engine } = await machine.open(file);
    const queued = await submit(engine);
    await engine.reap();
    expect(await due(other.engine)).toEqual([]);
    await other.engine.reap();
    expect(await due(other.engine)).toEqual([queued]);
  });

  it("while no process ran: that time counts, as the monotonic clock measures it within one boot", async () => {
    const machine = new Machine();
    const file = tempFile();
    const first = await machine.open(file);
    const [queued, delayed] = [await submit(first.engine), await submit(first.engine, { delayMs: 10 * MINUTE })];
    await first.engine.reap();
    await first.close();
    machine.pass(9 * MINUTE);
    machine.wallMs = -HOUR;
    const { engine } = await machine.open(file);
    await engine.reap();
    expect(await due(engine)).toEqual([queued]);
    machine.pass(MINUTE);
    expect(await due(engine)).toEqual([delayed]);
  });

  it("across a boot, or before any beat: a delay starts again at most, and due jobs stay due", async () => {
    const machine = new Machine();
    const file = tempFile();
    const first = await machine.open(file);
    const [queued, delayed] = [await submit(first.engine), await submit(first.engine, { delayMs: 10 * MINUTE })];
    await first.close();
    machine.boot = "two";
    machine.wallMs = -HOUR;
    const { engine } = await machine.open(file);
    expect(await due(engine)).toEqual([queued]);
    machine.pass(10 * MINUTE);
    expect(await due(engine)).toEqual([delayed]);
  });
});

it("a line that is ahead returns to the wall clock when a process opens the file alone and no job is unfinished", async () => {
  const machine = new Machine();
  const file = tempFile();
  const ahead = async (path = file) => {
    const { engine, close } = await machine.open(path);
    await engine.reap();
    const ms = engine.clock.now() - machine.wall();
    return { engine, close, ms };
  };
  const first = await ahead();
  const id = await submit(first.engine);
  machine.wallMs = -HOUR;
  await first.engine.reap();
  await first.close();
  const second = await ahead();
  expect(second.ms).toBe(HOUR); // one job is unfinished
  await second.engine.command(id, { kind: "cancel", by: null });
  const third = await ahead();
  expect(third.ms).toBe(HOUR); // another process has the file open
  await Promise.all([second.close(), third.close()]);
  // A copy, because the driver for Node 20 closes a file only after its statements are garbage-collected.
  const copy = tempFile();
  copyFileSync(file, copy);
  const last = await ahead(copy);
  expect(last.ms).toBe(0);
  const asked = await submit(last.engine);
  expect(await due(last.engine)).toEqual([asked]);
});
