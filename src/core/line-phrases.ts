/** Phrases in lines of text: words one after the other, whatever stands between them and in whichever case. "status code 401"
 *  is in `{"statusCode": 401}` and in "Status code: 401", but not in "status code 4011" and not in "401 status". No regular
 *  expressions of strangers: the time grows with the length of the text alone. */
import { isQuotation, isReport, isUnsaid } from "./line-quotations.ts";
import { type FoundPart, lineAround, type Span } from "./message-parts.ts";

/** Phrases are words in lower case with a space between. */
export interface LinePhrases {
  readonly has: readonly string[];
  /** Of `has`, but only where the clause ends behind them: `Error: 401`, and not `Error: 401 files left`. */
  readonly hasLast: readonly string[];
  readonly unless: readonly string[];
  /** A phrase that overlaps one of these is about something else: `x-ratelimit-limit` is the name of a header. */
  readonly ignored: readonly string[];
}

type Meaning = "has" | "hasLast" | "unless" | "ignored";

interface Entry {
  readonly phrase: string;
  readonly words: readonly string[];
  readonly meaning: Meaning;
}

interface Place extends Span {
  readonly entry: Entry;
}

interface Word extends Span {
  readonly text: string;
}

/** The phrases by their first words. */
export type PhraseIndex = ReadonlyMap<string, readonly Entry[]>;

export function phraseIndex(phrases: LinePhrases): PhraseIndex {
  const index = new Map<string, Entry[]>();
  for (const meaning of ["has", "hasLast", "unless", "ignored"] as const) {
    for (const phrase of phrases[meaning]) {
      const words = phrase.split(" ");
      const [first = ""] = words;
      const entries = index.get(first) ?? [];
      if (entries.length === 0) index.set(first, entries);
      entries.push({ phrase, words, meaning });
    }
  }
  return index;
}

/** The phrase that decides, with its line: lines are in the order in which they were written and are read from the last one
 *  up. The first line with a phrase of either list decides, and `unless` wins. */
export function findInLines(lines: readonly string[], index: PhraseIndex): FoundPart | null {
  for (const line of lines.toReversed()) {
    const found = placesIn(line, index);
    if (found.length === 0 || isReport(line)) continue;
    if (found.some(({ entry }) => entry.meaning === "unless")) return null;
    const [first] = found;
    if (first !== undefined) return { part: first.entry.phrase, line: lineAround(line, first) };
  }
  return null;
}

const NONE: readonly Place[] = [];

/** The phrases that count, in the order of the line. */
function placesIn(line: string, index: PhraseIndex): readonly Place[] {
  const words = wordsOf(line);
  if (words.length === 0) return NONE;
  const all: Place[] = [];
  for (const [at, { text }] of words.entries()) {
    for (const entry of index.get(text) ?? []) {
      const last = words[at + entry.words.length - 1];
      if (last === undefined || entry.words.some((word, step) => words[at + step]?.text !== word)) continue;
      all.push({ entry, from: (words[at] as Word).from, to: last.to });
    }
  }
  const ignored = new Cover(all.filter(({ entry }) => entry.meaning === "ignored"));
  const wanted = all.filter((place) => place.entry.meaning !== "ignored" && !ignored.touches(place));
  const has = wanted.filter((place) => place.entry.meaning !== "unless" && isMeant(line, place));
  const longer = new Cover(has);
  // `fetch failed: 401` is no `fetch failed`.
  const unless = wanted.filter((place) => place.entry.meaning === "unless" && !longer.holds(place));
  return [...has, ...unless];
}

function isMeant(line: string, place: Place): boolean {
  if (place.entry.meaning === "hasLast" && !/^['"`]?\s*(?:$|[^\s\w])/.test(line.slice(place.to, place.to + 200))) {
    return false;
  }
  return !isQuotation(line, place) && !isUnsaid(line, place);
}

/** Spans in the order in which they begin; each asks about spans in that order too. */
class Cover {
  readonly #spans: readonly Span[];
  #first = 0;

  constructor(spans: readonly Span[]) {
    this.#spans = spans;
  }

  touches(span: Span): boolean {
    return this.#near(span).some(({ from, to }) => from < span.to && span.from < to);
  }

  /** One of them is longer and has all of `span`. */
  holds(span: Span): boolean {
    return this.#near(span).some(
      ({ from, to }) => from <= span.from && span.to <= to && to - from > span.to - span.from,
    );
  }

  /** Phrases have a few words: those that end before it begins are passed for good, but for a few that are long. */
  #near({ from, to }: Span): Span[] {
    while (this.#first < this.#spans.length && (this.#spans[this.#first] as Span).to <= from) this.#first += 1;
    let end = this.#first;
    while (end < this.#spans.length && (this.#spans[end] as Span).from < to) end += 1;
    return this.#spans.slice(this.#first, end);
  }
}

const ESCAPE = String.fromCharCode(27);
/** A colour of a terminal, or a word: `AuthenticationError` is two, `HTTPError` one. */
const PIECES = new RegExp(`${ESCAPE}\\[[\\d;]*[A-Za-z]|[A-Z]+[a-z\\d]*|[a-z\\d]+`, "g");

function wordsOf(line: string): Word[] {
  const words: Word[] = [];
  for (const { 0: text, index } of line.matchAll(PIECES)) {
    if (text.startsWith(ESCAPE)) continue;
    words.push({ text: text.toLowerCase(), from: index, to: index + text.length });
  }
  return words;
}
