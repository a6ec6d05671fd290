/** Inputs that are too large for a payload, which commands read as standard input. An upload is stored under an id that becomes
 *  the id of the job when it is submitted: so it is durable before the submit is acknowledged, and is deleted with the job.
 *  The pruner removes uploads without a job. */
import { createHash } from "node:crypto";
import { ConfigError, PerdureError } from "../core/errors.ts";
import { MAX_STDIN_BYTES, type StdinFile } from "../core/input/exec-input.ts";
import { isId, timeOfId } from "../lib/id.ts";
import type { Blobs } from "../store/blobs.ts";
import type { EngineParts } from "./parts.ts";

/** Where inputs are stored: the file `stdin` of attempt 0. */
const PLACE = [0, "stdin"] as const;

/** How long an upload may be written and submitted. It is removed after twice that time, so never while it is submitted. */
const TAKEN_MS = 1_800_000;
const KEPT_MS = 2 * TAKEN_MS;
/** How far the clocks of servers may differ. No server made an id that is further in the future. */
const AHEAD_MS = 300_000;

export function newUpload({ newId }: EngineParts): string {
  return newId("job");
}

/** Writes bytes at an offset, durably. A repeated piece changes nothing; returns the size. */
export async function writeUpload(
  parts: EngineParts,
  id: string,
  offset: number,
  source: AsyncIterable<Uint8Array>,
  length?: number,
): Promise<{ readonly size: number }> {
  const outputs = filesOf(parts);
  if (!isId(id, "job") || (await parts.store.facts([id]))[0] != null) throw notFree(id);
  checkTime(parts, id);
  return outputs.write(id, ...PLACE, offset, limited(source, offset), length === undefined ? {} : { length });
}

async function* limited(source: AsyncIterable<Uint8Array>, offset: number): AsyncGenerator<Uint8Array> {
  let end = offset;
  for await (const piece of source) {
    end += piece.length;
    if (end > MAX_STDIN_BYTES) {
      const message = `upload: over the limit of ${MAX_STDIN_BYTES} bytes; store the data elsewhere and pass its address`;
      throw new PerdureError("invalid_payload", message, { path: "upload" });
    }
    yield piece;
  }
}

/** The input of an existing job does not change. */
function notFree(id: string): ConfigError {
  const allowed = "the id of an upload that no job was submitted with";
  return new ConfigError({ path: "submit.upload", given: id, allowed });
}

/** A write to an old upload is refused too: it may be removed at any moment, even during the write. */
function checkTime({ clock }: EngineParts, id: string): void {
  const [time, now] = [timeOfId(id), clock.now()];
  if (time > now + AHEAD_MS) {
    const problem = "its time is in the future";
    throw new ConfigError({ path: "submit.upload", given: id, allowed: "an id that createUpload returned", problem });
  }
  if (time < now - TAKEN_MS) {
    const problem = "it is over half an hour old and will be removed";
    throw new ConfigError({ path: "submit.upload", given: id, allowed: "the id of a new upload", problem });
  }
}

/** Size and hash of an upload; null if it does not exist. With a namespace, the input of a job in another one is not shown. */
export async function readUpload(parts: EngineParts, id: string, namespace?: string): Promise<StdinFile | null> {
  if (!isId(id, "job")) return null;
  if (namespace !== undefined) {
    const [job] = await parts.store.facts([id]);
    if (job != null && job.namespace !== namespace) return null;
  }
  const source = await filesOf(parts).get(id, ...PLACE);
  if (source === null) return null;
  const hash = createHash("sha256");
  let bytes = 0;
  for await (const piece of source) {
    hash.update(piece as Uint8Array);
    bytes += (piece as Uint8Array).length;
  }
  return { bytes, sha256: hash.digest("hex") };
}

/** The upload of a submit, and what it must match; the key as stored. */
export interface UploadClaim {
  readonly upload: string;
  readonly payload: string;
  readonly namespace: string;
  readonly key: string | null;
}

/** Checks that the upload of a submit exists, is complete and matches its input. A submit that is repeated with its key finds its
 *  own job: the key then decides whether it is the same. */
export async function checkUpload(parts: EngineParts, { upload: id, payload, ...claim }: UploadClaim): Promise<void> {
  if (!isId(id, "job")) throw notFree(id);
  const [job] = await parts.store.facts([id]);
  if (job != null) {
    if (claim.key !== null && job.key === claim.key && job.namespace === claim.namespace) return;
    throw notFree(id);
  }
  checkTime(parts, id);
  const found = await readUpload(parts, id);
  if (found === null && claim.key !== null) {
    // A repeat, after the upload was removed because the key belongs to another job.
    const { namespace, key } = claim;
    if ((await parts.store.find({ namespace, key, limit: 1 })).jobs.length > 0) return;
  }
  const { stdinFile } = JSON.parse(payload) as { stdinFile?: StdinFile };
  if (found !== null && found.bytes === stdinFile?.bytes && found.sha256 === stdinFile.sha256) return;
  const problem =
    found === null ? "the upload does not exist, or was removed" : "its size or hash differs from stdinFile";
  throw new ConfigError({ path: "submit.upload", given: id, allowed: "the id of an upload that is complete", problem });
}

/** Removes uploads that are not needed, except those that a job was submitted with. */
export async function dropUploads({ store, outputs, log }: EngineParts, ids: readonly string[]): Promise<void> {
  try {
    const found = await store.facts(ids);
    await outputs?.delete(ids.filter((_, i) => found[i] == null));
  } catch (error) {
    // The jobs are stored anyway, and the pruner removes the uploads later.
    log("warn", `cannot remove the uploads ${ids.join(", ")}: ${String(error)}`);
  }
}

const PAGE = 100;

/** Removes uploads that no job was submitted with. A round checks a bounded number, and the next continues from there. */
export class UploadSweep {
  #after = "";

  async round(parts: EngineParts): Promise<number> {
    const { store, clock } = parts;
    if (parts.outputs?.inputs === undefined) return 0;
    const ids = await parts.outputs.inputs(this.#after, PAGE);
    this.#after = ids.length < PAGE ? "" : (ids.at(-1) as string);
    // Old, or from so far in the future that it never would be.
    const old = ids.filter((id) => Math.abs(timeOfId(id) - clock.now()) > KEPT_MS);
    if (old.length === 0) return 0;
    const found = await store.facts(old);
    const strays = old.filter((_, i) => found[i] == null);
    await parts.outputs.delete(strays);
    return strays.length;
  }
}

function filesOf({ outputs }: EngineParts): Pick<Blobs, "get" | "write"> {
  const { get, write } = outputs ?? {};
  if (get !== undefined && write !== undefined) return { get, write };
  throw new PerdureError("wrong_state", "this engine has no file storage, so it takes no uploads");
}
