/** The line of a command's stderr that tells why it failed: the last one with something in it. Where a program of Node dies of
 *  an exception the last line is its version, and before it come a stack and the error's fields: then it is the line of the
 *  error itself, with its cause and its code. Tracebacks of Python end with that line, unless its message has more, which is
 *  indented as a rule. What is no stack, or begins before the text that was kept, is not guessed at: the last line stays. */

const MAX_LINE = 2_048;
/** So far above its stack the first line of a message is looked for. */
const MAX_MESSAGE_LINES = 40;

/** As Node ends when nobody caught an error. */
const VERSION = /^Node\.js v\d+\.\d+\.\d+/;
/** Where it was thrown, as Node shows it: `file:line`, the source, a mark below it. */
const PLACE = /^\S.*:\d+$/;
const MARK = /^\s*\^+$/;
const FRAME = /^\s+at \S.*(?::\d+\)?|\)|<anonymous>)(?: \{)?$/;
/** `... 12 more`: frames. */
const LEFT_OUT = /^\s+\.\.\. \d+ /;
/** Between the frames of an error and those of its event, which nobody listened for. */
const EMITTED = /^Emitted '.{1,100}' event/;
/** `Error: …`, `TypeError [CODE]: …`, also behind other words: `it failed: Error: …`. */
const NAMED = /(?:^|[\s[(])[\w$.]*(?:Error|Exception)(?: \[\w+\])?(?:: |:?$)/;
/** `MyFailure: …`. */
const CLASS = /^[A-Z][\w$.]*(?: \[\w+\])?: /;
/** Python: above the frames, and below them `ValueError: …`. */
const TRACEBACK = /^Traceback \(most recent call last\):$/;
const RAISED = /^[A-Za-z_][\w.]*(?:: |:?$)/;
const CAUSE = /^\s+\[cause\]: (.*\S)/;
const CODE = /^\s+(?:\[?code\]?): '([\w.-]{1,100})'/;

/** `tail` is the end of what it wrote, of a few kilobytes. The answer has at most 2,048 characters, and is empty where there
 *  is nothing but blanks. */
export function stderrSummary(tail: string): string {
  const lines = tail.split("\n").map((line) => line.trimEnd());
  const end = lastWithText(lines, lines.length);
  if (end < 0) return "";
  const isUncaught = VERSION.test(lines[end] as string);
  const last = isUncaught ? lastWithText(lines, end) : end;
  if (last < 0) return shortened(lines[end] as string);
  const head = (isUncaught ? afterPlace(lines, last) : null) ?? aboveStack(lines, last) ?? belowTraceback(lines, last);
  return shortened(head === null ? (lines[last] as string) : told(lines, head, last));
}

/** The index of the last line before `before` that is not blank, or -1. */
function lastWithText(lines: readonly string[], before: number): number {
  let at = before - 1;
  while (at >= 0 && (lines[at] as string).trim() === "") at -= 1;
  return at;
}

/** What comes after the place where it was thrown; it need not be an error, and need not have a stack. */
function afterPlace(lines: readonly string[], last: number): number | null {
  for (let at = last - 1; at >= 2; at--) {
    if (!MARK.test(lines[at] as string) || !PLACE.test(lines[at - 2] as string)) continue;
    let head = at + 1;
    while (head < last && lines[head] === "") head += 1;
    return head;
  }
  return null;
}

/** The error above the stack with which the text ends. */
function aboveStack(lines: readonly string[], last: number): number | null {
  let at = last;
  if (lines[at] === "}") {
    // Its fields, up to the line that opens them.
    do at -= 1;
    while (at >= 0 && /^[\s}\]]|^$/.test(lines[at] as string) && !/^ {4}at .* \{$/.test(lines[at] as string));
    if (at < 0 || !(lines[at] as string).endsWith(" {")) return null;
  }
  while (at > 0 && LEFT_OUT.test(lines[at] as string)) at -= 1;
  if (!FRAME.test(lines[at] as string)) return NAMED.test(lines[at] as string) && at < last ? at : null;
  while (at >= 0 && isOfStack(lines[at] as string)) at -= 1;
  return headOf(lines, at);
}

function isOfStack(line: string): boolean {
  return FRAME.test(line) || LEFT_OUT.test(line) || EMITTED.test(line);
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

/** The error of Python whose message goes on, indented, to the end. */
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

function told(lines: readonly string[], head: number, last: number): string {
  const line = lines[head] as string;
  // A value that was thrown, over several lines.
  if (line === "{" || line === "[")
    return lines
      .slice(head, last + 1)
      .join(" ")
      .replaceAll(/\s+/g, " ");
  const fields = lines.slice(head + 1, last + 1);
  const cause = firstOf(fields, CAUSE);
  const said = [bare(line), ...(cause === null ? [] : [`cause: ${bare(cause)}`])].join("; ");
  const code = firstOf(fields, CODE);
  return code === null || said.includes(code) ? said : `${said} (code: '${code}')`;
}

/** An error without a stack stands in brackets, and its fields begin on the same line. */
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
