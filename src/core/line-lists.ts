/** The lists of phrases that rules of presets name. The policy of a job has the name alone, and is stored: a list that was released
 *  never changes, and a changed one gets a new name beside it. A name that this version does not know matches nothing. */
import { AUTHENTICATION_FAILED } from "./authentication-failed.ts";
import { type PhraseIndex, phraseIndex } from "./line-phrases.ts";
import type { Policy } from "./policy.ts";

const LISTS: ReadonlyMap<string, PhraseIndex> = new Map([
  ["authentication-failed-1", phraseIndex(AUTHENTICATION_FAILED)],
]);

export function lineList(name: string): PhraseIndex | null {
  return LISTS.get(name) ?? null;
}

/** In words, the lists of a policy that a newer version has written; null where all are known. */
export function unknownLists({ rules, fallback }: Policy): string | null {
  const names = [...rules, ...fallback].flatMap(({ if: { lines } }) => (lines === undefined ? [] : [lines]));
  const unknown = names.filter((name) => lineList(name) === null);
  if (unknown.length === 0) return null;
  return `this version does not know ${unknown.map((name) => `lines ${JSON.stringify(name).slice(0, 100)}`).join(", ")}`;
}
