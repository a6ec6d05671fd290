/** The operations on queues, access tokens and uploads. */
import { Type } from "typebox";
import type { Operation } from "./schemas.ts";
import { Count, closed, JobId, Name, orNull, ScopeName, Span } from "./schemas.ts";
import { LIMIT } from "./wire.ts";
import { HealthSchema } from "./worker-schemas.ts";

// The operations on queues and on workers, as operators see them.

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

// The operations on tokens of a server.

const TokenInfo = closed({
  id: Type.String(),
  name: Type.String(),
  scopes: Type.Array(ScopeName),
  namespace: orNull(Name),
  createdAt: Type.Number(),
  expiresAt: orNull(Type.Number()),
  revokedAt: orNull(Type.Number()),
});

export const TOKEN_OPERATIONS = {
  createToken: {
    ...{ tag: "server", summary: "Make a token; it is shown this once", status: 201 },
    body: closed({
      name: Name,
      scopes: Type.Array(ScopeName, { minItems: 1, maxItems: 4 }),
      namespace: Type.Optional(orNull(Name)),
      expiresIn: Type.Optional(Span),
    }),
    reply: closed({ token: Type.String(), info: TokenInfo }),
  },
  listTokens: {
    tag: "server",
    summary: "Tokens, without their secrets, oldest first, a page at a time",
    description: "`next` is the `after` of the next page, null at the end.",
    query: closed({
      after: Type.Optional(Type.String({ minLength: 1, maxLength: 100, description: "A token's id." })),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT.tokens })),
    }),
    reply: closed({ tokens: Type.Array(TokenInfo), next: orNull(Type.String()) }),
  },
  revokeToken: {
    ...{
      tag: "server",
      summary: "Revoke a token",
      params: closed({ id: Type.String({ minLength: 1, maxLength: 100 }) }),
    },
    ...{ reply: null, status: 204 },
  },
} as const satisfies Readonly<Record<string, Operation>>;

// The operations on inputs that are uploaded before their job is submitted.

const OfUpload = closed({ id: JobId });

export const UPLOAD_OPERATIONS = {
  createUpload: {
    ...{ tag: "jobs", summary: "Begin the upload of an input for a command", status: 201 },
    description:
      "The bytes follow with `PUT`, up to 64 MiB in all. A submit names the id as `upload`, and its `input` has " +
      "`stdinFile` with `bytes` and `sha256`. It is for a submit within half an hour; one that no job was submitted with is removed after an hour.",
    reply: closed({ id: JobId }),
  },
  writeUpload: {
    ...{
      tag: "jobs",
      summary: "Write a piece of an upload at an offset",
      params: OfUpload,
      query: closed({ offset: Type.Optional(Count) }),
    },
    ...{ body: Type.Unknown(), bodyType: "application/octet-stream", reply: closed({ size: Count }) },
    description: "A piece that lies wholly within what is there is a repeat, and changes nothing.",
  },
  getUpload: {
    ...{ tag: "jobs", summary: "Get the size and the SHA-256 of an upload", params: OfUpload },
    reply: closed({ id: JobId, bytes: Count, sha256: Type.String() }),
  },
} as const satisfies Readonly<Record<string, Operation>>;
