/** Tests for every adapter of the port for outputs: data is stored unchanged, a repeat changes nothing, and nothing is
 *  written to a wrong place. */
import { createHash, randomBytes } from "node:crypto";
import type { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ConfigError } from "../../core/errors.ts";
import type { Blobs } from "../blobs.ts";
import { jobId } from "./kit.ts";

export interface MadeBlobs {
  readonly blobs: Blobs;
  close?(): Promise<void>;
}

async function* pieces(...all: (string | Uint8Array)[]): AsyncGenerator<Uint8Array> {
  for (const piece of all) yield typeof piece === "string" ? Buffer.from(piece) : piece;
}

async function* inPieces(bytes: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function* breaking(...all: string[]): AsyncGenerator<Uint8Array> {
  yield* pieces(...all);
  throw new Error("the sender disconnected");
}

async function bytesOf(stream: Readable | null): Promise<Buffer | null> {
  if (stream === null) return null;
  const found: Buffer[] = [];
  for await (const piece of stream) found.push(Buffer.from(piece));
  return Buffer.concat(found);
}

type Part = { readonly upload: number; readonly at?: number; readonly last?: boolean; readonly maxBytes?: number };

const sha256 = (bytes: Buffer | string) => createHash("sha256").update(bytes).digest("hex");

export function blobConformance(name: string, make: () => Promise<MadeBlobs>): void {
  describe(`${name} keeps the files of attempts`, () => {
    let made: MadeBlobs;
    let blobs: Blobs;
    beforeAll(async () => {
      made = await make();
      blobs = made.blobs;
    });
    afterAll(() => made.close?.());

    const read = async (job: string, file: string, offset = 0, attempt = 1) =>
      bytesOf(await blobs.get(job, attempt, file, offset));
    const text = async (job: string, file: string, offset = 0, attempt = 1) =>
      (await read(job, file, offset, attempt))?.toString() ?? null;
    const write = (job: string, file: string, offset: number, ...all: (string | Uint8Array)[]) =>
      blobs.write(job, 1, file, offset, pieces(...all));
    /** A piece of an upload, at `at`. */
    const put = (job: string, file: string, content: string, { at = 0, ...options }: Part) =>
      blobs.write(job, 1, file, at, pieces(...(content === "" ? [] : [content])), {
        length: content.length,
        ...options,
      });

    test.each([0, 1, 1_000, 262_143, 262_144, 262_145, 1_000_003])("%i random bytes, to the byte", async (size) => {
      const job = jobId();
      const bytes = randomBytes(size);
      for (const [file, piece] of [
        ["stdout.log", 1_000],
        ["artifacts/whole.bin", size + 1],
        ["artifacts/odd.bin", 70_001],
      ] as const) {
        expect(await blobs.write(job, 1, file, 0, inPieces(bytes, piece))).toEqual({ size });
        expect(bytes.equals((await read(job, file)) as Buffer)).toBe(true);
        for (const offset of [1, size >> 1, size, size + 5]) {
          expect(bytes.subarray(offset).equals((await read(job, file, offset)) as Buffer)).toBe(true);
        }
      }
      const { files, more } = await blobs.list(job, 1);
      expect(more).toBe(0);
      const described = { size, mime: "application/octet-stream", sha256: sha256(bytes) };
      const listed = [...files].sort((a, b) => (a.name < b.name ? -1 : 1));
      expect(listed).toEqual([
        { name: "odd.bin", ...described },
        { name: "whole.bin", ...described },
      ]);
    });

    test("a file grows piece by piece, and a repeated piece changes nothing", async () => {
      const job = jobId();
      const bytes = randomBytes(600_000);
      for (let at = 0; at < bytes.length; at += 100_000) {
        const piece = bytes.subarray(at, at + 100_000);
        for (let times = 0; times < 2; times++) {
          expect(await write(job, "artifacts/grown", at, piece)).toEqual({ size: at + 100_000 });
        }
      }
      expect(bytes.equals((await read(job, "artifacts/grown")) as Buffer)).toBe(true);
      expect((await blobs.list(job, 1)).files[0]).toMatchObject({ size: 600_000, sha256: sha256(bytes) });
      expect((await blobs.list(job, 1)).files[0]).toMatchObject({ size: 600_000, sha256: sha256(bytes) });
    });

    test("a piece with a length that was stored before is a late repeat", async () => {
      const job = jobId();
      await write(job, "stdout.log", 0, "0123456789");
      const late = { length: 4 };
      expect(await blobs.write(job, 1, "stdout.log", 2, pieces("2345"), late)).toEqual({ size: 10 });
      expect(await text(job, "stdout.log")).toBe("0123456789");
      // A piece that reaches further is not a repeat, nor is an empty one: that truncates the file.
      expect(await blobs.write(job, 1, "stdout.log", 8, pieces("89ab"), late)).toEqual({ size: 12 });
      expect(await blobs.write(job, 1, "stdout.log", 3, pieces(), { length: 0 })).toEqual({ size: 3 });
      expect(await text(job, "stdout.log")).toBe("012");
    });

    test("a sender that disconnects before its first byte truncates nothing", async () => {
      const job = jobId();
      await write(job, "stdout.log", 0, "0123456789");
      await expect(blobs.write(job, 1, "stdout.log", 5, breaking())).rejects.toThrow("the sender disconnected");
      expect(await text(job, "stdout.log")).toBe("0123456789");
    });

    test("a write replaces everything after its offset", async () => {
      const job = jobId();
      await write(job, "stdout.log", 0, "hello, ", "world");
      expect(await write(job, "stdout.log", 7, "you")).toEqual({ size: 10 });
      expect(await text(job, "stdout.log")).toBe("hello, you");
      expect(await write(job, "stdout.log", 5)).toEqual({ size: 5 });
      expect(await text(job, "stdout.log")).toBe("hello");
      expect(await write(job, "stdout.log", 0, "anew")).toEqual({ size: 4 });
      expect(await text(job, "stdout.log", 2)).toBe("ew");
      const long = randomBytes(700_000);
      await write(job, "artifacts/x", 0, long);
      await write(job, "artifacts/x", 300_001, "tail");
      const expected = Buffer.concat([long.subarray(0, 300_001), Buffer.from("tail")]);
      expect(expected.equals((await read(job, "artifacts/x")) as Buffer)).toBe(true);
      expect((await blobs.list(job, 1)).files).toMatchObject([{ size: 300_005, sha256: sha256(expected) }]);
    });

    test("a write beyond the end changes nothing and returns the size", async () => {
      const job = jobId();
      expect(await write(job, "stderr.log", 5, "late")).toEqual({ size: 0 });
      expect(await text(job, "stderr.log")).toBeNull();
      expect(await write(job, "artifacts/deep/down", 1, "late")).toEqual({ size: 0 });
      expect((await blobs.list(job, 1)).files).toEqual([]);
      await write(job, "stderr.log", 0, "abc");
      expect(await write(job, "stderr.log", 4, "late")).toEqual({ size: 3 });
      expect(await text(job, "stderr.log")).toBe("abc");
    });

    test("an interrupted write keeps the bytes that arrived, and the sender continues from there", async () => {
      const job = jobId();
      const broken = blobs.write(job, 1, "stdout.log", 0, breaking("abc", "def"));
      await expect(broken).rejects.toThrow("the sender disconnected");
      const { size } = await write(job, "stdout.log", 1_000, "where was I?");
      expect("abcdef".startsWith((await text(job, "stdout.log")) ?? "")).toBe(true);
      await write(job, "stdout.log", size, "abcdef".slice(size), "ghi");
      expect(await text(job, "stdout.log")).toBe("abcdefghi");
    });

    test("an upload replaces the whole file with its last piece", async () => {
      const job = jobId();
      const bytes = randomBytes(700_000);
      const part = (from: number, to: number, more: object = {}) =>
        blobs.write(job, 1, "artifacts/d/x", from, pieces(bytes.subarray(from, to)), {
          upload: 7,
          length: to - from,
          ...more,
        });
      await write(job, "artifacts/d/x", 0, "as it was");
      expect(await part(0, 300_000)).toEqual({ size: 300_000 });
      expect(await part(0, 300_000)).toEqual({ size: 300_000 });
      // A piece that skips bytes gets the staged size, and replaces nothing.
      expect(await part(600_000, 700_000, { last: true })).toEqual({ size: 300_000 });
      expect(await text(job, "artifacts/d/x")).toBe("as it was");
      expect((await blobs.list(job, 1)).files.map(({ name }) => name)).toEqual(["d/x"]);
      expect(await part(300_000, 700_000, { last: true })).toEqual({ size: 700_000 });
      expect(bytes.equals((await read(job, "artifacts/d/x")) as Buffer)).toBe(true);
      expect((await blobs.list(job, 1)).files).toMatchObject([{ name: "d/x", size: 700_000, sha256: sha256(bytes) }]);
      // Nothing is staged any more: a repeated last piece starts again. Then it continues like any other file.
      expect(await part(300_000, 700_000, { last: true })).toEqual({ size: 0 });
      expect(await write(job, "artifacts/d/x", 700_000, "and more")).toEqual({ size: 700_008 });
      // A file in one piece, an empty one, and one that is new.
      for (const [file, content] of [
        ["artifacts/d/x", "short"],
        ["artifacts/e", ""],
        ["result.json", "{}"],
      ] as const) {
        expect(await put(job, file, content, { upload: 8, last: true })).toEqual({ size: content.length });
        expect(await text(job, file)).toBe(content);
      }
    });

    test("uploads of one file do not mix, and what is staged can be removed", async () => {
      const job = jobId();
      await put(job, "artifacts/x", "old ", { upload: 1 });
      await put(job, "artifacts/x", "new ", { upload: 2 });
      await put(job, "artifacts/x", "late", { upload: 1, at: 4 });
      await put(job, "artifacts/x", "one", { upload: 2, at: 4, last: true });
      expect(await text(job, "artifacts/x")).toBe("new one");
      await blobs.remove(job, 1, "artifacts/x", { upload: 1 });
      expect(await put(job, "artifacts/x", "late", { upload: 1, at: 8, last: true })).toEqual({ size: 0 });
      expect(await text(job, "artifacts/x")).toBe("new one");
    });

    test("an upload may replace a file within the limit, and one that is too large leaves nothing", async () => {
      const job = jobId();
      const limited = (upload: number, file: string, content: string) =>
        put(job, file, content, { upload, last: true, maxBytes: 10 });
      await limited(1, "artifacts/x", "12345678");
      await limited(2, "artifacts/x", "abcdefghij");
      expect(await text(job, "artifacts/x")).toBe("abcdefghij");
      const refused = { code: "output_too_large" };
      await expect(limited(3, "artifacts/x", "12345678901")).rejects.toMatchObject(refused);
      await expect(limited(4, "artifacts/y", "1")).rejects.toMatchObject(refused);
      expect(await text(job, "artifacts/x")).toBe("abcdefghij");
      await limited(5, "artifacts/x", "123456789");
      expect(await limited(6, "artifacts/y", "1")).toEqual({ size: 1 });
    });

    test("a file is removed, and its name and its bytes are free again", async () => {
      const job = jobId();
      await blobs.write(job, 1, "artifacts/a/b", 0, pieces("12345678"), { maxBytes: 10 });
      await blobs.remove(job, 1, "artifacts/a/b");
      await blobs.remove(job, 1, "artifacts/a/b");
      expect(await blobs.list(job, 1)).toEqual({ files: [], more: 0 });
      expect(await text(job, "artifacts/a/b")).toBeNull();
      expect(await blobs.write(job, 1, "artifacts/a", 0, pieces("1234567890"), { maxBytes: 10 })).toEqual({ size: 10 });
      await expect((async () => blobs.remove(job, 1, "artifacts/../x"))()).rejects.toThrow(ConfigError);
    });

    test("attempts are separate, and listed in order", async () => {
      const job = jobId();
      for (const attempt of [2, 10, 1]) await blobs.write(job, attempt, "result.json", 0, pieces(`{"n":${attempt}}`));
      expect(await blobs.attempts(job)).toEqual([1, 2, 10]);
      expect(await text(job, "result.json", 0, 10)).toBe('{"n":10}');
      expect(await blobs.attempts(jobId())).toEqual([]);
      expect(await blobs.list(job, 2)).toEqual({ files: [], more: 0 });
    });

    test("files are listed with path, media type and hash", async () => {
      const job = jobId();
      const names = ["a.json", "ü b/c.txt", "ü b/d/e", "x'\";drop.png"];
      for (const each of names) await write(job, `artifacts/${each}`, 0, each);
      await write(job, "stdout.log", 0, "not listed");
      const { files } = await blobs.list(job, 1);
      expect(new Set(files.map((file) => file.name))).toEqual(new Set(names));
      expect(files.find((file) => file.name === "a.json")).toEqual({
        ...{ name: "a.json", size: 6, mime: "application/json", sha256: sha256("a.json") },
      });
      for (const each of names) expect(await text(job, `artifacts/${each}`)).toBe(each);
    });

    test("more files than are listed are counted", async () => {
      const job = jobId();
      for (let from = 0; from < 1_010; from += 101) {
        const some = Array.from({ length: 101 }, (_, i) => write(job, `artifacts/${from + i}`, 0));
        await Promise.all(some);
      }
      const { files, more } = await blobs.list(job, 1);
      expect([files.length, more]).toEqual([1_000, 10]);
    }, 60_000);

    test("a name that could lead outside is refused, and nothing exists under it", async () => {
      const job = jobId();
      const bad = [
        ...["", ".", "..", "/", "stdout", "stdout.log/", "/stdout.log", "usage.json", "artifacts", "artifacts/"],
        ...["artifacts//a", "artifacts/../stdout.log", "artifacts/a/../../b", "artifacts/./a", "artifacts/a/"],
        ...[
          "artifacts/a\0",
          "artifacts/a\nb",
          "artifacts/\u007f",
          "artifacts\\a",
          "artifacts/..\\a",
          "artifacts/\ud800",
        ],
        ...[`artifacts/${"x".repeat(256)}`, `artifacts/${"ü".repeat(128)}`, `artifacts/${"a/".repeat(510)}bcdef`],
        ...["Artifacts/a", "../artifacts/a", "artifacts/a/.."],
      ];
      for (const each of bad) {
        const refused = write(job, each, 0, "x");
        await expect(refused, JSON.stringify(each)).rejects.toBeInstanceOf(ConfigError);
        await expect(refused).rejects.toMatchObject({ code: "invalid_config", path: "name" });
        expect(await blobs.get(job, 1, each)).toBeNull();
      }
      expect(await blobs.attempts(job)).toEqual([]);
      const longest = `artifacts/${"x".repeat(255)}/${"ü".repeat(127)}/...`;
      await write(job, longest, 0, "x");
      expect(await text(job, longest)).toBe("x");
    });

    test("invalid numbers and ids are refused", async () => {
      for (const attempt of [-1, 1.5, Number.NaN]) {
        await expect(blobs.write(jobId(), attempt, "stdout.log", 0, pieces("x"))).rejects.toThrow(TypeError);
      }
      for (const offset of [-1, 0.5, Number.POSITIVE_INFINITY]) {
        await expect(write(jobId(), "stdout.log", offset, "x")).rejects.toThrow(TypeError);
      }
      await expect((async () => blobs.write("../x", 1, "stdout.log", 0, pieces("x")))()).rejects.toThrow(TypeError);
    });

    test("a file and a folder cannot have the same name", async () => {
      const job = jobId();
      await write(job, "artifacts/a", 0, "x");
      await expect(write(job, "artifacts/a/b", 0, "x")).rejects.toMatchObject({ path: "name" });
      await expect(write(job, "artifacts/a/b/c", 0, "x")).rejects.toMatchObject({ path: "name" });
      await write(job, "artifacts/d/e", 0, "x");
      await expect(write(job, "artifacts/d", 0, "x")).rejects.toMatchObject({ path: "name" });
      expect((await blobs.list(job, 1)).files.map((file) => file.name).sort()).toEqual(["a", "d/e"]);
    });

    test("a limit is for all files of an attempt together, and nothing is kept beyond it", async () => {
      const job = jobId();
      const limited = (file: string, offset: number, ...all: string[]) =>
        blobs.write(job, 1, file, offset, pieces(...all), { maxBytes: 10 });
      expect(await limited("stdout.log", 0, "123456")).toEqual({ size: 6 });
      expect(await limited("stdout.log", 0, "123456")).toEqual({ size: 6 });
      await expect(limited("artifacts/a", 0, "12", "345")).rejects.toMatchObject({ code: "output_too_large" });
      expect(((await text(job, "artifacts/a")) ?? "").length).toBeLessThanOrEqual(4);
      expect(await limited("artifacts/a", 0, "1234")).toEqual({ size: 4 });
      await expect(limited("stderr.log", 0, "1")).rejects.toMatchObject({ code: "output_too_large" });
      // Replaced bytes are freed.
      expect(await limited("stdout.log", 2, "3456")).toEqual({ size: 6 });
      expect(await limited("stdout.log", 0, "1")).toEqual({ size: 1 });
      expect(await limited("stderr.log", 0, "12345")).toEqual({ size: 5 });
      expect(await blobs.write(job, 2, "stdout.log", 0, pieces("1234567890"), { maxBytes: 10 })).toEqual({ size: 10 });
    });

    test("writes of several files at once do not mix, and their limit holds for all", async () => {
      const job = jobId();
      const contents = Array.from({ length: 12 }, () => randomBytes(300_000));
      const names = contents.map((_, i) => `artifacts/dir/${i}`);
      await Promise.all(contents.map((each, i) => blobs.write(job, 1, names[i] as string, 0, inPieces(each, 50_000))));
      for (const [i, each] of contents.entries()) {
        expect(each.equals((await read(job, names[i] as string)) as Buffer)).toBe(true);
      }
      const maxBytes = 1_000_000;
      const results = await Promise.allSettled(
        contents.map((each, i) => blobs.write(job, 2, names[i] as string, 0, inPieces(each, 50_000), { maxBytes })),
      );
      expect(results.some((result) => result.status === "rejected")).toBe(true);
      const { files } = await blobs.list(job, 2);
      expect(files.reduce((sum, file) => sum + file.size, 0)).toBeLessThanOrEqual(maxBytes);
    });

    test("files of jobs are deleted with them, and nothing else", async () => {
      const [a, b, c] = [jobId(), jobId(), jobId()];
      for (const job of [a, b, c]) {
        for (const file of ["stdout.log", "artifacts/x/y"]) await write(job, file, 0, randomBytes(300_000));
      }
      await blobs.tidy(a);
      expect(await blobs.attempts(a)).toEqual([1]);
      await blobs.delete([a, c, jobId()]);
      await blobs.delete([]);
      expect([await blobs.attempts(a), await blobs.attempts(b), await blobs.attempts(c)]).toEqual([[], [1], []]);
      expect(await blobs.get(a, 1, "stdout.log")).toBeNull();
      expect((await read(b, "artifacts/x/y"))?.length).toBe(300_000);
      await write(a, "stdout.log", 0, "again");
      expect(await text(a, "stdout.log")).toBe("again");
    });

    test("the input of a job is not listed among its attempts' files, but among inputs, and is deleted with the job", async () => {
      const [a, b] = [jobId(), jobId()].sort() as [string, string];
      const bytes = randomBytes(600_001);
      for (const job of [b, a]) {
        expect(await blobs.write(job, 0, "stdin", 0, inPieces(bytes.subarray(0, 300_000), 70_000))).toEqual({
          size: 300_000,
        });
        const rest = () =>
          blobs.write(job, 0, "stdin", 300_000, inPieces(bytes.subarray(300_000), 70_000), { length: 300_001 });
        expect(await rest()).toEqual({ size: bytes.length });
        expect(await rest()).toEqual({ size: bytes.length });
      }
      await write(a, "stdout.log", 0, "x");
      expect(bytes.equals((await read(a, "stdin", 0, 0)) as Buffer)).toBe(true);
      expect(await blobs.attempts(a)).toEqual([1]);
      expect(await blobs.get(a, 1, "stdin")).toBeNull();
      for (const name of ["stdout.log", "artifacts/x", "../stdin"]) {
        await expect(blobs.write(a, 0, name, 0, pieces("x"))).rejects.toBeInstanceOf(ConfigError);
      }
      await expect(blobs.write(a, 1, "stdin", 0, pieces("x"))).rejects.toBeInstanceOf(ConfigError);
      await blobs.tidy(a);
      const before = `${a.slice(0, -1)}0`;
      expect((await blobs.inputs("", 1_000)).filter((id) => id === a || id === b)).toEqual([a, b]);
      expect(await blobs.inputs(a, 1_000)).not.toContain(a);
      expect((await blobs.inputs(before < a ? before : "", 1)).length).toBe(1);
      await blobs.delete([a]);
      expect(await blobs.get(a, 0, "stdin")).toBeNull();
      expect(await blobs.inputs("", 1_000)).not.toContain(a);
      expect((await read(b, "stdin", 600_000, 0))?.length).toBe(1);
    });

    test("a reader that stops early blocks nothing", async () => {
      const job = jobId();
      await write(job, "stdout.log", 0, randomBytes(900_000));
      for await (const piece of (await blobs.get(job, 1, "stdout.log")) as Readable) {
        expect(piece.length).toBeGreaterThan(0);
        break;
      }
      await blobs.delete([job]);
    });
  });
}
