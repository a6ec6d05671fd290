/** Which tier of tests this is. Whole files of the second tier are named `*.full.test.ts`; this is for what a file of the first
 *  tier does more of in the second: both stores instead of one, all pages instead of one, more random work. */
export const IS_FULL = process.env.PERDURE_FULL === "1" || process.env.PERDURE_SOAK === "1";

/** All of them in the second tier, only the first in the first. */
export function inFull<T>(all: readonly [T, ...T[]]): readonly T[] {
  return IS_FULL ? all : all.slice(0, 1);
}

/** How often random work is repeated: a tenth in the first tier, where every run has other seeds, but not less than 20 times. */
export function rounds(inFull: number): number {
  return IS_FULL ? inFull : Math.min(inFull, Math.max(20, inFull / 10));
}

/** Seeds for random work. Each run has other ones, and prints the first; PERDURE_SEED=… runs one alone. */
export function seedsFor(what: string, count: number): readonly number[] {
  const named = process.env.PERDURE_SEED;
  if (named) return [Number(named)];
  const first = 1 + Math.floor(Math.random() * 2 ** 31);
  console.log(`${what}: ${count} from PERDURE_SEED=${first} on`);
  return Array.from({ length: count }, (_, i) => first + i);
}
