/** Paths that would leave the folder of a job, and the names of outputs that a link cannot carry. */

/** How many times over a path may be encoded and is still recognised. */
const MAX_DECODED = 4;

/** As it stands, or decoded again: a path may be encoded several times. */
export function leavesFolder(path: string): boolean {
  let text = path;
  for (let times = 0; times <= MAX_DECODED; times++) {
    if (isOutside(text)) return true;
    const decoded = text.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
    if (decoded === text) return false;
    text = decoded;
  }
  return false;
}

/** A folder above, an absolute path (an empty part before the last one, or a drive), or a NUL, which ends a path elsewhere. */
function isOutside(text: string): boolean {
  const parts = text.split(/[/\\]/);
  return parts.includes("..") || parts.slice(0, -1).includes("") || text.includes("\0") || DRIVE.test(text);
}

const DRIVE = /(?:^|[/\\])[a-z]:\\/i;

/** Whether an output can be read by its link: not one with control characters or `\`, which the store of the files does not
 *  read, and not one such as `%2e%2e`, which is refused as a path that leaves the folder. */
export function hasLink(name: string): boolean {
  return !/[\p{Cc}\\]/u.test(name) && !leavesFolder(name);
}
