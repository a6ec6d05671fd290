/** Files over the wire: what the attempts of a job left, and inputs for commands, uploaded piece by piece. A piece
 *  whose reply was lost is sent again and changes nothing. */
import { HEADER } from "../contract/wire.ts";
import type { JobOutputs, LogPage, Uploaded } from "../core/api/outputs.ts";
import { asInteger } from "../core/check.ts";
import { PerdureError } from "../core/errors.ts";
import type { BlobFile } from "../core/job/views.ts";
import { sleep } from "../lib/clock.ts";
import { systemTimers } from "../lib/system-timers.ts";
import { CallBackoff } from "../wire/repeat.ts";
import { unreachable, wordsOf } from "../wire/wire-error.ts";
import type { ClientHttpLink, OpenedReply } from "./http-call.ts";

interface WireOutputs {
  readonly attempts: readonly {
    readonly attempt: number;
    readonly files: readonly BlobFile[];
    readonly more: number;
  }[];
  /** Missing from a server of version 0.1.0, which sends all attempts. */
  readonly next?: number | null;
}

/** Interrupted reads in a row before the reader gets an error. */
const MAX_BREAKS = 5;

export async function jobOutputs(link: ClientHttpLink, id: string): Promise<JobOutputs> {
  const list = (page: Readonly<Record<string, string>>) =>
    link.json<WireOutputs>("listOutputs", { params: { id }, query: new URLSearchParams(page) });
  // The latest attempts come first; only their numbers are kept.
  const pages: number[][] = [];
  let isPaged = true;
  for (let page = await list({}); ; page = await list({ before: String(page.next) })) {
    pages.unshift(page.attempts.map(({ attempt }) => attempt));
    isPaged = page.next !== undefined;
    if (page.next == null) break;
  }
  return {
    attempts: pages.flat(),
    async files(attempt) {
      asInteger(attempt, "files.attempt", { min: 0 });
      // Requested again: an attempt may have left more since.
      const found = (await list(isPaged ? { before: String(attempt + 1), limit: "1" } : {})).attempts.find(
        (each) => each.attempt === attempt,
      );
      return { files: found?.files ?? [], more: found?.more ?? 0 };
    },
    async read(attempt, name, offset = 0) {
      asInteger(offset, "read.offset", { min: 0 });
      if (!isSane(attempt, name)) return null;
      const from = (at: number) => openFile(link, id, attempt, name, at);
      const opened = await from(offset);
      return opened === null ? null : bytes(link.base, opened, offset, from);
    },
    async log(attempt, after = 0) {
      asInteger(after, "log.after", { min: 0 });
      return logPage(link, id, asInteger(attempt, "log.attempt", { min: 1 }), after);
    },
  };
}

/** A text that cannot be the name of a file must not become part of a URL. */
function isSane(attempt: number, name: string): boolean {
  const isPlace = Number.isSafeInteger(attempt) && attempt >= 1 && typeof name === "string";
  return isPlace && name.split("/").every((part) => part !== "" && part !== "." && part !== "..");
}

async function logPage(link: ClientHttpLink, id: string, attempt: number, after: number): Promise<LogPage> {
  const query = new URLSearchParams({ attempt: String(attempt), stream: "log", after: String(after) });
  const headers = { accept: "application/octet-stream" };
  const opened = await link.open("getLogs", { params: { id }, query, headers });
  try {
    const text = await opened.response.text();
    return { text, next: Number(opened.response.headers.get(HEADER.logNext) ?? after) };
  } catch (error) {
    throw unreachable({ server: link.base }, `a log broke off (${wordsOf(error)})`);
  } finally {
    opened.stop();
  }
}

/** Null if it does not exist. */
async function openFile(link: ClientHttpLink, id: string, attempt: number, name: string, offset: number) {
  const query = new URLSearchParams(offset === 0 ? {} : { offset: String(offset) });
  try {
    const headers = { accept: "application/octet-stream" };
    return await link.open("getOutput", { params: { id, attempt }, rest: name, query, headers });
  } catch (error) {
    if (error instanceof PerdureError && (error.code === "not_found" || error.code === "job_not_found")) return null;
    throw error;
  }
}

/** The bytes; where a reply breaks off, the rest is requested. */
async function* bytes(
  server: string,
  first: OpenedReply,
  offset: number,
  from: (offset: number) => Promise<OpenedReply | null>,
): AsyncGenerator<Uint8Array, void, void> {
  const backoff = new CallBackoff(Math.random);
  let at = offset;
  let breaks = 0;
  for (let opened: OpenedReply | null = first; opened !== null; ) {
    let broken: unknown = null;
    try {
      const reader = (opened.response.body as ReadableStream<Uint8Array>).getReader();
      for (;;) {
        const { done, chunk, error } = await readChunk(reader);
        if (done) return;
        if (chunk === null) {
          broken = error;
          break;
        }
        breaks = 0;
        backoff.reset();
        at += chunk.byteLength;
        yield chunk;
      }
    } finally {
      opened.stop();
    }
    breaks += 1;
    if (breaks > MAX_BREAKS) throw unreachable({ server }, `a file broke off (${wordsOf(broken)})`);
    await sleep(systemTimers, backoff.after(broken));
    opened = await from(at);
  }
  throw new PerdureError("not_found", "the file was removed while it was read");
}

async function readChunk(reader: ReadableStreamDefaultReader<Uint8Array>) {
  try {
    const { done, value } = await reader.read();
    return { done, chunk: value ?? null, error: null };
  } catch (error) {
    return { done: false, chunk: null, error };
  }
}

/** Large enough for few round trips, small enough to send again. */
const PIECE_BYTES = 4 * 1_048_576;

export async function upload(link: ClientHttpLink, source: AsyncIterable<Uint8Array>): Promise<Uploaded> {
  const { id } = await link.json<{ id: string }>("createUpload");
  let offset = 0;
  const send = async (body: Uint8Array<ArrayBuffer>) => {
    const query = new URLSearchParams({ offset: String(offset) });
    await link.json("writeUpload", { params: { id }, query, body, repeatable: true });
    offset += body.length;
  };
  const piece = new Uint8Array(PIECE_BYTES);
  let filled = 0;
  for await (const chunk of source) {
    for (let from = 0; from < chunk.length; ) {
      const part = chunk.subarray(from, from + PIECE_BYTES - filled);
      piece.set(part, filled);
      filled += part.length;
      from += part.length;
      if (filled < PIECE_BYTES) continue;
      await send(piece);
      filled = 0;
    }
  }
  // An empty input is sent as well.
  if (filled > 0 || offset === 0) await send(piece.subarray(0, filled));
  return link.json<Uploaded>("getUpload", { params: { id } });
}
