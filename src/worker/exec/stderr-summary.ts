/** The one line of a command's stderr that explains best why it failed: its last non-blank line. A Node program that exits with
 *  an exception prints the error, a stack, the error's fields and the version of Node: there it is the line of the error, with
 *  its cause and its code. A Python traceback ends with the error, unless its message has more lines, which are usually indented.
 *  If the text is not a known kind of stack, or the stack begins before the text that was kept, the last line is used. */

const MAX_LINE = 2_048;
/** The first line of a message is searched for at most this far above its stack. */
const MAX_MESSAGE_LINES = 40;

/** The last line of Node after an uncaught error. */
const VERSION = /^Node\.js v\d+\.\d+\.\d+/;
/** Where it was thrown, as Node shows it: `file:line`, the source line, and carets below it. */
const LOCATION = /^\S.*:\d+$/;
const CARETS = /^\s*\^+$/;
const FRAME = /^\s+at \S.*(?::\d+\)?|\)|<anonymous>)(?: \{)?$/;
/** `... 12 more`: omitted frames. */
const OMITTED = /^\s+\.\.\. \d+ /;
/** Between the frames of an error and those of its `error` event without a listener. */
const EMITTED = /^Emitted '.{1,100}' event/;
/** `Error: …`, `TypeError [CODE]: …`, also after other text: `it failed: Error: …`. */
const NAMED = /(?:^|[\s[(])[\w$.]*(?:Error|Exception)(?: \[\w+\])?(?:: |:?$)/;
/** `MyFailure: …`. */
const CLASS = /^[A-Z][\w$.]*(?: \[\w+\])?: /;
/** Python: above the frames, and below them `ValueError: …`. */
const TRACEBACK = /^Traceback \(most recent call last\):$/;
const RAISED = /^[A-Za-z_][\w.]*(?:: |:?$)/;
const CAUSE = /^\s+\[cause\]: (.*\S)/;
const CODE = /^\s+(?:\[?code\]?): '([\w.-]{1,100})'/;

/** `tail` is the last few kilobytes of stderr. The result has at most 2,048 characters; it is empty if `tail` is blank. */
export function stderrSummary(tail: string): string {
  const lines = tail.split("\n").map((line) => line.trimEnd());
  const end = lastWithText(lines, lines.length);
  if (end < 0) return "";
  const isUncaught = VERSION.test(lines[end] as string);
  const last = isUncaught ? lastWithText(lines, end) : end;
  if (last < 0) return shortened(lines[end] as string);
  const head =
    (isUncaught ? afterLocation(lines, last) : null) ?? aboveStack(lines, last) ?? belowTraceback(lines, last);
  return shortened(head === null ? (lines[last] as string) : summaryOf(lines, head, last));
}

/** The index of the last line before `before` that is not blank, or -1. */
function lastWithText(lines: readonly string[], before: number): number {
  let at = before - 1;
  while (at >= 0 && (lines[at] as string).trim() === "") at -= 1;
  return at;
}

/** The line after the location of the throw; the thrown value need not be an error, nor have a stack. */
function afterLocation(lines: readonly string[], last: number): number | null {
  for (let at = last - 1; at >= 2; at--) {
    if (!CARETS.test(lines[at] as string) || !LOCATION.test(lines[at - 2] as string)) continue;
    let head = at + 1;
    while (head < last && lines[head] === "") head += 1;
    return head;
  }
  return null;
}

/** The error above a stack that ends the text. */
function aboveStack(lines: readonly string[], last: number): number | null {
  let at = last;
  if (lines[at] === "}") {
    // Skip its fields, up to the line that opens them.
    do at -= 1;
    while (at >= 0 && /^[\s}\]]|^$/.test(lines[at] as string) && !/^ {4}at .* \{$/.test(lines[at] as string));
    if (at < 0 || !(lines[at] as string).endsWith(" {")) return null;
  }
  while (at > 0 && OMITTED.test(lines[at] as string)) at -= 1;
  if (!FRAME.test(lines[at] as string)) return NAMED.test(lines[at] as string) && at < last ? at : null;
  while (at >= 0 && isOfStack(lines[at] as string)) at -= 1;
  return headOf(lines, at);
}

function isOfStack(line: string): boolean {
  return FRAME.test(line) || OMITTED.test(line) || EMITTED.test(line);
}

/** The first line of the message that ends at `end`. */
function headOf(lines: readonly string[], end: number): number | null {
  if (end < 0) return null;
  if (CLASS.test(lines[end] as string)) return end;
  for (let at = end; at >= 0 && end - at < MAX_MESSAGE_LINES; at--) {
    if (NAMED.test(lines[at] as string)) return at;
    if (FRAME.test(lines[at] as string)) break;
  }
  return /^\S/.test(lines[end] as string) ? end : null;
}

/** A Python error whose message continues, indented, to the end of the text. */
function belowTraceback(lines: readonly string[], last: number): number | null {
  const head = unindented(lines, last);
  if (head === last || head < 2 || !RAISED.test(lines[head] as string)) return null;
  const above = unindented(lines, head - 1);
  return above >= 0 && above < head - 1 && TRACEBACK.test(lines[above] as string) ? head : null;
}

/** The index of the last line up to `at` that begins with text, or -1. */
function unindented(lines: readonly string[], at: number): number {
  let found = at;
  while (found >= 0 && /^(?:\s|$)/.test(lines[found] as string)) found -= 1;
  return found;
}

function summaryOf(lines: readonly string[], head: number, last: number): string {
  const line = lines[head] as string;
  // A thrown value, printed over several lines.
  if (line === "{" || line === "[")
    return lines
      .slice(head, last + 1)
      .join(" ")
      .replaceAll(/\s+/g, " ");
  const fields = lines.slice(head + 1, last + 1);
  const cause = firstOf(fields, CAUSE);
  const text = [bare(line), ...(cause === null ? [] : [`cause: ${bare(cause)}`])].join("; ");
  const code = firstOf(fields, CODE);
  return code === null || text.includes(code) ? text : `${text} (code: '${code}')`;
}

/** Node prints an error without a stack in brackets, and begins its fields on the same line. */
function bare(line: string): string {
  return line.replace(/ \{$/, "").replace(/^\[(.*)\]$/, "$1");
}

function firstOf(lines: readonly string[], pattern: RegExp): string | null {
  for (const line of lines) {
    const found = pattern.exec(line)?.[1];
    if (found !== undefined) return found;
  }
  return null;
}

function shortened(line: string): string {
  return line.trim().slice(0, MAX_LINE);
}
