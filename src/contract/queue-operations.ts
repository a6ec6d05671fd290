/** The operations on queues and on workers, as operators see them. */
import { Type } from "typebox";
import type { Operation } from "./operations.ts";
import { closed, Name, orNull } from "./schemas.ts";
import { LIMIT } from "./wire.ts";
import { HealthSchema } from "./worker-schemas.ts";

const OfQueue = closed({ queue: Name });
const SessionName = Type.String({ minLength: 1, maxLength: 100, description: "A session." });
const upTo = (most: number) => Type.Optional(Type.Integer({ minimum: 1, maximum: most }));

export const QUEUE_OPERATIONS = {
  listQueues: {
    ...{ tag: "queues", summary: "Queues with their counts, by name, a page at a time" },
    description:
      "`next` is the `after` of the next page, null at the end. " +
      "Exact up to 10,000 jobs. With more the counts may be up to two seconds old for each million of jobs.",
    query: closed({ after: Type.Optional(Name), limit: upTo(LIMIT.queues) }),
    reply: closed({
      queues: Type.Array(Type.Object({ queue: Name, paused: Type.Boolean() })),
      next: orNull(Name),
    }),
  },
  pauseQueue: { tag: "queues", summary: "Start no more jobs of a queue", params: OfQueue, reply: null, status: 204 },
  resumeQueue: { tag: "queues", summary: "Start jobs of a queue again", params: OfQueue, reply: null, status: 204 },

  listWorkers: {
    ...{ tag: "workers", summary: "Workers that are alive or ended lately, oldest first, a page at a time" },
    description: "`next` is the `after` of the next page, null at the end.",
    query: closed({
      after: Type.Optional(SessionName),
      limit: upTo(LIMIT.workers),
    }),
    reply: closed({
      workers: Type.Array(Type.Object({ id: Type.String(), name: Type.String(), health: orNull(HealthSchema) })),
      next: orNull(Type.String()),
    }),
  },
  drainWorker: {
    ...{
      tag: "workers",
      summary: "Have a worker finish what it holds and leave",
      params: closed({ session: SessionName }),
    },
    ...{ reply: null, status: 204 },
  },
} as const satisfies Readonly<Record<string, Operation>>;
