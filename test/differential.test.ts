/** Random lists of commands give the same answers and leave the same rows on SQLite and PostgreSQL: each store is the
 *  reference for the other. A difference is reported with its seed and the shortest list that shows it.
 *  PERDURE_DIFFERENTIAL_RUNS=5000 is for a night, PERDURE_SEED=… runs a single list. */
import { afterAll, expect, test } from "vitest";
import { listOf, type Step } from "./differential/commands.ts";
import { Difference, Pair } from "./differential/pair.ts";
import { IS_FULL, seedsFor } from "./tier.ts";

const RUNS = Number(process.env.PERDURE_DIFFERENTIAL_RUNS ?? (IS_FULL ? 100 : 10));
const SEEDS = seedsFor("lists of commands", RUNS);
/** Pairs of stores tested concurrently. */
const SIDE_BY_SIDE = 4;
/** Lists after which a pair is replaced, so that leftovers of lists do not slow down the next ones. */
const RENEW_AFTER = 500;
const MAX_SHRINKS = 400;

const open = new Set<Pair>();
afterAll(async () => {
  for (const pair of open) await pair.close();
});

async function openPair(): Promise<Pair> {
  const pair = await Pair.open();
  open.add(pair);
  return pair;
}

async function closePair(pair: Pair): Promise<void> {
  open.delete(pair);
  await pair.close();
}

async function differenceOf(pair: Pair, steps: readonly Step[]): Promise<Difference | null> {
  try {
    await pair.run(steps);
    return null;
  } catch (error) {
    if (error instanceof Difference) return error;
    throw error;
  }
}

/** Removes parts of the list, smaller and smaller, while the difference remains. */
async function shrink(list: readonly Step[]): Promise<{ steps: readonly Step[]; found: Difference | null }> {
  const pair = await openPair();
  let steps = list;
  let found = await differenceOf(pair, steps);
  let tries = 0;
  for (let size = steps.length >> 1; found !== null && size >= 1; size >>= 1) {
    for (let at = 0; at < steps.length && tries < MAX_SHRINKS; tries++) {
      const shorter = [...steps.slice(0, at), ...steps.slice(at + size)];
      const still = await differenceOf(pair, shorter);
      if (still === null) at += size;
      else [steps, found] = [shorter, still];
    }
  }
  await closePair(pair);
  return { steps, found };
}

async function told(seed: number, first: Difference): Promise<string> {
  const { steps, found } = await shrink(listOf(seed));
  const how =
    found === null ? "not reproduced by a part of the list; the whole list has" : `${steps.length} commands are enough`;
  const { message, calls } = found ?? first;
  return [`seed ${seed}: ${message}`, `${how}:`, ...calls].join("\n");
}

test(`${SEEDS.length} lists of commands have the same effect on both stores`, {
  timeout: 60_000 + RUNS * 500,
}, async () => {
  const left = SEEDS.values();
  let calls = 0;
  let problem: string | null = null;
  const work = async () => {
    let pair = await openPair();
    let lists = 0;
    for (const seed of left) {
      if (problem !== null) break;
      if (lists > 0 && lists % RENEW_AFTER === 0) {
        await closePair(pair);
        pair = await openPair();
      }
      lists += 1;
      try {
        const made = await pair.run(listOf(seed));
        calls += made;
      } catch (error) {
        if (!(error instanceof Difference)) throw new Error(`seed ${seed}`, { cause: error });
        problem ??= await told(seed, error);
      }
    }
  };
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, work));
  if (problem !== null) throw new Error(problem);
  expect(calls).toBeGreaterThan(SEEDS.length * 30);
});
