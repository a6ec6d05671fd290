import { EventEmitter } from "node:events";
import { describe, expect, it } from "vitest";
import type { Io } from "../io.ts";
import { LiveOutput } from "./live-output.ts";

/** A stream that collects its input, and reports backpressure while it is `full`. */
class Sink extends EventEmitter {
  readonly isTTY: boolean;
  isFull = false;
  bytes = Buffer.alloc(0);

  constructor(isTTY: boolean) {
    super();
    this.isTTY = isTTY;
  }

  write(chunk: string | Uint8Array): boolean {
    this.bytes = Buffer.concat([this.bytes, Buffer.from(chunk as string)]);
    return !this.isFull;
  }

  get text(): string {
    return this.bytes.toString("utf8");
  }
}

function liveOn(tty: { stdout: boolean; stderr: boolean }) {
  const [stdout, stderr] = [new Sink(tty.stdout), new Sink(tty.stderr)];
  const io = { stdout, stderr, isTTY: tty.stdout, env: {}, cwd: "/", columns: 80 } as unknown as Io;
  const live = new LiveOutput(io);
  const gone = new AbortController();
  const showing = (stream: "stdout" | "stderr", bytes: string | Uint8Array, attempt = 1) =>
    live.show({ jobId: "job_1", attempt, stream, bytes: Buffer.from(bytes as string) }, gone.signal);
  const show = (...args: Parameters<typeof showing>) => void showing(...args);
  return { live, stdout, stderr, show, showing, gone };
}

const TERMINAL = { stdout: true, stderr: true };
const PIPE = { stdout: false, stderr: false };

describe("on a terminal", () => {
  it("the output does not depend on where chunks are split", () => {
    const bytes = Buffer.from("a€\u{1f600}\r\nb\x1b[2J\u009b\u202e\r50%\r\r\n\t\u0000end\r");
    const whole = liveOn(TERMINAL);
    whole.show("stdout", bytes);
    whole.live.flush();
    expect(whole.stdout.text).toBe("a€\u{1f600}\nb\\x1b[2J\\x9b\\u{202e}\\r50%\\r\n\t\\x00end\\r");
    for (let cut = 1; cut < bytes.length; cut++) {
      const { live, stdout, show } = liveOn(TERMINAL);
      show("stdout", bytes.subarray(0, cut));
      show("stdout", bytes.subarray(cut));
      live.flush();
      expect(stdout.text, `cut at ${cut}`).toBe(whole.stdout.text);
    }
    const slow = liveOn(TERMINAL);
    for (const byte of bytes) slow.show("stdout", Uint8Array.of(byte));
    slow.live.flush();
    expect(slow.stdout.text).toBe(whole.stdout.text);
  });

  it("an incomplete character of an attempt is shown as unreadable, before the next attempt", () => {
    const { stdout, show } = liveOn(TERMINAL);
    show("stdout", Uint8Array.of(0x61, 0xe2, 0x82));
    show("stdout", Uint8Array.of(0xac, 0x62), 2);
    expect(stdout.text).toMatch(/^a\ufffd\n?\ufffdb$/);
  });

  it("the streams do not share incomplete characters", () => {
    const { stdout, stderr, show, live } = liveOn(TERMINAL);
    show("stdout", "a\r");
    show("stderr", "\nb");
    live.flush();
    expect([stdout.text, stderr.text]).toEqual(["a\\r", "\nb"]);
  });

  it("is detected per stream: a redirected file gets the bytes", () => {
    const { stdout, stderr, show } = liveOn({ stdout: false, stderr: true });
    show("stdout", "\x1b[1mx\r\n");
    show("stderr", "\x1b[1mx\r\n");
    expect([stdout.text, stderr.text]).toEqual(["\x1b[1mx\r\n", "\\x1b[1mx\n"]);
  });

  it("Perdure's lines start a new line, whichever stream has an unfinished one", () => {
    const { live, stdout, stderr, show } = liveOn(TERMINAL);
    show("stdout", "half");
    live.endLine("stderr");
    live.endLine("stderr");
    expect([stdout.text, stderr.text]).toEqual(["half", "\n"]);
    show("stdout", "whole\n");
    live.endLine("stderr");
    expect([stdout.text, stderr.text]).toEqual(["halfwhole\n", "\n"]);
  });
});

describe("into a pipe", () => {
  it("all bytes are written unchanged, at once", () => {
    const { stdout, show } = liveOn(PIPE);
    const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
    for (const byte of bytes) show("stdout", Uint8Array.of(byte));
    expect(stdout.bytes).toEqual(Buffer.from(bytes));
  });

  it("an unfinished line of the other stream is not ended", () => {
    const { live, stderr, show } = liveOn(PIPE);
    show("stdout", "half");
    live.endLine("stderr");
    expect(stderr.text).toBe("");
  });
});

describe("a slow reader", () => {
  it.each(["drain", "close", "error"])("blocks the command until %s, and leaves no listeners", async (event) => {
    const { stdout, showing } = liveOn(PIPE);
    expect(showing("stdout", "x")).toBeUndefined();
    stdout.isFull = true;
    const waiting = showing("stdout", "y");
    expect(waiting).toBeInstanceOf(Promise);
    stdout.emit(event, new Error("EPIPE"));
    await waiting;
    expect(stdout.eventNames()).toEqual([]);
  });

  it("that then closes the output no longer blocks", async () => {
    const { stdout, showing, gone } = liveOn(PIPE);
    stdout.isFull = true;
    const waiting = showing("stdout", "y");
    gone.abort();
    await waiting;
    expect(showing("stdout", "z")).toBeUndefined();
    expect(stdout.text).toBe("y");
  });
});
