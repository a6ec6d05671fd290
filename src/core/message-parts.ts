/** Parts of messages, as lists and rules name them: plain text in lower case. ` ... ` between two texts stands for words in
 *  between, so that "heartbeat ... stale" matches "Heartbeat of worker w-3 went stale". No regular expressions: the time grows
 *  with the length of the text and of the part, whatever they hold. */

/** Between two texts of a part. */
export const GAP = " ... ";
/** As many characters a gap may hold. It ends with the line and with the sentence: what follows is about something else. */
const MAX_GAP = 80;
const BREAK = /[\n\r]|[.;!?](?=\s)/g;

/** The first of `parts` that is in `text`, which is in lower case; null if none is. */
export function partIn(text: string, parts: readonly string[]): string | null {
  return parts.find((part) => hasPart(text, part)) ?? null;
}

function hasPart(text: string, part: string): boolean {
  if (text.includes(part)) return true;
  if (!part.includes(GAP)) return false;
  const pieces = part.split(GAP).map((piece) => piece.trim());
  const [first = "", ...others] = pieces.filter((piece) => piece !== "");
  if (first === "") return false; // Nothing but gaps.
  let ends = occurrences(text, first).map((at) => at + first.length);
  if (ends.length === 0 || others.length === 0) return ends.length > 0;
  const breaks = [...text.matchAll(BREAK)].map(({ index }) => index);
  for (const piece of others) {
    const starts = occurrences(text, piece);
    ends = reached(starts, ends, breaks).map((start) => start + piece.length);
    if (ends.length === 0) return false;
  }
  return true;
}

/** Where `piece` begins in `text`, in order. */
function occurrences(text: string, piece: string): number[] {
  const found: number[] = [];
  for (let at = text.indexOf(piece); at >= 0; at = text.indexOf(piece, at + 1)) found.push(at);
  return found;
}

/** Those of `starts` that lie behind one of `ends` with no more than a gap between. The nearest end alone is compared: what is
 *  too far from it is too far from all others. All three lists are in order, and gone through once. */
function reached(starts: readonly number[], ends: readonly number[], breaks: readonly number[]): number[] {
  let [end, stop] = [-1, 0];
  return starts.filter((start) => {
    while (end + 1 < ends.length && (ends[end + 1] as number) < start) end += 1;
    while (stop < breaks.length && (breaks[stop] as number) < start) stop += 1;
    if (end < 0) return false;
    const from = ends[end] as number;
    return start - from <= MAX_GAP && (breaks[stop - 1] ?? -1) < from;
  });
}
