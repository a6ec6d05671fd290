/** Files of JSON that a command leaves for its worker: result.json with its verdict, usage.json with what it has
 *  used. A command may leave anything there, so reading is bounded. */
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { isPlain } from "../../core/check.ts";
import { type CommandVerdict, troubleIn, usageIn, VERDICT_LIMITS, verdictIn } from "../../core/input/verdict.ts";
import type { Usage } from "../../core/job/job.ts";
import { jsonDepth } from "../../lib/json-text.ts";

// Files of JSON that a command leaves for us. It may leave anything there.

const { bytes: MAX_BYTES, depth: MAX_DEPTH } = VERDICT_LIMITS;

/** Why there is no value. Refused: the file is none that is ever read, however often it were written. */
interface UnreadJson {
  readonly why: string;
  readonly isRefused?: true;
}

const refused = (why: string): UnreadJson => ({ why, isRefused: true });

/** Null if there is no such file. With `owner`, a file that is not that user's is refused: where a command runs as another user
 *  than we do, it may be a second name of a file that only we can read. */
export async function readSmallJson(
  path: string,
  owner?: number,
): Promise<{ readonly value: unknown } | UnreadJson | null> {
  const text = await readSmall(path, owner);
  if (typeof text !== "string") return text;
  if (jsonDepth(text) > MAX_DEPTH) return refused(`it is nested more than ${MAX_DEPTH} levels deep`);
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { why: (error as Error).message };
  }
}

/** The text of a small file; null if it is not there. Links and pipes are not followed: the command made the file. */
async function readSmall(path: string, owner?: number): Promise<string | UnreadJson | null> {
  let file: FileHandle;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return null;
    if (code === "ELOOP") return refused("it is a link");
    const why = `it cannot be read (${code})`;
    // Anything else is an error of this host.
    return code === "EACCES" || code === "EPERM" || code === "ENXIO" ? refused(why) : { why };
  }
  try {
    const facts = await file.stat();
    const { size } = facts;
    if (!facts.isFile()) return refused("it is not a file");
    if (owner !== undefined && facts.uid !== owner) return refused("it belongs to another user than the command");
    if (size > MAX_BYTES) return refused(`it has ${size} bytes, and at most ${MAX_BYTES} are read`);
    const bytes = await file.readFile();
    return bytes.length === 0 ? { why: "it is empty" } : bytes.toString("utf8");
  } catch (error) {
    return { why: (error as Error).message };
  } finally {
    await file.close();
  }
}

// What a command says that it has used: in usage.json while it runs, or below `usage` in its result.json.

/** What a usage file says now; null while there is none, or it is being written. */
export async function readUsage(path: string, owner?: number): Promise<Usage | null> {
  const read = await readSmallJson(path, owner);
  if (read === null || "why" in read) return null;
  return usageIn({ usage: read.value }) ?? usageIn(read.value);
}

/** Why something in a usage file is not counted; null where all is, or there is none. Only for one that nobody writes any
 *  more. */
export async function usageTrouble(path: string, owner?: number): Promise<string | null> {
  const read = await readSmallJson(path, owner);
  if (read === null) return null;
  if ("why" in read) return read.why;
  const { value } = read;
  return troubleIn(isPlain(value) && Object.hasOwn(value, "usage") ? (value as { usage: unknown }).usage : value);
}

// Reads what a command says of itself in its result.json.

export async function readVerdict(path: string, owner?: number): Promise<CommandVerdict> {
  const read = await readSmallJson(path, owner);
  if (read === null) return { kind: "none" };
  return "why" in read ? { kind: "malformed", ...read } : verdictIn(read.value);
}
