/** Hides secrets from other processes. `/proc/PID/environ` and `/proc/PID/cmdline` show the memory that the process was started
 *  with, whatever it deletes from its environment later; a command of a worker, or any other program of the same user, can
 *  read them. So the variables are copied, and that memory is overwritten. Node has no other way: it cannot make itself
 *  undumpable, and starting the program again would leave the old process behind.
 *
 *  Not covered: the moments before this runs; the environment of the parent process, such as npx or a script; and a program
 *  of the same user that reads our memory like a debugger. Linux only. */
import { closeSync, openSync, readFileSync, readSync, writeSync } from "node:fs";

/** Not overwritten: the supervisor of an outer worker finds its processes by these, and the loader may still point to the
 *  others. */
const SHOWN = /^(PERDURE_MARK|PERDURE_JOB_ID|PERDURE_ATTEMPT|LD_.*|MALLOC_.*|GLIBC_TUNABLES)$/;
/** Fields of /proc/self/stat, counted from the state: where arguments and environment begin and end. */
const [ARGUMENTS, ENVIRONMENT] = [45, 47];
/** Up to the last @ before the path: a password may hold others. */
const ADDRESS_PASSWORD = /(:\/\/[^/@\0]*?:)([^@\0]+(?:@[^/?#@\0]*)*)(?=@)/g;
const QUERY_PASSWORD = /([?&](?:ssl)?password=)([^&\0]+)/g;

/** False if it could not be done: then other programs of this user can read what this process was started with. */
export function hideEnvironment(): boolean {
  try {
    const memory = openSync("/proc/self/mem", "r+");
    try {
      overwrite(memory, ARGUMENTS, withoutPasswords);
      overwrite(memory, ENVIRONMENT, withoutVariables);
    } finally {
      closeSync(memory);
    }
    return readFileSync("/proc/self/environ", "latin1")
      .split("\0")
      .every((entry) => entry === "" || SHOWN.test(nameOf(entry)));
  } catch {
    return false;
  }
}

function overwrite(memory: number, field: number, blanked: (text: string) => string): void {
  const stat = readFileSync("/proc/self/stat", "latin1");
  // The name, in brackets, may hold anything, brackets too.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [start, end] = [Number(fields[field]), Number(fields[field + 1])];
  const before = Buffer.alloc(end - start);
  readSync(memory, before, 0, before.length, start);
  const after = Buffer.from(blanked(before.toString("latin1")), "latin1");
  if (after.length !== before.length) throw new Error("the memory of the arguments must keep its size");
  if (!after.equals(before)) writeSync(memory, after, 0, after.length, start);
}

function withoutPasswords(text: string): string {
  const starred = (_: string, before: string, password: string) => before + "*".repeat(password.length);
  return text.replace(ADDRESS_PASSWORD, starred).replace(QUERY_PASSWORD, starred);
}

/** Each variable is set again first, which moves it elsewhere: for this program nothing changes. */
function withoutVariables(text: string): string {
  return text
    .split("\0")
    .map((entry) => {
      const name = nameOf(entry);
      const value = process.env[name];
      if (SHOWN.test(name) || value === undefined) return SHOWN.test(name) ? entry : blank(entry);
      process.env[name] = value;
      return blank(entry);
    })
    .join("\0");
}

function blank(entry: string): string {
  return "\0".repeat(entry.length);
}

function nameOf(entry: string): string {
  return entry.slice(0, Math.max(0, entry.indexOf("=")));
}
