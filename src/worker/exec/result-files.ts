/** The JSON files that a command writes for its worker: result.json with its verdict, usage.json with its usage. A command may
 *  write anything, so reading is bounded. */
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { isPlain } from "../../core/check.ts";
import { type CommandVerdict, troubleIn, usageIn, VERDICT_LIMITS, verdictIn } from "../../core/input/verdict.ts";
import type { Usage } from "../../core/job/job.ts";
import { jsonDepth } from "../../lib/json-text.ts";

const { bytes: MAX_BYTES, depth: MAX_DEPTH } = VERDICT_LIMITS;

/** Why there is no value. Refused: the file is of a kind that is never read; writing it again would not help. */
interface UnreadJson {
  readonly why: string;
  readonly isRefused?: true;
}

const refused = (why: string): UnreadJson => ({ why, isRefused: true });

/** Null if the file does not exist. With `owner`, a file of another user is refused: if a command runs as another user than the
 *  worker, it could be a hard link to a file that only the worker can read. */
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

/** The text of a small file; null if it does not exist. Symbolic links are not followed and pipes not waited for: the command
 *  may have created anything there. */
async function readSmall(path: string, owner?: number): Promise<string | UnreadJson | null> {
  let file: FileHandle;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return null;
    if (code === "ELOOP") return refused("it is a link");
    const why = `it cannot be read (${code})`;
    // Other errors are problems of this host.
    return code === "EACCES" || code === "EPERM" || code === "ENXIO" ? refused(why) : { why };
  }
  try {
    const facts = await file.stat();
    const { size } = facts;
    if (!facts.isFile()) return refused("it is not a file");
    if (owner !== undefined && facts.uid !== owner) return refused("it is not owned by the user of the command");
    if (size > MAX_BYTES) return refused(`it has ${size} bytes, over the limit of ${MAX_BYTES}`);
    const bytes = await file.readFile();
    return bytes.length === 0 ? { why: "it is empty" } : bytes.toString("utf8");
  } catch (error) {
    return { why: (error as Error).message };
  } finally {
    await file.close();
  }
}

/** The usage in usage.json; null if it does not exist or is being written. */
export async function readUsage(path: string, owner?: number): Promise<Usage | null> {
  const read = await readSmallJson(path, owner);
  if (read === null || "why" in read) return null;
  return usageIn({ usage: read.value }) ?? usageIn(read.value);
}

/** Why a part of usage.json is not counted; null if all of it is, or if it does not exist. Only for a file that is no longer
 *  being written. */
export async function usageTrouble(path: string, owner?: number): Promise<string | null> {
  const read = await readSmallJson(path, owner);
  if (read === null) return null;
  if ("why" in read) return read.why;
  const { value } = read;
  return troubleIn(isPlain(value) && Object.hasOwn(value, "usage") ? (value as { usage: unknown }).usage : value);
}

/** The verdict of a command on itself, from result.json. */
export async function readVerdict(path: string, owner?: number): Promise<CommandVerdict> {
  const read = await readSmallJson(path, owner);
  if (read === null) return { kind: "none" };
  return "why" in read ? { kind: "malformed", ...read } : verdictIn(read.value);
}
