/** The worker protocol: sessions, claims, reports, files of attempts and children. */
import { Type } from "typebox";
import {
  Count,
  closed,
  FromOffset,
  JobId,
  JobRequest,
  type Operation,
  OutputsSchema,
  open,
  orNull,
  Submitted,
  Wait,
} from "../schemas.ts";
import { LIMIT } from "../wire.ts";
import {
  ChildStateSchema,
  ClaimAnswerSchema,
  ClaimRequestSchema,
  LookRequestSchema,
  NoticeSchema,
  RenewAnswerSchema,
  RenewRequestSchema,
  ReportAnswerSchema,
  ReportSchema,
  SessionOpened,
  SessionRequestSchema,
} from "../worker-schemas.ts";

const OfSession = closed({ session: Type.String({ minLength: 1, maxLength: 100 }) });
const OfSessionJob = closed({ session: Type.String({ minLength: 1, maxLength: 100 }), id: JobId });
const OfSessionFile = closed({
  session: Type.String({ minLength: 1, maxLength: 100 }),
  id: JobId,
  attempt: Type.Integer({
    minimum: 0,
    maximum: 1_000_000_000,
    description: "0: the stored input of the job (`stdin`).",
  }),
  "*": Type.String({ minLength: 1, maxLength: 1_024 }),
});

const Upload = Type.Optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }));

export const SESSION_OPERATIONS = {
  openSession: {
    ...{ tag: "worker protocol", summary: "Register a worker", body: SessionRequestSchema },
    ...{ reply: SessionOpened, status: 201 },
  },
  closeSession: {
    ...{ tag: "worker protocol", summary: "Close a session", params: OfSession, session: true },
    ...{ reply: null, status: 204 },
  },
  renewSession: {
    ...{ tag: "worker protocol", summary: "Renew the leases of all held attempts", params: OfSession, session: true },
    ...{ body: RenewRequestSchema, reply: RenewAnswerSchema },
  },
  claimJobs: {
    ...{ tag: "worker protocol", summary: "Claim due jobs, or wait for one", params: OfSession, session: true },
    ...{ body: ClaimRequestSchema, reply: ClaimAnswerSchema },
    isHeld: true,
  },
  reportAttempts: {
    ...{ tag: "worker protocol", summary: "Report how attempts ended", params: OfSession, session: true },
    body: open({ reports: Type.Array(ReportSchema, { minItems: 1, maxItems: LIMIT.reports }) }),
    reply: closed({ answers: Type.Array(ReportAnswerSchema) }),
  },
  waitForNotice: {
    ...{ tag: "worker protocol", summary: "Wait for a cancel or a drain", params: OfSession, session: true },
    body: open({ waitMs: Type.Optional(Wait) }),
    reply: NoticeSchema,
    isHeld: true,
  },
  writeOutput: {
    ...{
      tag: "worker protocol",
      summary: "Write a file of an attempt at an offset",
      params: OfSessionFile,
      query: closed({ offset: Type.Optional(Count), upload: Upload, last: Type.Optional(Type.Boolean()) }),
    },
    ...{ session: true, lease: true, body: Type.Unknown(), bodyType: "application/octet-stream" },
    description:
      "Replaces the file from the offset on. A piece that was already written is a repeat, and changes nothing; an empty piece " +
      "truncates the file there. If the offset is beyond the present size, nothing is written, and the reply has that size. " +
      "With `upload`, a number of the caller's choice, the bytes are staged under it, and offset and size refer to the " +
      "staged bytes: the piece with `last=true` replaces the file with them at once.",
    reply: closed({ size: Count }),
  },
  removeOutput: {
    ...{ tag: "worker protocol", summary: "Remove a file of an attempt", params: OfSessionFile, status: 204 },
    ...{ session: true, lease: true, query: closed({ upload: Upload }), reply: null },
    description:
      "With `upload`, only what that upload has staged. Removing a file that does not exist is not an error.",
  },
  submitChild: {
    ...{ tag: "worker protocol", summary: "Submit a child of an attempt", params: OfSessionJob, body: JobRequest },
    ...{ reply: Submitted, status: 201, session: true, lease: true },
    description: "Its key is unique among the children of its parent: a repeat finds the same child.",
  },
  lookChildren: {
    ...{ tag: "worker protocol", summary: "Get the children of an attempt", params: OfSessionJob },
    ...{ body: LookRequestSchema, session: true, lease: true },
    description:
      "A reply holds about eight megabytes. With `ids`, it has as many of these children as fit, from the first on and at " +
      "least one: request the rest again. Without, it is a page of all children, oldest first: `next` is the `cursor` of the " +
      "next page, null at the end.",
    reply: closed({ children: Type.Array(ChildStateSchema), next: orNull(Type.String()) }),
  },
  listEarlierOutputs: {
    ...{ tag: "worker protocol", summary: "Files of the earlier attempts of a held job", params: OfSessionJob },
    description: "Those of the latest attempts, as many as one page holds.",
    ...{ session: true, lease: true, reply: OutputsSchema },
  },
  readEarlierOutput: {
    ...{ tag: "worker protocol", summary: "One file of an earlier attempt of a held job", params: OfSessionFile },
    ...{ session: true, lease: true, query: FromOffset, replyType: "application/octet-stream", reply: Type.Unknown() },
  },
  getAsset: {
    ...{ tag: "worker protocol", summary: "Content that was stored with a playbook, by its SHA-256" },
    params: closed({ hash: Type.String({ pattern: "^[0-9a-f]{64}$" }) }),
    ...{ replyType: "application/octet-stream", reply: Type.Unknown() },
  },
} as const satisfies Readonly<Record<string, Operation>>;
