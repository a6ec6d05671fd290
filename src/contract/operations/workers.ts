/** Workers, as operators see them. */
import { Type } from "typebox";
import { closed, type Operation, orNull, upTo } from "../schemas.ts";
import { LIMIT } from "../wire.ts";
import { HealthSchema } from "../worker-schemas.ts";

const SessionName = Type.String({ minLength: 1, maxLength: 100, description: "A session." });

export const WORKER_OPERATIONS = {
  listWorkers: {
    ...{ tag: "workers", summary: "Workers that are alive or ended recently, oldest first, a page at a time" },
    description: "`next` is the `after` of the next page, null at the end.",
    query: closed({
      after: Type.Optional(SessionName),
      limit: upTo(LIMIT.workers),
    }),
    reply: closed({
      workers: Type.Array(Type.Object({ id: Type.String(), name: Type.String(), health: orNull(HealthSchema) })),
      next: orNull(Type.String()),
    }),
    isSearch: true,
    jobToken: true,
  },
  drainWorker: {
    ...{
      tag: "workers",
      summary: "Drain a worker: it claims no more jobs, and ends when it has finished those it holds",
      params: closed({ session: SessionName }),
    },
    ...{ reply: null, status: 204 },
  },
} as const satisfies Readonly<Record<string, Operation>>;
