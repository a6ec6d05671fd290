/** The operations on inputs that are uploaded before their job is submitted. */
import { Type } from "typebox";
import type { Operation } from "./operations.ts";
import { Count, closed, JobId } from "./schemas.ts";

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
