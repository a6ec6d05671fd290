/** Sends an input for a command to the server, piece by piece: a piece whose reply was lost is sent again, and changes nothing. */
import type { Uploaded } from "../core/face.ts";
import type { HttpLink } from "./http-call.ts";

/** Few round trips, and little to send again. */
const PIECE_BYTES = 4 * 1_048_576;

export async function upload(link: HttpLink, source: AsyncIterable<Uint8Array>): Promise<Uploaded> {
  const { id } = await link.json<{ id: string }>("createUpload");
  let offset = 0;
  const send = async (body: Uint8Array<ArrayBuffer>) => {
    const query = new URLSearchParams({ offset: String(offset) });
    await link.json("writeUpload", { params: { id }, query, body, repeatable: true });
    offset += body.length;
  };
  const piece = new Uint8Array(PIECE_BYTES);
  let filled = 0;
  for await (const chunk of source) {
    for (let from = 0; from < chunk.length; ) {
      const part = chunk.subarray(from, from + PIECE_BYTES - filled);
      piece.set(part, filled);
      filled += part.length;
      from += part.length;
      if (filled < PIECE_BYTES) continue;
      await send(piece);
      filled = 0;
    }
  }
  // An empty input is one too.
  if (filled > 0 || offset === 0) await send(piece.subarray(0, filled));
  return link.json<Uploaded>("getUpload", { params: { id } });
}
