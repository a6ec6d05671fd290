/** Files: logs and outputs of attempts, and uploads for commands. The bytes are untrusted: they are sent as attachments, which a
 *  browser does not render. A worker writes the files of an attempt that it holds, and reads those of earlier attempts of the job. */
import { Readable } from "node:stream";
import { HEADER, LIMIT } from "../../contract/wire.ts";
import { PerdureError } from "../../core/errors.ts";
import type { BlobFile } from "../../core/job/views.ts";
import type { JobRow } from "../../store/store.ts";
import { Download, type RouteCall, type RouteHandlers, type ServerParts } from "../context.ts";
import { findJob, heldAttempt } from "../find-job.ts";

interface OutputsPage {
  readonly attempts: { readonly attempt: number; readonly files: readonly BlobFile[]; readonly more: number }[];
  /** Continue with the attempts before this one. */
  readonly next: number | null;
}

/** Approximate characters of a file in a reply, besides its name and type. */
const FILE_CHARS = 150;

export function fileRoutes(parts: ServerParts): RouteHandlers {
  const { engine, blobs, outputLimit, limits } = parts;

  /** Pages begin with the latest attempts. */
  async function outputs(jobId: string, before: number, limit: number = LIMIT.outputs): Promise<OutputsPage> {
    const earlier = (await blobs.attempts(jobId)).filter((attempt) => attempt < before);
    const attempts: OutputsPage["attempts"] = [];
    for (let chars = 0; chars < limits.pageChars && attempts.length < limit && earlier.length > 0; ) {
      const attempt = earlier.pop() as number;
      const found = await blobs.list(jobId, attempt);
      attempts.unshift({ attempt, ...found });
      chars += found.files.reduce((sum, { name, mime }) => sum + name.length + mime.length + FILE_CHARS, 0);
    }
    return { attempts, next: earlier.length === 0 ? null : (attempts[0]?.attempt ?? null) };
  }

  async function file(call: RouteCall, jobId: string): Promise<Download> {
    const name = call.params["*"] as string;
    const source = await blobs.get(jobId, Number(call.params.attempt), name, offsetOf(call));
    if (source === null) throw new PerdureError("not_found", "the attempt has no such file");
    return new Download(source, attachment(name.split("/").at(-1) as string));
  }

  /** The whole log, read in pages. */
  async function logText(job: JobRow, wanted: number | null, offset: number) {
    const first = await engine.store.log(job.id, wanted);
    const attempt = first?.attempt ?? wanted ?? job.attempt;
    async function* pages(): AsyncGenerator<Uint8Array> {
      let skip = offset;
      for (let page = first; page !== null; page = await engine.store.log(job.id, attempt, page.next)) {
        const bytes = Buffer.from(page.text);
        if (skip < bytes.length) yield bytes.subarray(skip);
        skip = Math.max(0, skip - bytes.length);
      }
    }
    return { attempt, source: pages() };
  }

  async function logPage(job: JobRow, wanted: number | null, after: number): Promise<Download> {
    const page = await engine.store.log(job.id, wanted, after);
    const attempt = page?.attempt ?? wanted ?? job.attempt;
    const own = { [HEADER.attempt]: String(attempt), [HEADER.logNext]: String(page?.next ?? after) };
    return new Download(toStream([Buffer.from(page?.text ?? "")]), { ...attachment("log.log"), ...own });
  }

  /** The attempt that the caller holds, which must be the one of the path. */
  async function heldFile(call: RouteCall) {
    const { id, attempt } = await heldAttempt(parts, call);
    if (Number(call.params.attempt) !== attempt) {
      throw new PerdureError("lease_lost", "this lease is for another attempt");
    }
    return { id, attempt, name: call.params["*"] as string, upload: call.query.upload as number | undefined };
  }

  async function logFile(job: JobRow, wanted: number | null, name: string, offset: number) {
    const attempts = wanted === null ? (await blobs.attempts(job.id)).reverse() : [wanted];
    for (const attempt of attempts) {
      const source = await blobs.get(job.id, attempt, name, offset);
      if (source !== null) return { attempt, source };
    }
    return { attempt: wanted ?? job.attempt, source: [] };
  }

  return {
    async getLogs(call) {
      const job = await findJob(parts, call);
      const { attempt: wanted = null, stream = job.kind === "exec" ? "stdout" : "log" } = call.query as LogQuery;
      if (wanted !== null && wanted > job.attempt)
        throw new PerdureError("not_found", `${job.id} has no attempt ${wanted}`);
      const { after, offset: from } = call.query as LogQuery;
      if (after !== undefined) {
        if (stream === "log" && from === undefined) return logPage(job, wanted, after);
        const message = "after requires stream=log, and cannot be used together with offset";
        throw new PerdureError("invalid_request", message);
      }
      const offset = offsetOf(call);
      const { attempt, source } =
        stream === "log" ? await logText(job, wanted, offset) : await logFile(job, wanted, `${stream}.log`, offset);
      const headers = { ...attachment(`${stream}.log`), [HEADER.attempt]: String(attempt) };
      // Not wrapped into a generator: one that is never started would never close the file.
      return new Download(source instanceof Readable ? source : toStream(source), headers);
    },

    async listOutputs(call) {
      const { before = Number.POSITIVE_INFINITY, limit } = call.query as {
        readonly before?: number;
        readonly limit?: number;
      };
      return outputs((await findJob(parts, call)).id, before, limit);
    },
    getOutput: async (call) => file(call, (await findJob(parts, call)).id),

    async writeOutput(call) {
      const { id, attempt, name, upload } = await heldFile(call);
      // The client may have sent the piece again since, followed by others: this one must not be written any more.
      if (call.request.raw.destroyed) throw new PerdureError("invalid_request", "the client has disconnected");
      const length = call.request.headers["content-length"];
      const last = call.query.last === true;
      const options = {
        maxBytes: outputLimit,
        length: length === undefined ? undefined : Number(length),
        upload,
        last,
      };
      try {
        return await blobs.write(id, attempt, name, offsetOf(call), bodyOf(call), options);
      } finally {
        call.request.raw.resume(); // discard the unread rest, or the next request never arrives
      }
    },

    async removeOutput(call) {
      const { id, attempt, name, upload } = await heldFile(call);
      await blobs.remove(id, attempt, name, upload === undefined ? {} : { upload });
    },

    async listEarlierOutputs(call) {
      const { id, attempt } = await heldAttempt(parts, call);
      return outputs(id, attempt);
    },

    /** For any worker, whatever its namespace: only who has the playbook, or a job of it, knows the hash. */
    async getAsset(call) {
      const bytes = await engine.store.runs.asset(call.params.hash as string);
      if (bytes === null) throw new PerdureError("not_found", "the asset does not exist");
      return new Download(toStream([bytes]), attachment("asset"));
    },

    async readEarlierOutput(call) {
      const { id, attempt } = await heldAttempt(parts, call);
      if (Number(call.params.attempt) >= attempt) throw new PerdureError("not_found", "not an earlier attempt");
      return file(call, id);
    },
  };
}

/** Ending the iteration early does not destroy the connection, which is still needed for the reply. */
function bodyOf({ body }: RouteCall): AsyncIterable<Uint8Array> {
  return body instanceof Readable ? body.iterator({ destroyOnReturn: false }) : toStream([]);
}

interface LogQuery {
  readonly attempt?: number;
  readonly stream?: "stdout" | "stderr" | "log";
  readonly offset?: number;
  /** The position of a page of the log. */
  readonly after?: number;
}

function offsetOf({ query }: RouteCall): number {
  return (query.offset as number | undefined) ?? 0;
}

async function* toStream(chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* chunks;
}

/** The name is untrusted: its quotes, slashes and line ends must not get into a header. */
function attachment(name: string): Readonly<Record<string, string>> {
  const plain = name.replaceAll(/[^A-Za-z0-9._-]/g, "_").replace(/^\.+/, "_");
  const full = encodeURIComponent(name.toWellFormed()).replaceAll(/['()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`);
  return {
    "content-type": "application/octet-stream",
    "content-disposition": `attachment; filename="${plain}"; filename*=UTF-8''${full}`,
    "x-content-type-options": "nosniff",
  };
}

/** Uploads: inputs of commands that are too large for a request, sent in pieces before their job is submitted. */
export function uploadRoutes({ engine }: ServerParts): RouteHandlers {
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
        request.raw.resume(); // discard the unread rest, or the next request never arrives
      }
    },

    async getUpload({ params, namespace }) {
      const id = params.id as string;
      const found = await engine.readUpload(id, namespace);
      if (found === null) throw new PerdureError("not_found", `upload ${id} does not exist, or was removed`);
      return { id, ...found };
    },
  };
}

async function* nothing(): AsyncGenerator<Uint8Array> {}
