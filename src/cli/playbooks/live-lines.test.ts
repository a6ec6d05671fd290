import { Writable } from "node:stream";
import { expect, it, vi } from "vitest";
import { LiveLines } from "./live-lines.ts";

function terminal(columns: number) {
  let text = "";
  const stream = new Writable({
    decodeStrings: false,
    write(chunk: string, _, done) {
      text += chunk;
      done();
    },
  });
  return { stderr: Object.assign(stream, { isTTY: true, columns }), columns: undefined, text: () => text };
}

it("keeps changing lines below those that stay, in one write each, and clears them at the end", () => {
  vi.useFakeTimers();
  const io = terminal(12);
  const lines = new LiveLines(io, false);
  lines.note("one");
  lines.update("a", "  a: 1/4");
  lines.update("a", "  a: 2/4 and more");
  vi.advanceTimersByTime(100);
  lines.note("two");
  lines.finish("a");
  lines.close();
  vi.useRealTimers();
  const up = "\x1b[1A\r\x1b[J";
  expect(io.text()).toBe(`one\n  a: 2/4 an…\n${up}two\n  a: 2/4 an…\n${up}`);
});

it("writes no changing lines elsewhere, nothing with quiet, and no controls of a job", () => {
  const io = { ...terminal(80) };
  Object.assign(io.stderr, { isTTY: false });
  const lines = new LiveLines(io, false);
  lines.update("a", "x");
  lines.note("a\x1b[2Jb");
  new LiveLines(io, true).note("no");
  lines.close();
  expect(io.text()).toBe("a\\x1b[2Jb\n");
});
