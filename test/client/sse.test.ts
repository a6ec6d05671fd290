/** The parser of server-sent events, against texts cut in every way. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type SseMessage, SseParser } from "../../src/client/sse.ts";

const encoder = new TextEncoder();

function parse(text: string, cuts: readonly number[] = []): SseMessage[] {
  const bytes = encoder.encode(text);
  const parser = new SseParser();
  const places = [0, ...[...new Set(cuts)].map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return places.slice(1).flatMap((end, i) => parser.feed(bytes.slice(places[i], end)));
}

describe("server-sent events", () => {
  it("are emitted at their blank line, with id, name and data", () => {
    expect(parse("id: 7\nevent: job.submitted\ndata: {}\n\n")).toEqual([
      { id: "7", event: "job.submitted", data: "{}" },
    ]);
    expect(parse("data: {}\n")).toEqual([]);
    expect(parse("data: never finished")).toEqual([]);
  });

  it("may end their lines with LF, CR or CRLF", () => {
    for (const end of ["\n", "\r", "\r\n"]) {
      expect(parse(["data: a", "", "data: b", "", ""].join(end)).map(({ data }) => data)).toEqual(["a", "b"]);
    }
  });

  it("have data of several lines, and fields without a space or a value", () => {
    expect(parse("data:a\ndata:  b\ndata\n\n")[0]?.data).toBe("a\n b\n");
  });

  it("keep the last id, and leave out comments, unknown fields and messages without data", () => {
    const text = "\uFEFF: hello\nid: 3\ndata: a\n\n:\n\nretry: 10\nevent: ping\n\nid: 4\0\nother: x\ndata: b\n\n";
    expect(parse(text)).toEqual([
      { id: "3", event: "message", data: "a" },
      { id: "3", event: "message", data: "b" },
    ]);
  });

  it("come out the same wherever the bytes are cut, also within a letter and within CRLF", () => {
    const line = fc.oneof(
      fc.constantFrom("", ":", ": comment", "data", "id: 9", "event: e", "data: ü€😀", "data:x", "retry: 5"),
      fc.string({ unit: "grapheme", maxLength: 8 }).map((text) => `data: ${text.replaceAll(/[\r\n]/g, "")}`),
    );
    const text = fc
      .array(fc.tuple(line, fc.constantFrom("\n", "\r", "\r\n")), { maxLength: 30 })
      .map((lines) => lines.map((parts) => parts.join("")).join(""));
    fc.assert(
      fc.property(text, fc.array(fc.nat(500), { maxLength: 20 }), (whole, cuts) => {
        expect(parse(whole, cuts)).toEqual(parse(whole));
      }),
    );
  });
});
