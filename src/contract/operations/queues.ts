/** Queues: counts, pause and resume. */
import { Type } from "typebox";
import { closed, Name, type Operation, orNull, upTo } from "../schemas.ts";
import { LIMIT } from "../wire.ts";

const OfQueue = closed({ queue: Name });

export const QUEUE_OPERATIONS = {
  listQueues: {
    ...{ tag: "queues", summary: "Queues with their counts, by name, a page at a time" },
    description:
      "`next` is the `after` of the next page, null at the end. " +
      "Exact up to 10,000 jobs. With more jobs, counts may be up to two seconds old for each million of jobs.",
    query: closed({ after: Type.Optional(Name), limit: upTo(LIMIT.queues) }),
    reply: closed({
      queues: Type.Array(Type.Object({ queue: Name, paused: Type.Boolean() })),
      next: orNull(Name),
    }),
    isSearch: true,
  },
  pauseQueue: {
    tag: "queues",
    summary: "Pause a queue: start no more of its jobs",
    params: OfQueue,
    reply: null,
    status: 204,
  },
  resumeQueue: { tag: "queues", summary: "Resume a queue", params: OfQueue, reply: null, status: 204 },
} as const satisfies Readonly<Record<string, Operation>>;
