/** Uploads: inputs of commands that are too large for a request, sent piece by piece before their job is submitted. */
import { Readable } from "node:stream";
import { PerdureError } from "../../core/errors.ts";
import type { Handlers, ServerParts } from "../parts.ts";

export function uploadRoutes({ engine }: ServerParts): Handlers {
  return {
    createUpload: async () => ({ id: engine.newUpload() }),

    async writeUpload({ params, query, body, request }) {
      const length = request.headers["content-length"];
      const offset = (query.offset as number | undefined) ?? 0;
      const source = body instanceof Readable ? body.iterator({ destroyOnReturn: false }) : nothing();
      try {
        return await engine.writeUpload(
          ...([params.id as string, offset, source] as const),
          length === undefined ? undefined : Number(length),
        );
      } finally {
        request.raw.resume(); // what was not wanted of it is read and thrown away, or the next request never comes
      }
    },

    async getUpload({ params, namespace }) {
      const id = params.id as string;
      const found = await engine.readUpload(id, namespace);
      if (found === null) throw new PerdureError("not_found", `there is no upload ${id}, or it was removed`);
      return { id, ...found };
    },
  };
}

async function* nothing(): AsyncGenerator<Uint8Array> {}
