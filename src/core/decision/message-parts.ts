/** Finds the parts of messages that lists and rules name: plain text in lower case. ` ... ` matches words in between, so that
 *  "heartbeat ... stale" matches "Heartbeat of worker w-3 went stale". No regular expressions, so the time is linear in the text
 *  and the part. */

/** The separator of two texts of a part. */
export const GAP = " ... ";
/** The length of a gap in characters. It does not cross the end of a line or a sentence. */
const MAX_GAP = 80;
const BREAK = /[\n\r]|[.;!?](?=\s)/g;

/** The part of a policy that matched, and the line that contains it; null where it is not text.
 *  @example
 *  const { part, line }: FoundPart = { part: "heartbeat ... stale", line: "Worker heartbeat is stale" }; */
export interface FoundPart {
  readonly part: string;
  readonly line: string | null;
}

/** The first of `parts` that `text` contains, with its line; null if none. */
export function findPart(text: string, parts: readonly string[]): FoundPart | null {
  return findBy(spanOf, text, parts);
}

/** The first of `words` that `text` contains as a whole word: "worker_oom" is in "worker_oom: 3 GB", but not in
 *  "coworker_oomph". Words are letters, digits and `_`. */
export function findWord(text: string, words: readonly string[]): FoundPart | null {
  return findBy(wordSpanOf, text, words);
}

function findBy(spanIn: typeof spanOf, text: string, parts: readonly string[]): FoundPart | null {
  if (parts.length === 0) return null;
  const lower = text.toLowerCase();
  for (const part of parts) {
    const span = spanIn(lower, part);
    if (span === null) continue;
    // A few letters are longer in lower case; then positions differ between the two texts.
    return { part, line: lineAround(lower.length === text.length ? text : lower, span) };
  }
  return null;
}

const MAX_LINE = 200;
/** The length before the found text in a cut line. */
const MAX_BEFORE = 60;

/** The line for a stored decision: trimmed, and cut around the found text if it is long. */
export function lineAround(text: string, { from, to }: Span): string {
  const start = text.lastIndexOf("\n", from - 1) + 1;
  const next = text.indexOf("\n", to);
  const line = text.slice(start, next < 0 ? text.length : next);
  if (line.trim().length <= MAX_LINE) return line.trim();
  const first = wholeAt(text, Math.max(start, from - MAX_BEFORE));
  const last = wholeAt(text, Math.min(start + line.length, first + MAX_LINE));
  const cut = text.slice(first, last).trim().toWellFormed();
  return `${first > start ? "…" : ""}${cut}${last < start + line.length ? "…" : ""}`;
}

/** Moves a position out of a surrogate pair. */
function wholeAt(text: string, at: number): number {
  return (text.codePointAt(at - 1) ?? 0) > 0xffff ? at + 1 : at;
}

/** A range of characters; `to` is exclusive. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

const ENDS_IN_WORD = /[\p{L}\p{N}_]$/u;
const BEGINS_IN_WORD = /^[\p{L}\p{N}_]/u;

function wordSpanOf(text: string, word: string): Span | null {
  for (const from of occurrences(text, word)) {
    const to = from + word.length;
    // A letter has up to two UTF-16 units.
    const isPart =
      ENDS_IN_WORD.test(text.slice(Math.max(0, from - 2), from)) || BEGINS_IN_WORD.test(text.slice(to, to + 2));
    if (!isPart) return { from, to };
  }
  return null;
}

function spanOf(text: string, part: string): Span | null {
  const at = text.indexOf(part);
  if (at >= 0) return { from: at, to: at + part.length };
  if (!part.includes(GAP)) return null;
  const pieces = part.split(GAP).map((piece) => piece.trim());
  const [first = "", ...others] = pieces.filter((piece) => piece !== "");
  if (first === "") return null; // Nothing but gaps.
  let spans = occurrences(text, first).map((from) => ({ from, to: from + first.length }));
  if (spans.length === 0 || others.length === 0) return spans[0] ?? null;
  const breaks = [...text.matchAll(BREAK)].map(({ index }) => index);
  for (const piece of others) {
    spans = extended(spans, occurrences(text, piece), piece.length, breaks);
    if (spans.length === 0) return null;
  }
  return spans[0] ?? null;
}

/** The positions of `piece` in `text`. */
function occurrences(text: string, piece: string): number[] {
  const found: number[] = [];
  for (let at = text.indexOf(piece); at >= 0; at = text.indexOf(piece, at + 1)) found.push(at);
  return found;
}

/** Extends the spans to the next piece where that follows within a gap. Only the nearest span before a piece is compared. All three
 *  lists are sorted and read once. */
function extended(spans: readonly Span[], starts: readonly number[], length: number, breaks: readonly number[]) {
  const longer: Span[] = [];
  let [near, stop] = [-1, 0];
  for (const start of starts) {
    while (near + 1 < spans.length && (spans[near + 1] as Span).to < start) near += 1;
    while (stop < breaks.length && (breaks[stop] as number) < start) stop += 1;
    const span = spans[near];
    if (span === undefined) continue;
    if (start - span.to <= MAX_GAP && (breaks[stop - 1] ?? -1) < span.to) {
      longer.push({ from: span.from, to: start + length });
    }
  }
  return longer;
}
