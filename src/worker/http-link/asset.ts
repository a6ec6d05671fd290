/** Fetches an asset from the server. */
import { isGone } from "../../wire/repeat.ts";
import { type LinkParts, untilAnswered } from "./link-parts.ts";

/** Above the limit of a playbook's file, with room for what other versions of the server allow. */
const MAX_BYTES = 16 * 1_048_576;

/** Null if it does not exist. Repeated while the server cannot be reached. */
export async function fetchAsset(parts: LinkParts, hash: string): Promise<Uint8Array | null> {
  const { calls, closed, outage } = parts;
  try {
    const bytes = await untilAnswered(parts, () => collected(calls.bytes("getAsset", { params: { hash } })), {
      signal: closed,
    });
    outage.answered();
    return bytes;
  } catch (error) {
    if (isGone(error)) return null;
    throw error;
  }
}

async function collected(stream: AsyncIterable<Buffer>): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stream) {
    size += chunk.length;
    if (size > MAX_BYTES) throw new Error(`an asset has more than ${MAX_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size);
}
