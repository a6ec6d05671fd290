/** Where a line names something and does not report it: paths, names of files, tests and properties, expectations, and the
 *  log of a server about its own callers. Each question reads a few hundred characters around the place at most. */
import type { Span } from "./message-parts.ts";

const REQUEST = /"(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) [^"]* HTTP\/\d/;
/** A message of a command begins with its exit code. */
const TEST = /^(?:exit code \d+: )?\s*(?:[✓✔]|(?:FAIL|FAILED|PASS|PASSED)\s+[^\s/.]*[/.]\S)/;
const ASSERTION = /\bassert/i;

/** A line of an access log, of a test runner, or of an assertion: it reports neither a refusal nor its end. */
export function isReport(line: string): boolean {
  return REQUEST.test(line) || TEST.test(line) || ASSERTION.test(line);
}

const MAX_PIECE = 300;
/** What ends a name, and what stands around it. */
const BETWEEN = /[\s'"`,()[\]{};=<>]/;
const FILE =
  /\.(?:[cm]?[jt]sx?|json|py|go|rs|java|kt|rb|php|cc?|cpp|h|cs|html?|css|md|txt|ya?ml|toml|log|sh|sql|xml|csv)\b/i;
const NAMES =
  /\b(?:reading|setting|named?|property|module|attribute|variable|function|method|import|export|key|field|column|identifier|KeyError:) $/i;

/** The phrase is a part of a path or of an identifier, or it is the quoted name of something. */
export function isQuotation(line: string, { from, to }: Span): boolean {
  const [start, end] = around(line, { from, to }, (char) => BETWEEN.test(char));
  if (start <= from && to <= end && isPath(line.slice(start, end))) return true;
  const [first, last] = around(line, { from, to }, (char) => !/\w/.test(char));
  const isInside = (first < from || to < last) && /^\w+$/.test(line.slice(from, to));
  // Constants are codes of errors, as ERR_JWT_EXPIRED; other identifiers are names of tests and variables.
  if (isInside && /_/.test(line.slice(first, last)) && /[a-z]/.test(line.slice(first, last))) return true;
  const [before, after] = [line[first - 1] ?? "", line[last] ?? ""];
  return /^['"`]$/.test(before) && before === after && NAMES.test(line.slice(Math.max(0, first - 20), first - 1));
}

function isPath(piece: string): boolean {
  return /^(?:[A-Za-z]:\\|\.{0,2}\/|~\/)/.test(piece) || piece.split("/").length > 2 || FILE.test(piece);
}

/** From behind the last character before the place that ends a name, to the first behind it. A phrase with one in it is no name:
 *  then the two are at its ends. */
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
const NONE = /(?:^|[^\w.,])(?:0|no|zero|without)\s+$/i;

const NOTHING = /^['"`]?(?: \w+)?\s*[:=]\s*(?:0|false|none|null)\b(?![.\d])/i;
const UNKNOWN = /^['"`]?:? (?:is not defined|was not found|no such file)\b/i;

/** What was expected, compared with or not found: "expected 401", "== 401", "0 authentication failures", "unauthorized: false". */
export function isUnsaid(line: string, { from, to }: Span): boolean {
  if (/[=!]=/.test(line.slice(from, to))) return true;
  const clause = line.slice(Math.max(0, from - MAX_CLAUSE), from);
  if (NONE.test(clause)) return true;
  const rest = line.slice(to, to + MAX_CLAUSE);
  if (NOTHING.test(rest) || UNKNOWN.test(rest)) return true;
  const expected = EXPECTED.exec(clause);
  return expected !== null && !BUT.test(expected[0]);
}
