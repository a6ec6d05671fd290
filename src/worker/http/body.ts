/** Reads and decompresses the body of a response, up to a number of bytes. Decompressed bytes are counted, so that a zip bomb is
 *  cut off at the limit, and so are compressed bytes, since compressed data may expand to nothing.
 *  Not promised: a `content-encoding` that was not requested. Such a body is left as it is. */
import type { IncomingMessage } from "node:http";
import type { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress, createUnzip } from "node:zlib";

export interface Body {
  readonly bytes: Buffer;
  /** There was more. */
  readonly isCut: boolean;
}

/** `deflate` is supported but not requested: servers do not agree on its format. */
export const ACCEPT_ENCODING = "gzip, br";

/** A body that cannot be compressed is slightly larger in compressed form. */
const COMPRESSION_OVERHEAD = 65_536;

const CUT = Symbol("cut");

export async function readBody(
  response: IncomingMessage,
  encoding: string | undefined,
  maxBytes: number,
  signal: AbortSignal,
): Promise<Body> {
  const chunks: Buffer[] = [];
  let compressed = 0;
  let size = 0;

  async function* counted(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of source) {
      compressed += chunk.length;
      if (compressed > maxBytes + COMPRESSION_OVERHEAD) throw CUT;
      yield chunk;
    }
  }
  async function collect(source: AsyncIterable<Buffer>): Promise<void> {
    for await (const chunk of source) {
      const left = maxBytes - size;
      chunks.push(chunk.length > left ? chunk.subarray(0, left) : chunk);
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
    // Replies to HEAD, 204, and some other replies have an encoding but no body, which decoders treat as an error.
    const isEmpty = compressed === 0 && response.complete && !signal.aborted;
    if (!isEmpty) throw error;
  }
  return { bytes: Buffer.concat(chunks), isCut: false };
}

function decoderFor(encoding: string | undefined): Transform | null {
  switch (encoding?.trim().toLowerCase()) {
    case "gzip":
    case "x-gzip":
    case "deflate":
      return createUnzip(); // detects the format by its first bytes
    case "br":
      return createBrotliDecompress();
    default:
      return null;
  }
}
