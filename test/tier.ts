/** Which tier of tests runs. Files of the second tier (`npm run test:full`) are named `*.full.test.ts`; this is for
 *  files of the first tier (`npm test`) that do more in the second: both stores instead of one, all pages instead of
 *  one, more random work. */
export const IS_FULL = process.env.PERDURE_FULL === "1" || process.env.PERDURE_SOAK === "1";

/** All of them in the second tier, only the first in the first. */
export function inFull<T>(all: readonly [T, ...T[]]): readonly T[] {
  return IS_FULL ? all : all.slice(0, 1);
}

/** How often random work is repeated: a tenth in the first tier, but at least 20 times. */
export function rounds(inFull: number): number {
  return IS_FULL ? inFull : Math.min(inFull, Math.max(20, inFull / 10));
}

/** The seed of random work. It is fixed in the first tier, so that `npm test` fails only because of a change. Each run
 *  of the second uses a new one, and prints it; PERDURE_SEED=… repeats a run. */
export const SEED = seed();

function seed(): number {
  const named = process.env.PERDURE_SEED;
  if (named) return Number(named);
  return IS_FULL ? 1 + Math.floor(Math.random() * 2 ** 31) : 1;
}

/** The seeds of repeated random work, one per round; only the one in PERDURE_SEED, if it is set. */
export function seedsFor(what: string, count: number): readonly number[] {
  if (process.env.PERDURE_SEED) return [SEED];
  console.log(`${what}: ${count} from PERDURE_SEED=${SEED} on`);
  return Array.from({ length: count }, (_, i) => SEED + i);
}
