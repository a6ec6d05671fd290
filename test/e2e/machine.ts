/** What is visible of this machine from outside the program: its files, ports and processes, and how to wait for them.
 *  A deadline only guards against hanging. */
import { randomInt } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:net";

/** Reaching it means that something hangs. */
const DEADLINE_MS = 60_000;
const POLL_MS = 50;

/** The first answer that is neither undefined nor false. */
export async function until<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  deadlineMs = DEADLINE_MS,
): Promise<T> {
  const start = performance.now();
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() - start > deadlineMs) throw new Error(`timed out after ${deadlineMs} ms: ${what}`);
    await pass(POLL_MS);
  }
}

export function pass(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Below the range from which systems choose ports for connections, so that it stays free while its server is down. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(15_000, 32_000);
    const isFree = await new Promise<boolean>((resolve) => {
      const probe = createServer();
      probe.once("error", () => resolve(false));
      probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
}

/** The complete lines of a file that others append to; none if it does not exist. */
export function linesIn(path: string): string[] {
  if (!existsSync(path)) return [];
  return readFileSync(path, "utf8").split("\n").slice(0, -1);
}

/** The number that a process wrote into a file, such as its pid. */
export function numberIn(path: string): Promise<number> {
  return until(`a number in ${path}`, () => {
    const [line] = linesIn(path);
    return line === undefined ? undefined : Number(line);
  });
}

/** A process that has exited but was not waited for counts as exited too. */
export function isAlive(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

export function gone(pid: number, what = `process ${pid} has exited`): Promise<true> {
  return until(what, () => !isAlive(pid));
}

/** All running processes with their parents. */
function processTable(): { readonly pid: number; readonly parent: number }[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name) || !isAlive(Number(name))) return [];
    try {
      const [, parent] = readFileSync(`/proc/${name}/stat`, "utf8")
        .replace(/^.*\) /, "")
        .split(" ");
      return [{ pid: Number(name), parent: Number(parent) }];
    } catch {
      return []; // it has just exited
    }
  });
}

/** A process with all its descendants. */
export function treeOf(root: number): number[] {
  const table = processTable();
  const tree = [root];
  for (const pid of tree) tree.push(...table.filter(({ parent }) => parent === pid).map((child) => child.pid));
  return tree;
}
