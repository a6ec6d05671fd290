import { describe, expect, it } from "vitest";
import { MAX_JOB_BODY_BYTES } from "../../core/worker-protocol.ts";
import { resultText } from "./result-text.ts";

const file = (n: number) => ({ name: `${n}-${"f".repeat(200)}`, size: 1, mime: "text/plain", sha256: "0".repeat(64) });
const FILES = Array.from({ length: 1_000 }, (_, n) => file(n));
const written = [
  { bytes: 9, dropped: 0 },
  { bytes: 0, dropped: 0 },
] as const;
const made = (parts: Partial<Parameters<typeof resultText>[1]>, output: unknown = null) => {
  const text = resultText({ exitCode: 0, output }, { files: [], more: 0, written, text: null, ...parts });
  if (text !== null) expect(Buffer.byteLength(text)).toBeLessThanOrEqual(MAX_JOB_BODY_BYTES);
  return text === null ? null : JSON.parse(text);
};

describe("the result of a command", () => {
  it("has the text of stdout only if it was asked for", () => {
    expect(made({}).stdout).toEqual({ bytes: 9, dropped: 0 });
    expect(made({ text: { text: "a", isCut: false } }).stdout).toEqual({ bytes: 9, dropped: 0, text: "a" });
    expect(made({ text: { text: "a", isCut: true } }).stdout).toEqual({ ...written[0], text: "a", textCut: true });
  });

  it("leaves out what does not fit: the list of files, then the text of stdout, and never the output", () => {
    const text = { text: "\u0001".repeat(65_536), isCut: false }; // six times as long in JSON
    const long = (bytes: number) => "x".repeat(bytes);
    expect(made({ files: FILES, text }, long(100_000))).toMatchObject({ outputs: FILES, stdout: { text: text.text } });
    const short = made({ files: FILES, more: 2, text }, long(500_000));
    expect(short).toMatchObject({ outputs: [], moreOutputs: 1_002, stdout: { text: text.text } });
    const bare = made({ files: FILES, text }, long(786_000));
    expect(bare).toMatchObject({ outputs: [], moreOutputs: 1_000, output: long(786_000) });
    expect(bare.stdout).toEqual({ ...written[0], text: "", textCut: true });
    expect(made({ text }, long(MAX_JOB_BODY_BYTES))).toBeNull();
    expect(made({}, long(MAX_JOB_BODY_BYTES))).toBeNull();
  });
});
