/** Writes files of attempts into the database: one short transaction for each chunk, so that a slow sender keeps nobody
 *  waiting. A write that breaks off leaves what had come so far; whoever sends it goes on from there, or begins again. */
import { createHash } from "node:crypto";
import { checkedParts, checkPlace, isRepeat, nameTaken, tooLarge } from "../blob-name.ts";
import type { Blobs } from "../blobs.ts";
import { texts } from "./arrays.ts";
import type { Call } from "./blobs.ts";
import type { Connection } from "./connections.ts";
import type { Context } from "./context.ts";
import type { Statement } from "./driver.ts";

/** Large enough that a chunk costs little beside its bytes, small enough to be held in memory a few times. */
const CHUNK_BYTES = 262_144;
/** "BLOB": of an attempt, while the bytes of all its files are counted. */
const TALLY_LOCK = 0x424c4f42;

type File = readonly [jobId: string, attempt: number, name: string];

export function blobWriter({ db, sql }: Context, call: Call, keepHash: Statement): Blobs["write"] {
  const THE_FILE = "job = $1 and attempt = $2 and name = $3";
  const make = sql(
    "blob_make",
    "insert into $s.blob (job, attempt, name, size) values ($1, $2, $3, 0) on conflict do nothing returning 1",
  );
  // A file where a folder of this one would be, or the other way round. "0" follows "/".
  const rivals = sql(
    "blob_rivals",
    `select 1 from $s.blob where job = $1 and attempt = $2
       and (name = any ($4::text[]) or (name > $3::text || '/' and name < $3::text || '0')) limit 1`,
  );
  const lock = sql("blob_lock", `select size from $s.blob where ${THE_FILE} for update`);
  const dropAfter = sql("blob_cut", `delete from $s.blob_chunk where ${THE_FILE} and off >= $4`);
  const shorten = sql(
    "blob_shorten",
    `update $s.blob_chunk set body = substring(body from 1 for ($4::bigint - off)::int) where ${THE_FILE}
       and off = (select max(off) from $s.blob_chunk where ${THE_FILE} and off < $4) and off + octet_length(body) > $4`,
  );
  const resize = sql("blob_resize", `update $s.blob set size = $4, sha256 = null where ${THE_FILE}`);
  const sizeOf = sql("blob_size", `select size from $s.blob where ${THE_FILE}`);
  const add = sql(
    "blob_add",
    `with grown as (
       update $s.blob set size = size + $6::int, sha256 = null where ${THE_FILE} and size = $4 returning 1
     )
     insert into $s.blob_chunk (job, attempt, name, off, body) select $1, $2, $3, $4, $5::bytea from grown returning 1`,
  );
  const lockAll = sql("blob_tally_lock", "select pg_advisory_xact_lock($1, hashtext($2::text || ' ' || $3::text))");
  const tally = sql("blob_tally", "select coalesce(sum(size), 0)::bigint from $s.blob where job = $1 and attempt = $2");

  /** Ends the file at this place. Null: it may be written from there on; else its size, and nothing was changed. */
  async function cut(
    connection: Connection,
    file: File,
    parts: readonly string[],
    offset: number,
    length: number | undefined,
  ) {
    if (offset === 0 && (await connection.ask(make, file)).length > 0) {
      const folders = parts.slice(1, -1).map((_, i) => parts.slice(0, i + 2).join("/"));
      if ((await connection.ask(rivals, [...file, texts(folders)])).length > 0) throw nameTaken(file[2]);
      return null;
    }
    const [[size] = []] = (await connection.ask(lock, file)) as [number][];
    if (size === undefined || offset > size) return size ?? 0;
    if (isRepeat(offset, length, size)) return size;
    if (offset < size) {
      for (const each of [dropAfter, shorten, resize]) await connection.ask(each, [...file, offset]);
    }
    return null;
  }

  /** Adds a chunk at the end. A size: somebody else wrote meanwhile, and this was not added. */
  async function append(file: File, at: number, body: Buffer, maxBytes: number | undefined): Promise<number | null> {
    const values = [...file, at, body, body.length];
    const added =
      maxBytes === undefined
        ? await db.write(add, values, { repeat: true })
        : await db.transaction(
            async (connection) => {
              await connection.ask(lockAll, [TALLY_LOCK, file[0], String(file[1])]);
              const [[bytes] = [0]] = (await connection.ask(tally, [file[0], file[1]])) as [number][];
              if (bytes + body.length > maxBytes) throw tooLarge(file[2], maxBytes);
              return connection.ask(add, values);
            },
            { repeat: true },
          );
    if (added.length > 0) return null;
    const [[size] = []] = (await db.read(sizeOf, file)) as [number][];
    // It was done by a try that nobody heard of.
    return size === at + body.length ? null : (size ?? 0);
  }

  return async (jobId, attempt, name, offset, source, { maxBytes, length } = {}) => {
    checkPlace(attempt, offset);
    const parts = checkedParts(name);
    const file: File = [jobId, attempt, name];
    // Only when something is there to take its place: a caller may be gone before it has sent a byte.
    const chunks = inChunks(source);
    try {
      return await put(file, parts, offset, chunks, maxBytes, length);
    } finally {
      await chunks.return(); // whoever sends the rest is not kept waiting
    }
  };

  async function put(
    file: File,
    parts: readonly string[],
    offset: number,
    chunks: AsyncGenerator<Buffer, void, void>,
    maxBytes: number | undefined,
    length: number | undefined,
  ): Promise<{ readonly size: number }> {
    let next = await chunks.next();
    const size = await call(() =>
      db.transaction((connection) => cut(connection, file, parts, offset, length), { repeat: true }),
    );
    if (size !== null) return { size };
    const hash = createHash("sha256");
    let at = offset;
    for (; next.done !== true; next = await chunks.next()) {
      const body = next.value;
      hash.update(body);
      const rival = await call(() => append(file, at, body, maxBytes));
      if (rival !== null) return { size: rival };
      at += body.length;
    }
    const whole = [...file, hash.digest("hex"), at];
    if (offset === 0) await call(() => db.write(keepHash, whole, { repeat: true }));
    return { size: at };
  }
}

/** The same bytes in pieces of one size, however they come. */
async function* inChunks(source: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer, void, void> {
  let waiting: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of source) {
    for (let from = 0; from < piece.length; ) {
      const part = piece.subarray(from, from + CHUNK_BYTES - bytes);
      waiting.push(part);
      bytes += part.length;
      from += part.length;
      if (bytes < CHUNK_BYTES) continue;
      yield Buffer.concat(waiting);
      waiting = [];
      bytes = 0;
    }
  }
  if (bytes > 0) yield Buffer.concat(waiting);
}
