/** Files that this process was given by whoever started it, and that every child would get from it. Node's own are not
 *  among them: they are closed when another program starts. */
import { openSync, readdirSync, readFileSync } from "node:fs";

const CLOEXEC = 0o2000000;
let cached: readonly number[] | null = null;
let nothing: number | null = null;

/** Places in a child's table of files that must be filled with something harmless. */
export function inheritedFiles(): readonly number[] {
  cached ??= look();
  return cached;
}

/** /dev/null. */
export function nothingFile(): number {
  nothing ??= openSync("/dev/null", "r+");
  return nothing;
}

function look(): number[] {
  const found: number[] = [];
  try {
    for (const name of readdirSync("/proc/self/fdinfo")) {
      if (Number(name) <= 2) continue;
      try {
        const flags = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${name}`, "latin1"))?.[1];
        if (flags !== undefined && (Number.parseInt(flags, 8) & CLOEXEC) === 0) found.push(Number(name));
      } catch {
        // the one that was opened to read the list
      }
    }
  } catch {
    // no /proc here
  }
  return found;
}
