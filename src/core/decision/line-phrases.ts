/** Finds phrases in lines of output, word by word, and ignores quotations, test reports and denials. */
import { type FoundPart, lineAround, type Span } from "./message-parts.ts";

// A line may contain a phrase without reporting it: in paths, names of files, tests and properties, in expectations, and in
// the access log of a server. Each check reads at most a few hundred characters around the phrase.

const REQUEST = /"(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) [^"]* HTTP\/\d/;
/** The message of a command starts with its exit code. */
const TEST_REPORT = /^(?:exit code \d+: )?\s*(?:[✓✔]|(?:FAIL|FAILED|PASS|PASSED)\s+[^\s/.]*[/.]\S)/;
const ASSERTION = /\bassert/i;

/** A line of an access log, a test runner or an assertion. */
function isReport(line: string): boolean {
  return REQUEST.test(line) || TEST_REPORT.test(line) || ASSERTION.test(line);
}

const MAX_PIECE = 300;
/** Characters around a name. */
const BETWEEN = /[\s'"`,()[\]{};=<>]/;
const FILE =
  /\.(?:[cm]?[jt]sx?|json|py|go|rs|java|kt|rb|php|cc?|cpp|h|cs|html?|css|md|txt|ya?ml|toml|log|sh|sql|xml|csv)\b/i;
const NAMES =
  /\b(?:reading|setting|named?|property|module|attribute|variable|function|method|import|export|key|field|column|identifier|KeyError:) $/i;

/** The phrase is part of a path or an identifier, or is a quoted name. */
function isQuotation(line: string, { from, to }: Span): boolean {
  const [start, end] = around(line, { from, to }, (char) => BETWEEN.test(char));
  if (start <= from && to <= end && isPath(line.slice(start, end))) return true;
  const [first, last] = around(line, { from, to }, (char) => !/\w/.test(char));
  const isInside = (first < from || to < last) && /^\w+$/.test(line.slice(from, to));
  // Constants are error codes, such as ERR_JWT_EXPIRED; other identifiers are names of tests and variables.
  if (isInside && /_/.test(line.slice(first, last)) && /[a-z]/.test(line.slice(first, last))) return true;
  const [before, after] = [line[first - 1] ?? "", line[last] ?? ""];
  return /^['"`]$/.test(before) && before === after && NAMES.test(line.slice(Math.max(0, first - 20), first - 1));
}

function isPath(piece: string): boolean {
  return /^(?:[A-Za-z]:\\|\.{0,2}\/|~\/)/.test(piece) || piece.split("/").length > 2 || FILE.test(piece);
}

/** The name around the span, up to the characters that end a name. For a phrase that contains one, an empty range. */
function around(line: string, { from, to }: Span, ends: (char: string) => boolean): [number, number] {
  for (let at = from; at < to; at++) if (ends(line[at] as string)) return [to, from];
  let [start, end] = [from, to];
  while (start > 0 && from - start < MAX_PIECE && !ends(line[start - 1] as string)) start -= 1;
  while (end < line.length && end - to < MAX_PIECE && !ends(line[end] as string)) end += 1;
  return [start, end];
}

const MAX_CLAUSE = 80;
const EXPECTED = /\b(?:expect(?:s|ed)?|wants?|wanted|should)\b[^,;:]*$/i;
const BUT = /\b(?:but|got|received|was|instead)\b/i;
const NEGATED = /(?:^|[^\w.,])(?:0|no|zero|without)\s+$/i;

const EMPTY_VALUE = /^['"`]?(?: \w+)?\s*[:=]\s*(?:0|false|none|null)\b(?![.\d])/i;
const NOT_DEFINED = /^['"`]?:? (?:is not defined|was not found|no such file)\b/i;

/** The phrase is expected, compared with or negated: "expected 401", "== 401", "0 authentication failures", "unauthorized: false". */
function isNegated(line: string, { from, to }: Span): boolean {
  if (/[=!]=/.test(line.slice(from, to))) return true;
  const clause = line.slice(Math.max(0, from - MAX_CLAUSE), from);
  if (NEGATED.test(clause)) return true;
  const rest = line.slice(to, to + MAX_CLAUSE);
  if (EMPTY_VALUE.test(rest) || NOT_DEFINED.test(rest)) return true;
  const expected = EXPECTED.exec(clause);
  return expected !== null && !BUT.test(expected[0]);
}

/** Phrases are words in lower case with a space between. They match in any case and with any characters between the words: "status
 *  code 401" matches `{"statusCode": 401}` and "Status code: 401", but not "status code 4011" or "401 status". The time is linear
 *  in the text. */
export interface LinePhrases {
  readonly has: readonly string[];
  /** Like `has`, but only at the end of a clause: `Error: 401`, and not `Error: 401 files left`. */
  readonly hasLast: readonly string[];
  readonly unless: readonly string[];
  /** A phrase that overlaps one of these is about something else: `x-ratelimit-limit` is the name of a header. */
  readonly ignored: readonly string[];
}

type PhraseMeaning = "has" | "hasLast" | "unless" | "ignored";

interface PhraseEntry {
  readonly phrase: string;
  readonly words: readonly string[];
  readonly meaning: PhraseMeaning;
}

interface PhrasePlace extends Span {
  readonly entry: PhraseEntry;
}

interface LineWord extends Span {
  readonly text: string;
}

/** The phrases by their first words. */
export type PhraseIndex = ReadonlyMap<string, readonly PhraseEntry[]>;

export function phraseIndex(phrases: LinePhrases): PhraseIndex {
  const index = new Map<string, PhraseEntry[]>();
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

/** The phrase that decides, with its line. The last line with a phrase of either list decides, and `unless` wins. */
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

const NO_PLACES: readonly PhrasePlace[] = [];

/** The phrases of the line that are reported. */
function placesIn(line: string, index: PhraseIndex): readonly PhrasePlace[] {
  const words = wordsOf(line);
  if (words.length === 0) return NO_PLACES;
  const all: PhrasePlace[] = [];
  for (const [at, { text }] of words.entries()) {
    for (const entry of index.get(text) ?? []) {
      const last = words[at + entry.words.length - 1];
      if (last === undefined || entry.words.some((word, step) => words[at + step]?.text !== word)) continue;
      all.push({ entry, from: (words[at] as LineWord).from, to: last.to });
    }
  }
  const ignored = new SpanCover(all.filter(({ entry }) => entry.meaning === "ignored"));
  const wanted = all.filter((place) => place.entry.meaning !== "ignored" && !ignored.touches(place));
  const has = wanted.filter((place) => place.entry.meaning !== "unless" && isMeant(line, place));
  const longer = new SpanCover(has);
  // `fetch failed: 401` does not count as `fetch failed`.
  const unless = wanted.filter((place) => place.entry.meaning === "unless" && !longer.holds(place));
  return [...has, ...unless];
}

function isMeant(line: string, place: PhrasePlace): boolean {
  if (place.entry.meaning === "hasLast" && !/^['"`]?\s*(?:$|[^\s\w])/.test(line.slice(place.to, place.to + 200))) {
    return false;
  }
  return !isQuotation(line, place) && !isNegated(line, place);
}

/** Spans by start; they must be queried in the same order. */
class SpanCover {
  readonly #spans: readonly Span[];
  #first = 0;

  constructor(spans: readonly Span[]) {
    this.#spans = spans;
  }

  touches(span: Span): boolean {
    return this.#near(span).some(({ from, to }) => from < span.to && span.from < to);
  }

  /** Whether a longer one contains `span`. */
  holds(span: Span): boolean {
    return this.#near(span).some(
      ({ from, to }) => from <= span.from && span.to <= to && to - from > span.to - span.from,
    );
  }

  /** The spans that may overlap. Spans before it are skipped for all later queries. */
  #near({ from, to }: Span): Span[] {
    while (this.#first < this.#spans.length && (this.#spans[this.#first] as Span).to <= from) this.#first += 1;
    let end = this.#first;
    while (end < this.#spans.length && (this.#spans[end] as Span).from < to) end += 1;
    return this.#spans.slice(this.#first, end);
  }
}

const ESCAPE = String.fromCharCode(27);
/** A colour code of a terminal, or a word: `AuthenticationError` is two words, `HTTPError` one. */
const PIECES = new RegExp(`${ESCAPE}\\[[\\d;]*[A-Za-z]|[A-Z]+[a-z\\d]*|[a-z\\d]+`, "g");

function wordsOf(line: string): LineWord[] {
  const words: LineWord[] = [];
  for (const { 0: text, index } of line.matchAll(PIECES)) {
    if (text.startsWith(ESCAPE)) continue;
    words.push({ text: text.toLowerCase(), from: index, to: index + text.length });
  }
  return words;
}
