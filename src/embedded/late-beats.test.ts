/** Several processes share one time line while their beats are stored and answered late, the wall clock is set, and the machine
 *  reboots. Time never goes back in a process, no process is behind a stored beat, and the line is never ahead of the latest
 *  wall time seen, advanced by the monotonic clock. */
import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Gate, gate } from "../../test/kit.ts";
import { nextTurn } from "../lib/clock.ts";
import { systemLoop } from "../lib/system-clock.ts";
import { CLOCK_STEP_MS } from "../store/clock-mark.ts";
import { openStore } from "../store/open.ts";
import type { Store } from "../store/store.ts";
import { VIRTUAL_START, VirtualClock } from "../testing/virtual-clock.ts";
import { type LocalClock, localClock } from "./local-clock.ts";

const DAY = 86_400_000;
const BEAT = { time: () => ({ now: 0 }), maxGapMs: DAY, holdMs: 0, clockJumpMs: 0, engine: "e" };

/** Opened once: each run begins a day after the previous one. */
let store: Store;
beforeAll(async () => {
  const clock = new VirtualClock();
  store = await openStore({ url: ":memory:", clock, random: () => 0.5, newSecret: () => "x".repeat(40) });
});
afterAll(() => store.close());

/** True time, and how far the wall clock is ahead of it: now, and at most until now. */
const world = { time: VIRTUAL_START, wallMs: 0, mostMs: 0, boots: 0 };

function setWall(ms: number): void {
  world.wallMs = ms;
  world.mostMs = Math.max(world.mostMs, ms);
}

/** A beat from its call to its answer. */
interface Pending {
  readonly toStore: Gate<void>;
  readonly toAnswer: Gate<void>;
  answered: Promise<unknown>;
  /** The latest beat stored before it. */
  knownMs: number;
}

class Process {
  readonly line: LocalClock;
  /** Whether its boot id differs from the machine's: in a separate namespace, or where boots have no id. */
  readonly isForeign: boolean;
  beat: Pending | null = null;
  #last = Number.NEGATIVE_INFINITY;

  constructor(line: LocalClock, isForeign: boolean) {
    this.line = line;
    this.isForeign = isForeign;
  }

  now(): number {
    const now = this.line.clock.now();
    expect(now, "the time of a process went back").toBeGreaterThanOrEqual(this.#last);
    expect(now - world.time, "the line ran ahead").toBeLessThanOrEqual(world.mostMs + 1);
    this.#last = now;
    return now;
  }
}

type Boot = "same" | "other" | "none";

class Machine {
  readonly #processes = new Map<number, Process>();
  #bootedAt = 0;
  /** The latest stored beat of this boot, as its lead over true time, and its position on the line. */
  #aheadMs = Number.NEGATIVE_INFINITY;
  #reached = Number.NEGATIVE_INFINITY;
  #hasForeign = false;

  async reboot(): Promise<void> {
    world.boots += 1;
    this.#bootedAt = world.time;
    this.#aheadMs = Number.NEGATIVE_INFINITY;
    this.#processes.clear();
    for (const slot of [0, 1, 2]) await this.open(slot, "same", [0, 0]);
  }

  /** Opens a process; time passes before and after it reads the stored marks. */
  async open(slot: number, boot: Boot, [beforeMs, afterMs]: readonly [number, number]): Promise<void> {
    const beganAt = world.time;
    const base = {
      now: () => world.time + world.wallMs,
      monotonic: () => world.time - beganAt + 0.25,
      ...systemLoop,
      after: () => () => {},
    };
    const slow: Store = {
      ...store,
      async clockMarks() {
        world.time += beforeMs;
        const marks = (await store.clockMarks?.()) ?? [];
        world.time += afterMs;
        return marks;
      },
      async beat(beat) {
        const { toStore, toAnswer } = process.beat as Pending;
        await toStore.passed;
        const answer = await store.beat(beat);
        await toAnswer.passed;
        return answer;
      },
    };
    const name = `${boot} ${world.boots}`;
    const originMs = beganAt - this.#bootedAt + (boot === "same" ? 0 : 12_345);
    const line = await localClock(base, slow, boot === "none" ? null : { name, originMs }, () => {});
    const process: Process = new Process(line, boot !== "same");
    this.#processes.set(slot, process);
    this.#hasForeign ||= process.isForeign;
    if (this.#hasForeign) return;
    this.#expectAgreed(process, this.#aheadMs);
    expect(process.now(), "the line went back").toBeGreaterThanOrEqual(this.#reached - CLOCK_STEP_MS);
  }

  begin(slot: number): void {
    const process = this.#processes.get(slot);
    if (process === undefined || process.beat !== null) return;
    process.beat = { toStore: gate(), toAnswer: gate(), answered: Promise.resolve(), knownMs: 0 };
    process.beat.answered = process.line.beat(BEAT);
  }

  async store(slot: number): Promise<void> {
    const process = this.#processes.get(slot);
    if (process?.beat == null || process.beat.toStore.isOpen) return;
    process.beat.knownMs = this.#aheadMs;
    process.beat.toStore.open();
    for (let turns = 0; turns < 3; turns++) await nextTurn(systemLoop);
    const now = process.now();
    this.#reached = Math.max(this.#reached, now);
    if (!process.isForeign) this.#aheadMs = Math.max(this.#aheadMs, now - world.time);
  }

  async answer(slot: number): Promise<void> {
    const process = this.#processes.get(slot);
    if (process?.beat == null || !process.beat.toStore.isOpen) return;
    process.beat.toAnswer.open();
    await process.beat.answered;
    this.#expectAgreed(process, process.beat.knownMs);
    process.beat = null;
  }

  /** Lets each process complete a beat on time at the end, so that all agree. */
  async settle(): Promise<void> {
    for (const slot of this.#processes.keys()) {
      await this.store(slot);
      await this.answer(slot);
    }
    for (const slot of this.#processes.keys()) {
      this.begin(slot);
      await this.store(slot);
      await this.answer(slot);
    }
  }

  readAll(): void {
    for (const process of this.#processes.values()) process.now();
  }

  /** A mark of another boot cannot be advanced by the monotonic clock: a process that uses it is behind by its age. */
  #expectAgreed(process: Process, aheadMs: number): void {
    const now = process.now();
    if (this.#hasForeign) return;
    expect(now - world.time, "behind the line").toBeGreaterThanOrEqual(aheadMs - CLOCK_STEP_MS);
  }
}

const slot = fc.nat({ max: 2 });
const wait = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 30_000 }));
const sameBoot = fc.constant<Boot>("same");
const anyBoot = fc.constantFrom<Boot>("same", "other", "none");
type Step =
  | readonly ["pass" | "set" | "begin" | "store" | "answer", number]
  | readonly ["open", number, Boot, readonly [number, number]]
  | readonly ["reboot"];
const stepsOf = (boots: fc.Arbitrary<Boot>): fc.Arbitrary<Step[]> =>
  fc.array(
    fc.oneof(
      { weight: 4, arbitrary: fc.tuple(fc.constant("pass" as const), fc.integer({ min: 1, max: 3_000 })) },
      { weight: 6, arbitrary: fc.tuple(fc.constant("begin" as const), slot) },
      { weight: 6, arbitrary: fc.tuple(fc.constant("store" as const), slot) },
      { weight: 4, arbitrary: fc.tuple(fc.constant("answer" as const), slot) },
      { weight: 2, arbitrary: fc.tuple(fc.constant("open" as const), slot, boots, fc.tuple(wait, wait)) },
      { weight: 1, arbitrary: fc.tuple(fc.constant("set" as const), fc.integer({ min: -20, max: 20 })) },
      { weight: 1, arbitrary: fc.constant<Step>(["reboot"]) },
    ),
    { minLength: 20, maxLength: 60 },
  );

it.each([
  ["one boot", sameBoot],
  ["several boots", anyBoot],
])("beats that are stored and answered late move the line neither ahead nor back: %s", async (_, boots) => {
  const play = async (steps: readonly Step[]) => {
    world.time += DAY;
    setWall(world.mostMs + DAY);
    const machine = new Machine();
    await machine.reboot();
    for (const step of steps) {
      if (step[0] === "pass") world.time += step[1];
      // Multiples of the step, since smaller changes of the wall clock are not followed.
      else if (step[0] === "set") setWall(world.wallMs + 2 * CLOCK_STEP_MS * step[1]);
      else if (step[0] === "open") await machine.open(step[1], step[2], step[3]);
      else if (step[0] === "reboot") await machine.reboot();
      else await machine[step[0]](step[1]);
      machine.readAll();
    }
    await machine.settle();
    machine.readAll();
  };
  await fc.assert(fc.asyncProperty(stepsOf(boots), play), { numRuns: 40 });
});

it("a reading older than the stored mark counts no time twice, and does not delay the reaper", async () => {
  const clock = new VirtualClock();
  const fresh = await openStore({ url: ":memory:", clock, random: () => 0.5, newSecret: () => "x".repeat(40) });
  const beat = (at: number) => {
    const now = VIRTUAL_START + at;
    const mark = { wall: now, monotonic: at, boot: "one" };
    return fresh.beat({ ...BEAT, time: () => ({ now, mark }), maxGapMs: 3_000 });
  };
  for (const at of [0, 2_000, 4_000]) await beat(at);
  await beat(100);
  expect(await beat(5_000)).toMatchObject({ line: { at: VIRTUAL_START + 5_000, monotonic: 5_000 }, gapMs: null });
  expect((await fresh.events.page({ after: 0, limit: 9 })).events).toEqual([]);
  await fresh.close();
});

it("a late answer brings the line as it is at that time", async () => {
  const clock = new VirtualClock();
  const fresh = await openStore({ url: ":memory:", clock, random: () => 0.5, newSecret: () => "x".repeat(40) });
  let wallMs = 0;
  const base = { ...systemLoop, now: () => clock.now() + wallMs, monotonic: () => clock.now(), after: () => () => {} };
  const answer = gate();
  const slow: Store = {
    ...fresh,
    async beat(beat) {
      const found = await fresh.beat(beat);
      await answer.passed;
      return found;
    },
  };
  const boot = { name: "one", originMs: 0 };
  const first = await localClock(base, fresh, boot, () => {});
  const line = first.clock.now();
  wallMs = -DAY;
  const second = await localClock(base, slow, boot, () => {}); // before any beat was stored
  await first.beat(BEAT);
  const late = second.beat(BEAT);
  await nextTurn(systemLoop);
  clock.moveTo(clock.now() + 60_000);
  answer.open();
  await late;
  expect([first.clock.now(), second.clock.now()]).toEqual([line + 60_000, line + 60_000]);
  await fresh.close();
});
