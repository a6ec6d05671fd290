/** Blobs in the database: a row for each file, and its bytes in chunks. For several servers that share no disk. Bytes
 *  travel a chunk at a time in both directions; no transaction waits for whoever sends or reads them.
 *  What it does not have: places where an attempt can write by itself. */
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { isId } from "../../lib/id.ts";
import { mimeOf } from "../../lib/mime.ts";
import { ARTIFACTS, checkPlace, partsOf } from "../blob-name.ts";
import type { BlobFile, Blobs } from "../blobs.ts";
import { texts } from "./arrays.ts";
import { blobWriter } from "./blob-write.ts";
import type { Context } from "./context.ts";
import { LONG, type Row, type Value } from "./driver.ts";

/** How every call of the store is made, so that closing it waits for those under way. */
export type Call = <T>(give: () => Promise<T>) => Promise<T>;

const MAX_FILES = 1_000;
const PREFIX = `${ARTIFACTS}/`;

export function postgresBlobs(context: Context, call: Call): Blobs {
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
  // The chunk that holds a byte, or the last one before it.
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
  // The file first: whoever adds to one waits for its row, and then finds it gone.
  const drop = ["blob", "blob_chunk"].map((table) =>
    sql(`blob_drop_${table}`, `delete from $s.${table} where job = any ($1::text[])`, LONG),
  );
  const writer = blobWriter(context, call, keepHash);

  async function* bytes(file: readonly Value[], offset: number): AsyncGenerator<Buffer, void, void> {
    for (let at = offset; ; ) {
      const [row] = await call(() => db.read(chunkAt, [...file, at]));
      const piece = row === undefined ? null : bodyOf(row).subarray(at - (row[0] as number));
      if (piece === null || piece.length === 0) return;
      yield piece;
      at += piece.length;
    }
  }

  /** Kept, if the file was written in one piece; else its bytes are read once. */
  async function hashOf(file: readonly Value[], size: number, known: string | null): Promise<string> {
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
    // There is no scratch here.
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
  if (!isId(jobId, "job")) throw new TypeError(`not the id of a job: ${jobId}`);
  return jobId;
}

/** The driver gives bytes as text: `\x` and two digits for each. */
function bodyOf(row: Row): Buffer {
  return Buffer.from((row[1] as string).slice(2), "hex");
}
