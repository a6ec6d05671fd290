/** What attempts leave outside the database, and inputs that are uploaded before their job is submitted. */
import { Type } from "typebox";
import {
  AttemptNumber,
  Count,
  closed,
  FromOffset,
  JobId,
  OfJob,
  type Operation,
  OutputsSchema,
  Place,
  upTo,
  words,
} from "../schemas.ts";
import { LIMIT } from "../wire.ts";

const OfFile = closed({ id: JobId, attempt: AttemptNumber, "*": Type.String({ minLength: 1, maxLength: 1_024 }) });
const OfUpload = closed({ id: JobId });

export const OUTPUT_OPERATIONS = {
  getLogs: {
    ...{
      tag: "jobs",
      summary: "Get what an attempt wrote",
      params: OfJob,
      replyType: "application/octet-stream",
      reply: Type.Unknown(),
    },
    description:
      "`stream` is stdout, stderr, or log (what a task logged); default: stdout of a command, else log. Without `attempt`, " +
      "of the latest attempt that wrote something. The header Perdure-Attempt names the attempt. Empty if it wrote nothing. " +
      "To follow a log, pass `after` (0 at first): the reply is one page, and the header Perdure-Log-Next is the `after` of " +
      "the next page.",
    query: closed({
      attempt: Type.Optional(AttemptNumber),
      stream: Type.Optional(words(["stdout", "stderr", "log"])),
      offset: Type.Optional(Count),
      after: Type.Optional(Place),
    }),
    isSearch: true,
    jobToken: true,
  },
  listOutputs: {
    ...{ tag: "jobs", summary: "Files that the attempts of a job left, a page at a time", params: OfJob },
    description:
      "The latest attempts, in order. `next` is the `before` of the page with earlier ones, null at the end.",
    query: closed({ before: Type.Optional(Count), limit: upTo(LIMIT.outputs) }),
    reply: OutputsSchema,
    isSearch: true,
    jobToken: true,
  },
  getOutput: {
    ...{ tag: "jobs", summary: "One file: stdout.log, stderr.log, result.json or artifacts/NAME", params: OfFile },
    ...{ query: FromOffset, replyType: "application/octet-stream", reply: Type.Unknown() },
    jobToken: true,
  },
  createUpload: {
    ...{ tag: "jobs", summary: "Start the upload of an input for a command", status: 201 },
    description:
      "Send the bytes with `PUT`, up to 64 MiB in total. A submit names the id as `upload`, and its `input` has " +
      "`stdinFile` with `bytes` and `sha256`. Submit the job within half an hour; an upload without a job is removed after an hour.",
    reply: closed({ id: JobId }),
    jobToken: true,
  },
  writeUpload: {
    ...{
      tag: "jobs",
      summary: "Write a piece of an upload at an offset",
      params: OfUpload,
      query: closed({ offset: Type.Optional(Count) }),
    },
    ...{ body: Type.Unknown(), bodyType: "application/octet-stream", reply: closed({ size: Count }) },
    description: "A piece that was already written is a repeat, and changes nothing.",
    jobToken: true,
  },
  getUpload: {
    ...{ tag: "jobs", summary: "Get the size and the SHA-256 of an upload", params: OfUpload },
    reply: closed({ id: JobId, bytes: Count, sha256: Type.String() }),
    jobToken: true,
  },
} as const satisfies Readonly<Record<string, Operation>>;
