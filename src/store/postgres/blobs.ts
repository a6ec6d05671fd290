/** Files of jobs in the database, in chunks: reads, lists, writes and removes them. */
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { mimeOf } from "../../files/plain-files.ts";
import { isId } from "../../lib/id.ts";
import {
  ARTIFACTS,
  type BlobFile,
  type Blobs,
  checkedParts,
  checkPlace,
  checkUpload,
  isRepeat,
  isTooLarge,
  isWhole,
  nameTaken,
  partsOf,
  STAGED,
  tooLarge,
} from "../blobs.ts";
import { texts } from "./arrays.ts";
import type { PgConnection } from "./connections.ts";
import type { PostgresContext } from "./context.ts";
import { LONG, type PgRow, type PgStatement, type PgValue } from "./driver.ts";

// One row per file, and its bytes in chunks, for servers without a shared disk. Bytes are transferred a chunk at a
// time; no transaction waits for a sender or reader. Attempts cannot write here directly: there are no directories.

/** Wraps every call of the store, so that closing it waits for calls in progress. */
type RunBlobCall = <T>(give: () => Promise<T>) => Promise<T>;

const MAX_FILES = 1_000;
const PREFIX = `${ARTIFACTS}/`;

export function postgresBlobs(context: PostgresContext, call: RunBlobCall): Blobs {
  const { db, sql } = context;
  const THE_FILE = "job = $1 and attempt = $2 and name = $3";
  const attemptsOf = sql(
    "blob_attempts",
    "select distinct attempt from $s.blob where job = $1 and attempt > 0 order by attempt",
  );
  const inputsAfter = sql(
    "blob_inputs",
    "select job from $s.blob where attempt = 0 and job > $1 order by job limit $2",
  );
  const sizeOf = sql("blob_size", `select size from $s.blob where ${THE_FILE}`);
  // The chunk that contains a byte, or the last one before it.
  const chunkAt = sql(
    "blob_chunk",
    `select off, body from $s.blob_chunk where ${THE_FILE} and off <= $4 order by off desc limit 1`,
  );
  // "0" follows "/".
  const BELOW = `job = $1 and attempt = $2 and name > '${PREFIX}' and name < '${ARTIFACTS}0'`;
  const listed = sql("blob_list", `select name, size, sha256 from $s.blob where ${BELOW} order by name limit $3`);
  const counted = sql("blob_count", `select count(*) from $s.blob where ${BELOW}`);
  const keepHash = sql(
    "blob_hash",
    `update $s.blob set sha256 = $4 where ${THE_FILE} and size = $5 and sha256 is null`,
  );
  // The file's row first: a writer waits for it and then finds it deleted.
  const drop = ["blob", "blob_chunk"].map((table) =>
    sql(`blob_drop_${table}`, `delete from $s.${table} where job = any ($1::text[])`, LONG),
  );
  const writer = blobWriter(context, call, keepHash);

  async function* bytes(file: readonly PgValue[], offset: number): AsyncGenerator<Buffer, void, void> {
    for (let at = offset; ; ) {
      const [row] = await call(() => db.read(chunkAt, [...file, at]));
      const piece = row === undefined ? null : bodyOf(row).subarray(at - (row[0] as number));
      if (piece === null || piece.length === 0) return;
      yield piece;
      at += piece.length;
    }
  }

  /** The stored hash if the file was written in one piece; otherwise its bytes are read once. */
  async function hashOf(file: readonly PgValue[], size: number, known: string | null): Promise<string> {
    if (known !== null) return known;
    const hash = createHash("sha256");
    for await (const piece of bytes(file, 0)) hash.update(piece);
    const sha256 = hash.digest("hex");
    await call(() => db.write(keepHash, [...file, sha256, size], { repeat: true }));
    return sha256;
  }

  return {
    attempts: (jobId) =>
      call(async () => (await db.read(attemptsOf, [checkedId(jobId)])).map(([attempt]) => attempt as number)),

    async list(jobId, attempt) {
      const values = [checkedId(jobId), attempt];
      const rows = await call(() => db.read(listed, [...values, MAX_FILES]));
      const files: BlobFile[] = [];
      for (const [path, size, known] of rows as [string, number, string | null][]) {
        const sha256 = await hashOf([...values, path], size, known);
        const name = path.slice(PREFIX.length);
        files.push({ name, size, mime: mimeOf(name), sha256 });
      }
      if (files.length < MAX_FILES) return { files, more: 0 };
      const [[all = 0] = []] = await call(() => db.read(counted, values));
      return { files, more: Math.max(0, (all as number) - files.length) };
    },

    async get(jobId, attempt, name, offset = 0) {
      checkPlace(attempt, offset);
      const file = [checkedId(jobId), attempt, name];
      if (partsOf(name, attempt) === null) return null;
      const [row] = await call(() => db.read(sizeOf, file));
      return row === undefined ? null : Readable.from(bytes(file, offset), { objectMode: false });
    },

    write: (jobId, ...rest) => writer.write(checkedId(jobId), ...rest),
    remove: (jobId, ...rest) => writer.remove(checkedId(jobId), ...rest),
    inputs: (after, limit) =>
      call(async () => (await db.read(inputsAfter, [after, limit])).map(([job]) => job as string)),
    // No scratch files are stored here.
    tidy: async () => {},
    delete: (jobIds) =>
      call(() =>
        db.transaction(
          async (connection) => {
            for (const each of drop) await connection.ask(each, [texts(jobIds)]);
          },
          { repeat: true },
        ),
      ),
  };
}

function checkedId(jobId: string): string {
  if (!isId(jobId, "job")) throw new TypeError(`not a job id: ${jobId}`);
  return jobId;
}

/** The driver returns bytes as text: `\x` and two hex digits for each. */
function bodyOf(row: PgRow): Buffer {
  return Buffer.from((row[1] as string).slice(2), "hex");
}

// One short transaction per chunk, so that a slow sender blocks nobody. An interrupted write keeps the chunks that
// arrived; the sender continues from there or starts again.

/** Large enough that the cost per chunk is small, small enough to be held in memory a few times. */
const CHUNK_BYTES = 262_144;
/** "BLOB": locks an attempt while the bytes of all its files are counted. */
const TALLY_LOCK = 0x424c4f42;

type BlobKey = readonly [jobId: string, attempt: number, name: string];

function blobWriter(
  { db, sql }: PostgresContext,
  call: RunBlobCall,
  keepHash: PgStatement,
): Pick<Blobs, "write" | "remove"> {
  const THE_FILE = "job = $1 and attempt = $2 and name = $3";
  const make = sql(
    "blob_make",
    "insert into $s.blob (job, attempt, name, size) values ($1, $2, $3, 0) on conflict do nothing returning 1",
  );
  // A file at the path of a folder of this one, or the reverse. "0" follows "/".
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
  // Staged bytes are counted separately. "0" follows "/".
  const IS_STAGED = `name > '${STAGED}/' and name < '${STAGED}0'`;
  const tally = sql(
    "blob_tally",
    `select coalesce(sum(size), 0)::bigint from $s.blob where job = $1 and attempt = $2 and (${IS_STAGED}) = $3::boolean`,
  );
  const drop = [
    sql("blob_remove", `delete from $s.blob where ${THE_FILE}`),
    sql("blob_remove_chunks", `delete from $s.blob_chunk where ${THE_FILE}`),
  ];
  const rename = [
    sql("blob_rename", `update $s.blob set name = $4 where ${THE_FILE}`),
    sql("blob_rename_chunks", `update $s.blob_chunk set name = $4 where ${THE_FILE}`),
  ];

  /** Truncates the file at this offset. Null: it may be written from there; otherwise its size, and nothing was
   *  changed. */
  async function cut(
    connection: PgConnection,
    file: BlobKey,
    parts: readonly string[],
    offset: number,
    length: number | undefined,
  ) {
    if (offset === 0 && (await connection.ask(make, file)).length > 0) {
      if ((await connection.ask(rivals, [...file, texts(foldersOf(parts))])).length > 0) throw nameTaken(file[2]);
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

  /** Appends a chunk. Returns a size if another call wrote meanwhile and nothing was appended. */
  async function append(file: BlobKey, at: number, body: Buffer, maxBytes: number | undefined): Promise<number | null> {
    const values = [...file, at, body, body.length];
    const added =
      maxBytes === undefined
        ? await db.write(add, values, { repeat: true })
        : await db.transaction(
            async (connection) => {
              await connection.ask(lockAll, [TALLY_LOCK, file[0], String(file[1])]);
              const counted = [file[0], file[1], file[2].startsWith(`${STAGED}/`)];
              const [[bytes] = [0]] = (await connection.ask(tally, counted)) as [number][];
              if (bytes + body.length > maxBytes) throw tooLarge(file[2], maxBytes);
              return connection.ask(add, values);
            },
            { repeat: true },
          );
    if (added.length > 0) return null;
    const [[size] = []] = (await db.read(sizeOf, file)) as [number][];
    // An earlier try had written it, but its answer was lost.
    return size === at + body.length ? null : (size ?? 0);
  }

  /** Replaces the file with the staged bytes. If an earlier try succeeded but its answer was lost, nothing is staged
   *  any more, and it is not repeated. */
  async function publish(staged: BlobKey, file: BlobKey, size: number, maxBytes: number | undefined): Promise<void> {
    const [jobId, attempt, name] = file;
    await db.transaction(
      async (connection) => {
        await connection.ask(lockAll, [TALLY_LOCK, jobId, String(attempt)]);
        if ((await connection.ask(lock, staged)).length === 0) return;
        const [[before] = []] = (await connection.ask(lock, file)) as [number][];
        const folders = foldersOf(name.split("/"));
        if (before === undefined && (await connection.ask(rivals, [...file, texts(folders)])).length > 0) {
          throw nameTaken(name);
        }
        const [[bytes] = [0]] = (await connection.ask(tally, [jobId, attempt, false])) as [number][];
        if (maxBytes !== undefined && bytes - (before ?? 0) + size > maxBytes) throw tooLarge(name, maxBytes);
        for (const each of drop) await connection.ask(each, file);
        for (const each of rename) await connection.ask(each, [...staged, name]);
      },
      { repeat: true },
    );
  }

  async function removeFile(file: BlobKey): Promise<void> {
    await db.transaction(
      async (connection) => {
        for (const each of drop) await connection.ask(each, file);
      },
      { repeat: true },
    );
  }

  const write: Blobs["write"] = async (jobId, attempt, name, offset, source, options = {}) => {
    const { maxBytes, length, upload, last = false } = options;
    checkPlace(attempt, offset);
    const parts = checkedParts(name, attempt);
    const file: BlobKey = [jobId, attempt, name];
    const target = stagedOr(file, upload);
    const chunks = inChunks(source);
    try {
      const answer = await put(target, upload === undefined ? parts : [target[2]], offset, chunks, maxBytes, length);
      if (upload !== undefined && last && isWhole(answer.size, offset, length)) {
        await call(() => publish(target, file, answer.size, maxBytes));
      }
      return answer;
    } catch (error) {
      // It will never be complete.
      if (upload !== undefined && isTooLarge(error)) await call(() => removeFile(target));
      throw error;
    } finally {
      await chunks.return(); // do not keep the sender waiting
    }
  };

  const remove: Blobs["remove"] = async (jobId, attempt, name, { upload } = {}) => {
    checkPlace(attempt, 0);
    checkedParts(name, attempt);
    await call(() => removeFile(stagedOr([jobId, attempt, name], upload)));
  };

  return { write, remove };

  async function put(
    file: BlobKey,
    parts: readonly string[],
    offset: number,
    chunks: AsyncGenerator<Buffer, void, void>,
    maxBytes: number | undefined,
    length: number | undefined,
  ): Promise<{ readonly size: number }> {
    // Truncate only when there are bytes to replace it: the caller may disconnect before sending any.
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

/** The names of the folders that a file lies in, below `artifacts`. */
function foldersOf(parts: readonly string[]): string[] {
  return parts.slice(1, -1).map((_, i) => parts.slice(0, i + 2).join("/"));
}

function stagedOr([jobId, attempt, name]: BlobKey, upload: number | undefined): BlobKey {
  if (upload === undefined) return [jobId, attempt, name];
  checkUpload(upload);
  return [jobId, attempt, `${STAGED}/${upload}/${name}`];
}

/** Regroups bytes into pieces of one size. */
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
