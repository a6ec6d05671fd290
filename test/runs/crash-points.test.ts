/** Every crash point of a run: the engine dies after each of its writes in turn, and what follows is the same as if it had not. The
 *  same for a redrive, and for a cancel. */
import { describe, expect, it } from "vitest";
import { type AnyTask, task } from "../../src/index.ts";
import { Dice, STORES, TEST_MS } from "../crash/kit.ts";
import type { StoreKind } from "../crash/stores.ts";
import { IS_FULL } from "../tier.ts";
import { auditRuns, auditStore, shapeOf } from "./audit.ts";
import { type Life, openLife } from "./lives.ts";
import { BROKEN, HELD, POINTS, worker } from "./points.ts";

interface Story {
  readonly name: string;
  readonly playbook: { readonly source: string; readonly files: Readonly<Record<string, string>> };
  /** How it ends, and its result. */
  readonly end: readonly [state: string, result: string | null];
  /** What all lives of one story share. */
  begin(): {
    readonly task: AnyTask;
    /** Called again in each life; true when the story is over. */
    goOn(life: Life, run: string): Promise<boolean>;
  };
}

const SAMPLE = 6;

const STORIES: readonly Story[] = [
  {
    ...{ name: "a run", playbook: POINTS.playbook, end: ["succeeded", JSON.stringify(POINTS.result)] },
    begin: () => ({ task: worker(), goOn: async (life, run) => hasEnded((await jobOf(life, run)).state) }),
  },
  {
    ...{ name: "a run that is redriven", playbook: BROKEN, end: ["succeeded", "15"] },
    begin() {
      let isBroken = true;
      return {
        task: task("work", ({ value, when }: { value?: unknown; when?: string }) => {
          if (when === "broken" && isBroken) throw new Error("broken");
          return value ?? null;
        }),
        async goOn(life, run) {
          const { state, chapter } = await jobOf(life, run);
          if (!hasEnded(state)) return false;
          if (chapter > 1) return true;
          isBroken = false;
          void life.perdure.redriveRun(run);
          return false;
        },
      };
    },
  },
  {
    ...{ name: "a run that is cancelled", playbook: HELD, end: ["cancelled", null] },
    begin: () => ({
      task: task("work", async ({ value, when }: { value?: unknown; when?: string }, { signal }) => {
        if (when !== "held") return value ?? null;
        return new Promise((_, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason as Error));
        });
      }),
      async goOn(life, run) {
        const { state, cancelRequestedAt } = await jobOf(life, run);
        if (hasEnded(state)) return true;
        const { jobs } = await life.store.find({ order: "oldest", steps: true, state: ["running"], limit: 100 });
        if (cancelRequestedAt === null && jobs.length === HELD_JOBS) {
          void life.perdure.runHandle(run).then((handle) => handle.cancel());
        }
        return false;
      },
    }),
  },
];

/** hold, two items of each, and the step of the run below. */
const HELD_JOBS = 4;

const hasEnded = (state: string) => state !== "blocked";

async function jobOf({ store }: Life, run: string) {
  const [job] = await store.facts([run]);
  if (job == null) throw new Error("the run does not exist");
  return job;
}

describe.each(STORES)("on $name", (store) => {
  it.each(STORIES)(
    "$name ends the same, whichever write was the last of its engine",
    async (story) => {
      const { shape, writes } = await live(store, story, []);
      const points = Array.from({ length: writes }, (_, i) => i + 1);
      const chosen = IS_FULL ? points : points.filter((k) => k % Math.ceil(writes / SAMPLE) === 1);
      console.log(`crash points of ${story.name} on ${store.name}: ${chosen.length} of ${writes}`);
      for (const k of chosen) {
        const one = await live(store, story, [k]);
        expect([k, one.lives, one.shape]).toEqual([k, 2, shape]);
      }
    },
    TEST_MS * (IS_FULL ? 6 : 1),
  );

  it.runIf(IS_FULL).each(STORIES)(
    "$name ends the same if the next engines die, too",
    async (story) => {
      const dice = new Dice("crash points");
      const { shape } = await live(store, story, []);
      for (let round = 0; round < Math.ceil(30 * store.share); round++) {
        const deaths = Array.from({ length: dice.between(2, 4) }, () => dice.between(1, 12));
        const one = await live(store, story, deaths);
        expect([deaths, one.shape]).toEqual([deaths, shape]);
      }
    },
    TEST_MS,
  );
});

/** Until the story is over; `deaths`: the last write of each life but the last. */
async function live(store: StoreKind, story: Story, deaths: readonly number[]) {
  const { url } = store.newPlace();
  const { task: own, goOn } = story.begin();
  let startAt: number | undefined;
  let writes = 0;
  for (let lives = 1; ; lives++) {
    const life = await openLife({
      ...{ url, diesAfter: deaths[lives - 1] ?? 0 },
      ...(startAt === undefined ? {} : { startAt }),
    });
    const run = await end(life, story, own, goOn);
    writes = Math.max(writes, life.writes);
    startAt = life.clock.now();
    if (run === null) {
      await life.end();
      continue;
    }
    const row = await life.store.runs.row(run);
    const { state } = await jobOf(life, run);
    expect([state, row?.result], row?.failure?.message).toEqual(story.end);
    const shape = await shapeOf(life.store, run);
    await (story.playbook === HELD ? auditRuns : auditStore)(life.store);
    await life.end();
    return { shape, writes, lives };
  }
}

/** Its id when its story is over; null if the engine died before. */
async function end(life: Life, { playbook }: Story, own: AnyTask, goOn: (life: Life, run: string) => Promise<boolean>) {
  let id: string | null = null;
  void life.perdure.work([own], { concurrency: IS_FULL && playbook !== HELD ? 1 : 6 }).catch(() => {});
  void life.perdure.run(playbook, {}, POINTS.options).then((run) => {
    id = run.id;
  });
  await life.until(async () => id !== null && (await goOn(life, id)));
  return life.isDead ? null : id;
}
