import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { rounds } from "../../../test/tier.ts";
import { Capture } from "./capture.ts";

const dir = mkdtempSync(join(tmpdir(), "perdure-capture-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
let count = 0;

async function captured(chunks: readonly Buffer[], cap: number) {
  const path = join(dir, `${++count}.log`);
  const capture = new Capture(path, cap);
  await capture.open();
  // One buffer for all, as a stream may reuse its own: what is kept must be a copy, or be written at once.
  for (const chunk of chunks) capture.write(Buffer.from(chunk));
  const lastLine = capture.summary();
  const end = await capture.close();
  return { ...end, lastLine, file: readFileSync(path), path, trouble: capture.trouble };
}

/** What must be in the file, from all bytes at once. */
function model(bytes: Buffer, cap: number): { file: Buffer; dropped: number } {
  if (bytes.length <= cap) return { file: bytes, dropped: 0 };
  const head = Math.floor(cap / 2);
  const dropped = bytes.length - cap;
  const note = Buffer.from(`\n[perdure: ${dropped} bytes dropped here]\n`);
  return { file: Buffer.concat([bytes.subarray(0, head), note, bytes.subarray(head + dropped)]), dropped };
}

const chunkings = fc.array(fc.uint8Array({ maxLength: 3_000 }), { maxLength: 20 });

describe("Capture", () => {
  it("keeps head and tail and counts what it dropped, for any chunks and any cap", async () => {
    await fc.assert(
      fc.asyncProperty(chunkings, fc.integer({ min: 1, max: 12_000 }), async (parts, cap) => {
        const chunks = parts.map((part) => Buffer.from(part));
        const bytes = Buffer.concat(chunks);
        const found = await captured(chunks, cap);
        const wanted = model(bytes, cap);
        expect(found).toMatchObject({ bytes: bytes.length, dropped: wanted.dropped, trouble: null });
        expect(found.file.equals(wanted.file)).toBe(true);
        rmSync(found.path);
      }),
      { numRuns: rounds(400) },
    );
  });

  it("keeps all at exactly the cap, and drops one byte above it", async () => {
    for (const cap of [1, 2, 3, 1_024, 1_025, 8_192, 8_193]) {
      const bytes = Buffer.alloc(cap + 1, "ab");
      expect(await captured([bytes.subarray(0, cap)], cap)).toMatchObject({ bytes: cap, dropped: 0 });
      const over = await captured([bytes], cap);
      expect(over).toMatchObject({ bytes: cap + 1, dropped: 1 });
      expect(over.file.equals(model(bytes, cap).file)).toBe(true);
    }
  });

  it("makes no difference between one chunk and single bytes", async () => {
    const bytes = Buffer.from(Array.from({ length: 5_000 }, (_, i) => (i * 7) % 256));
    const single = await captured(
      Array.from(bytes, (byte) => Buffer.from([byte])),
      1_111,
    );
    expect(single.file.equals((await captured([bytes], 1_111)).file)).toBe(true);
  });

  it("finds the last line with something in it, in whatever part it lies", async () => {
    const lastLine = async (text: string | Buffer, cap = 4_096) => {
      const bytes = Buffer.from(text as string);
      const [one, many] = [await captured([bytes], cap), await captured(inTens(bytes), cap)];
      expect(many.lastLine).toBe(one.lastLine);
      return one.lastLine;
    };
    expect(await lastLine("")).toBe("");
    expect(await lastLine("\n \n\n")).toBe("");
    expect(await lastLine("one\ntwo\n\n  \n")).toBe("two");
    expect(await lastLine("no end")).toBe("no end");
    expect(await lastLine("a\r\nb\r\n")).toBe("b");
    expect(await lastLine(`${"x\n".repeat(3_000)}the end\n`, 1_024)).toBe("the end");
    // Across the border of head and tail, and of the tail's two ends.
    for (let before = 480; before < 530; before++) {
      expect(await lastLine(`${"y".repeat(before)}\nacross the border\n`, 1_024)).toBe("across the border");
    }
    expect((await lastLine("z".repeat(100_000), 1_024)).length).toBeLessThanOrEqual(2_048);
  });

  it("takes binary and invalid UTF-8 as they are", async () => {
    const bytes = Buffer.from([0xff, 0xfe, 0x00, 0xc3, 0x28, 0x0a, 0xe2, 0x82]);
    const found = await captured([bytes], 1_024);
    expect(found.file.equals(bytes)).toBe(true);
    expect(found.lastLine).toBe("\ufffd");
  });

  it("is readable by the owner only, exists before the first byte, and overwrites nothing", async () => {
    const path = join(dir, "own.log");
    const capture = new Capture(path, 1_024);
    await capture.open();
    expect(statSync(path).mode & 0o777).toBe(0o600);
    await expect(new Capture(path, 1_024).open()).rejects.toMatchObject({ code: "EEXIST" });
    capture.write(Buffer.from("x"));
    await capture.close();
    expect(readFileSync(path, "utf8")).toBe("x");
  });

  // NOT TESTED: a disk that is full. It would need one, and the right to mount it.
  it("counts bytes even without a file", async () => {
    const capture = new Capture(join(dir, "none/at/all"), 1_024);
    await expect(capture.open()).rejects.toMatchObject({ code: "ENOENT" });
    capture.write(Buffer.alloc(5_000));
    expect(await capture.close()).toEqual({ bytes: 5_000, dropped: 5_000 - 1_024 });
  });
});

describe("the text of a capture", () => {
  const textOf = (chunks: readonly Buffer[], cap: number, fileCap = 1_024) => {
    const capture = new Capture(join(dir, "never opened"), fileCap, cap);
    for (const chunk of chunks) capture.write(Buffer.from(chunk));
    return capture.text();
  };

  it.each([
    ["", 10, { text: "", isCut: false }],
    ["0123456789", 10, { text: "0123456789", isCut: false }],
    ["0123456789a", 10, { text: "0123456789", isCut: true }],
    ["12345678é", 9, { text: "12345678", isCut: true }], // a character is not split
    ["1234567😀", 10, { text: "1234567", isCut: true }],
    ["123456😀", 10, { text: "123456😀", isCut: false }],
    ["\ufeffa", 10, { text: "\ufeffa", isCut: false }],
    [Buffer.from([0x61, 0xff, 0x62]), 10, { text: "a\ufffdb", isCut: false }],
    [Buffer.from([0x61, 0xe2, 0x82]), 10, { text: "a\ufffd", isCut: false }], // the end of the output, not of the text
    [Buffer.alloc(10, 0xff), 10, { text: "\ufffd".repeat(3), isCut: true }], // three bytes each
  ])("is its beginning in whole characters (case %#)", (output, cap, expected) => {
    const bytes = Buffer.from(output as string);
    expect(textOf([bytes], cap)).toEqual(expected);
    expect(textOf(inTens(bytes), cap, 2)).toEqual(expected);
  });

  it("is within its limit, and a beginning, for any bytes, chunks and limits", () => {
    fc.assert(
      fc.property(chunkings, fc.integer({ min: 0, max: 5_000 }), (parts, cap) => {
        const bytes = Buffer.concat(parts);
        const { text, isCut } = textOf(
          parts.map((part) => Buffer.from(part)),
          cap,
        );
        expect(Buffer.byteLength(text)).toBeLessThanOrEqual(cap);
        const whole = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
        expect(isCut ? whole.startsWith(text) : whole === text).toBe(true);
        if (bytes.length > cap) expect(isCut).toBe(true);
      }),
    );
  });
});

function inTens(bytes: Buffer): Buffer[] {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += 10) parts.push(bytes.subarray(at, at + 10));
  return parts;
}
