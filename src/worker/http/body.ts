/** Reads a response's body up to a number of bytes, unpacked. What was packed is counted as it comes out, so that a
 *  bomb is cut after its first megabyte; what goes in is counted too, since packed data need not come to anything.
 *  Not promised: text in a `content-encoding` that we never asked for. It is left as it is. */
import type { IncomingMessage } from "node:http";
import type { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress, createUnzip } from "node:zlib";

export interface Body {
  readonly bytes: Buffer;
  /** There was more. */
  readonly isCut: boolean;
}

/** `deflate` is understood but not asked for: servers do not agree on what it is. */
export const ACCEPT_ENCODING = "gzip, br";

/** Packed, a body that cannot be made smaller is a little larger than itself. */
const PACKING_ROOM = 65_536;

const CUT = Symbol("cut");

export async function readBody(
  response: IncomingMessage,
  encoding: string | undefined,
  maxBytes: number,
  signal: AbortSignal,
): Promise<Body> {
  const chunks: Buffer[] = [];
  let packed = 0;
  let size = 0;

  async function* counted(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of source) {
      packed += chunk.length;
      if (packed > maxBytes + PACKING_ROOM) throw CUT;
      yield chunk;
    }
  }
  async function collect(source: AsyncIterable<Buffer>): Promise<void> {
    for await (const chunk of source) {
      const room = maxBytes - size;
      chunks.push(chunk.length > room ? chunk.subarray(0, room) : chunk);
      size += chunk.length;
      if (size > maxBytes) throw CUT;
    }
  }

  const decoder = decoderFor(encoding);
  try {
    if (decoder === null) await pipeline(response, collect, { signal });
    else await pipeline(response, counted, decoder, collect, { signal });
  } catch (error) {
    if (error === CUT) return { bytes: Buffer.concat(chunks), isCut: true };
    // HEAD, 204 and careless servers name an encoding and send nothing, which no decoder takes for an end.
    const isEmpty = packed === 0 && response.complete && !signal.aborted;
    if (!isEmpty) throw error;
  }
  return { bytes: Buffer.concat(chunks), isCut: false };
}

function decoderFor(encoding: string | undefined): Transform | null {
  switch (encoding?.trim().toLowerCase()) {
    case "gzip":
    case "x-gzip":
    case "deflate":
      return createUnzip(); // by its first bytes it knows the one from the other
    case "br":
      return createBrotliDecompress();
    default:
      return null;
  }
}
