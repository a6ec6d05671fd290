/** Names this boot of the machine, where it can be named: on Linux. Within one boot the kernel's monotonic clock is the same
 *  for all processes, also for those that start later, unless they live in a time namespace of their own. */
import { readFileSync, readlinkSync } from "node:fs";
import type { Clock } from "../lib/clock.ts";

export interface Boot {
  readonly name: string;
  /** Added to the monotonic time of a process, it is that of the boot. */
  readonly originMs: number;
}

const CLOSE_MS = 1;
const MAX_TRIES = 10;

/** Null where it is not known; then what two processes count cannot be compared. */
export function thisBoot(clock: Pick<Clock, "monotonic">): Boot | null {
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return { name: `${boot} ${timeNamespace()}`, originMs: originOf(clock) };
  } catch {
    return null;
  }
}

/** Read again if the process stood still between the two clocks: it would be behind the others by as much for good. */
function originOf(clock: Pick<Clock, "monotonic">): number {
  for (let tries = 1; ; tries++) {
    const before = clock.monotonic();
    const sinceBoot = Number(process.hrtime.bigint()) / 1e6;
    const after = clock.monotonic();
    if (after - before < CLOSE_MS || tries >= MAX_TRIES) return sinceBoot - after;
  }
}

/** Kernels before 5.6 have none. */
function timeNamespace(): string {
  try {
    return readlinkSync("/proc/self/ns/time");
  } catch {
    return "";
  }
}
