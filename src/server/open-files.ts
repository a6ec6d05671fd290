/** How many descriptors this process may have, where the kernel says so. Node raises its soft limit to the hard one. */
import { readFileSync } from "node:fs";

/** Null where it is not known, as on systems without /proc. */
export function openFilesLimit(): number | null {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return soft === undefined ? null : Number(soft);
  } catch {
    return null;
  }
}

/** Descriptors that are kept for the store, outputs that are being written and read, and programs: a quarter, at most this. */
const MAX_KEPT = 512;

export interface ConnectionRoom {
  readonly max: number;
  readonly maxDescriptor: number;
}

/** The most connections that leave enough descriptors for everything else. Where everything else takes more than that,
 *  connections leave half of what is kept. */
export function connectionsWithin(wanted: number, openFiles: number | null): ConnectionRoom {
  if (openFiles === null) return { max: wanted, maxDescriptor: Number.POSITIVE_INFINITY };
  const kept = Math.min(MAX_KEPT, Math.ceil(openFiles / 4));
  return { max: Math.max(1, Math.min(wanted, openFiles - kept)), maxDescriptor: openFiles - Math.floor(kept / 2) };
}
