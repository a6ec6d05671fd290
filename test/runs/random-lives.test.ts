/** Random playbooks on engines that die at random, with cancels of runs and of single steps, and redrives: every run ends, and every
 *  invariant holds over the whole store. In virtual time; PERDURE_SEED=… repeats one round. */
import { describe, expect, it } from "vitest";
import { task } from "../../src/index.ts";
import { STORES, TEST_MS } from "../crash/kit.ts";
import type { StoreKind } from "../crash/stores.ts";
import { Dice } from "../dice.ts";
import { rounds, seedsFor } from "../tier.ts";
import { auditRuns, shapeOf } from "./audit.ts";
import { type Life, openLife } from "./lives.ts";
import { playbook, work } from "./points.ts";

const ROUNDS = 300;

describe.each(STORES)("on $name", (store) => {
  it(
    "every run ends, and what must hold holds",
    async () => {
      const seen = { died: 0, redrive: 0, "cancel of": 0, cancelled: 0, handled: 0, failed: 0, succeeded: 0 };
      for (const seed of seedsFor("random lives", Math.ceil(rounds(ROUNDS) * store.share))) {
        const told: string[] = [];
        try {
          await round(store, new Dice(seed), told);
        } catch (error) {
          throw new Error(`PERDURE_SEED=${seed}: ${(error as Error).message}\n${told.join("\n")}`, { cause: error });
        }
        for (const [word, times] of Object.entries(seen)) {
          seen[word as keyof typeof seen] = times + told.slice(1).filter((line) => line.includes(` ${word}`)).length;
        }
      }
      console.log(`random lives: ${JSON.stringify(seen)}`);
    },
    TEST_MS * 4,
  );
});

interface Scene {
  readonly dice: Dice;
  readonly told: string[];
  /** Steps that fail do so until it is false. */
  isBroken: boolean;
  redrives: number;
  cancels: number;
}

async function round(store: StoreKind, dice: Dice, told: string[]): Promise<void> {
  const { url } = store.newPlace();
  const given = randomPlaybook(dice);
  told.push(given.source);
  const scene: Scene = { dice, told, isBroken: true, redrives: 0, cancels: dice.chance(0.3) ? 1 : 0 };
  let startAt: number | undefined;
  for (let deaths = between(dice, 0, 4); ; deaths--) {
    const diesAfter = deaths > 0 ? between(dice, 1, 25) : 0;
    const life = await openLife({ url, diesAfter, ...(startAt === undefined ? {} : { startAt }) });
    const run = await live(life, given, scene);
    startAt = life.clock.now();
    if (run !== null) {
      told.push(...(await shapeOf(life.store, run)));
      await auditRuns(life.store);
    }
    await life.end();
    if (run !== null) return;
    told.push(`-- died after write ${life.writes}`);
  }
}

/** Its id once it has ended and is not redriven any more. */
async function live(life: Life, given: { source: string; files: Record<string, string> }, scene: Scene) {
  const { dice, told } = scene;
  let id: string | null = null;
  const own = task("work", async ({ fail, ms = 0 }: { fail?: boolean; ms?: number }, { signal }) => {
    if (ms > 0) await sleep(life, ms, signal);
    if (fail && scene.isBroken) throw new Error("broken");
    return { done: true };
  });
  void life.perdure.work([own], { concurrency: between(dice, 1, 5) }).catch(() => {});
  void life.perdure.run(given, {}, { key: "one" }).then((run) => {
    id = run.id;
  });
  let moves = 0;
  await life.until(async () => {
    if (id === null) return false;
    const [job] = await life.store.facts([id]);
    if (job == null) return false;
    if (job.state === "blocked") {
      if (scene.cancels > 0 && ++moves > 3 && dice.chance(0.2)) {
        scene.cancels -= 1;
        told.push("-- cancel");
        void life.perdure.runHandle(id).then((run) => run.cancel());
      } else if (dice.chance(0.02)) {
        const { jobs } = await life.store.find({
          order: "oldest",
          steps: true,
          state: ["running", "queued"],
          limit: 5,
        });
        const victim = jobs.at(-1)?.id;
        if (victim === undefined) return false;
        told.push(`-- cancel of the step ${victim}`);
        void life.perdure.cancel(victim).catch(() => {});
      }
      return false;
    }
    if (job.state === "succeeded" || scene.redrives >= 2) return true;
    // A redrive that was asked for may not have been stored.
    if (job.chapter > scene.redrives) {
      scene.redrives += 1;
      scene.isBroken = dice.chance(0.3);
    }
    told.push(`-- redrive ${scene.redrives} of a run that was ${job.state}`);
    void life.perdure.redriveRun(id).catch(() => {});
    return false;
  });
  return life.isDead ? null : id;
}

const between = (dice: Dice, from: number, to: number) => from + dice.below(to - from + 1);

function sleep(life: Life, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = life.clock.after(ms, resolve);
    signal.addEventListener("abort", () => {
      stop();
      reject(signal.reason as Error);
    });
  });
}

const CONDITIONS = [
  "{{ 1 == 1 }}",
  "{{ 1 == 2 }}",
  "{{ result.done }}",
  "{{ error != None }}",
  "{{ error != None }}",
] as const;

function randomPlaybook(dice: Dice) {
  const count = between(dice, 2, 8);
  const later = (i: number) => Array.from({ length: count - i - 1 }, (_, k) => `s${i + k + 1}`);
  const steps = Array.from({ length: count }, (_, i) => {
    const targets = later(i)
      .filter(() => dice.chance(0.4))
      .slice(0, 3);
    const next = targets.map((step) => (dice.chance(0.5) ? { step } : { step, when: dice.pick(CONDITIONS) }));
    const name = `s${i}`;
    // Three visits in a row.
    const again = dice.chance(0.15) ? [{ step: name, when: `{{ ${name}.visits < 3 }}` }] : [];
    const mode = again.length > 0 ? "first" : dice.pick(["match", "first", "all"]);
    const arcs = [...again, ...next];
    const more = {
      ...(arcs.length > 0 ? { next: { spec: { mode }, arcs } } : {}),
      ...(dice.chance(0.15) ? { join: "any" } : {}),
      ...(dice.chance(0.1) ? { when: "{{ 1 == 2 }}" } : {}),
    };
    const data = { fail: dice.chance(0.2), ms: dice.pick([0, 0, 100, 3_000]) };
    const kind = between(dice, 0, 9);
    if (kind === 0 && again.length === 0) return { step: name, ...more };
    if (kind === 1) return { step: name, type: "wait", for: dice.pick(["1s", "20s"]), ...more };
    if (kind === 2) return { step: name, type: "playbook", path: "./below.yaml", ...more };
    if (kind > 4) return work(name, data, more);
    const loop = {
      ...{
        in: Array.from({ length: between(dice, 0, 5) }, (_, n) => n),
        iterator: "n",
        concurrency: between(dice, 1, 3),
      },
      ...(dice.chance(0.5) ? { onItemFailure: "continue", maxFailures: between(dice, 0, 2) } : {}),
    };
    return work(name, { ...data, fail: dice.chance(0.4) ? "{{ n == 1 }}" : false }, { ...more, loop });
  });
  const settings = {
    ...{ failureMode: dice.pick(["drain", "cancel", "continue"]), parallel: dice.pick([1, 3, 100]) },
    onFailure: "notify",
    finally: "tidy",
    ...(dice.chance(0.15) ? { timeout: "10s" } : {}),
    defaults: { retry: { maxAttempts: between(dice, 1, 2), backoff: { type: "fixed", delay: "1s" } } },
  };
  const below = playbook(
    [work("one", { ms: 100 }, { next: "two" }), work("two", { fail: dice.chance(0.3) }), work("clean")],
    {
      finally: "clean",
    },
  );
  const main = playbook([...steps, work("notify"), work("tidy")], settings);
  return { source: JSON.stringify(main), files: { "below.yaml": JSON.stringify(below) } };
}

it("draws the same for the same seed", () => {
  expect(randomPlaybook(new Dice(7))).toEqual(randomPlaybook(new Dice(7)));
});
