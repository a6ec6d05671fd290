/** Runs and time: what happens while no engine lives, when a clock is set back, and after an attempt is lost. Lives of engines on one
 *  database, in virtual time. */
import { describe, expect, it, onTestFinished } from "vitest";
import { task } from "../../src/index.ts";
import { newFile } from "../crash/stores.ts";
import { gate } from "../kit.ts";
import { auditStore, stepsOf } from "./audit.ts";
import { type Life, type LifeOptions, openLife } from "./lives.ts";
import { playbook, work, worker } from "./points.ts";

const MINUTE = 60_000;

async function live(options: LifeOptions): Promise<Life> {
  const life = await openLife(options);
  onTestFinished(() => life.end());
  return life;
}

const phase = async ({ store }: Life, run: string) => (await store.runs.row(run))?.phase;

async function states({ store }: Life, run: string): Promise<string> {
  return (await stepsOf(store, run)).map(({ node, state }) => `${node} ${state}`).join(", ");
}

const pause = (time: string) =>
  playbook([{ step: "pause", type: "wait", for: time, next: "after" }, work("after", { value: 1 })]);

describe("a wait", () => {
  it("that was over while no engine lived ends once, as soon as one does", async () => {
    const url = newFile();
    const first = await live({ url });
    const { id } = await first.perdure.run(pause("1h"));
    await first.settled();
    await first.end();
    const startAt = first.clock.now() + 150 * MINUTE;
    // Two of them find it.
    const [one, other] = [await live({ url, startAt }), await live({ url, startAt })];
    await one.perdure.work([worker()]);
    await Promise.all([
      one.until(async () => (await phase(one, id)) === "ended"),
      other.until(async () => (await phase(other, id)) === "ended"),
    ]);
    expect(one.clock.now() - startAt).toBeLessThan(5_000);
    expect(await states(one, id)).toBe("pause succeeded, after succeeded");
    await auditStore(one.store);
  });

  it("is not an hour longer when the clock is set back by one, nor shorter when it is set right again", async () => {
    const skew = { ms: 0 };
    const life = await live({ url: newFile(), skew });
    await life.perdure.work([worker()]);
    const start = life.clock.now();
    const { id } = await life.perdure.run(pause("6m"));
    await life.until(async () => life.clock.now() - start >= 2 * MINUTE);
    skew.ms = -60 * MINUTE;
    await life.until(async () => life.clock.now() - start >= 4 * MINUTE);
    expect(await phase(life, id)).toBe("forward");
    skew.ms = 0;
    await life.until(async () => (await phase(life, id)) === "ended");
    expect(Math.abs(life.clock.now() - start - 6 * MINUTE)).toBeLessThan(5_000);
    await auditStore(life.store);
  });
});

it("the late success of a lost attempt moves nothing once the arc of the failure was taken", async () => {
  const url = newFile();
  const late = gate<string>();
  const lost = await live({ url });
  const begun = gate();
  await lost.perdure.work([
    task("slow", async () => {
      begun.open();
      return late.passed;
    }),
  ]);
  const { id } = await lost.perdure.run(
    playbook([
      {
        ...{ step: "slow", type: "task", task: "slow", retry: { maxAttempts: 1, workerLost: { maxRetries: 0 } } },
        next: [{ step: "rescue", when: "{{ error != None }}" }, { step: "good" }],
      },
      work("rescue", { value: "{{ slow.status }}" }, { next: "pause" }),
      { step: "pause", type: "wait", for: "1m", next: "last" },
      work("last", { value: "{{ rescue }}" }),
      work("good"),
    ]),
  );
  await begun.passed;
  await lost.settled();
  // The clock of the first engine stands still from now on: its lease ends.
  const other = await live({ url, startAt: lost.clock.now() });
  await other.perdure.work([worker()]);
  await other.until(async () => (await states(other, id)).includes("pause"));
  expect(await states(other, id)).toBe("slow handled, rescue succeeded, pause waiting");
  const before = await other.store.runs.row(id);
  late.open("too late");
  await lost.settled();
  expect(await other.store.runs.row(id)).toEqual(before);
  await other.until(async () => (await phase(other, id)) === "ended");
  expect(await states(other, id)).toBe("slow handled, rescue succeeded, pause succeeded, last succeeded");
  const [slow] = await stepsOf(other.store, id);
  const attempts = await other.store.attempts(slow?.job as string);
  expect(attempts.map(({ outcome }) => outcome)).toEqual(["lost"]);
  await auditStore(other.store);
});
