/** The handlers of all routes, from the files in `routes`. */
import type { Handlers, ServerParts } from "./parts.ts";
import { eventRoutes } from "./routes/events.ts";
import { fileRoutes } from "./routes/files.ts";
import { jobRoutes } from "./routes/jobs.ts";
import { metaRoutes } from "./routes/meta.ts";
import { queueRoutes } from "./routes/queues.ts";
import { sessionRoutes } from "./routes/sessions.ts";
import { tokenRoutes } from "./routes/tokens.ts";
import { uploadRoutes } from "./routes/uploads.ts";
import { workerRoutes } from "./routes/workers.ts";

export function allHandlers(parts: ServerParts): Handlers {
  return {
    ...jobRoutes(parts),
    ...eventRoutes(parts),
    ...fileRoutes(parts),
    ...uploadRoutes(parts),
    ...sessionRoutes(parts),
    ...queueRoutes(parts),
    ...workerRoutes(parts),
    ...tokenRoutes(parts),
    ...metaRoutes(parts),
  };
}
