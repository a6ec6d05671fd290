import { execFileSync } from "node:child_process";
import {
  closeSync,
  createReadStream,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { CommandContext } from "../command.ts";
import type { Io } from "../io.ts";
import { pipedInput } from "./piped-input.ts";

function newDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "perdure-piped-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

function contextOf(stdin: Io["stdin"], notes: string[] = []): CommandContext {
  const given = { flag: () => false };
  return { io: { stdin }, out: { note: (text: string) => void notes.push(text) }, given } as unknown as CommandContext;
}

/** An open file as the standard input of a process. */
function opened(path: string, flags = "r"): NonNullable<Io["stdin"]> {
  const fd = openSync(path, flags);
  onTestFinished(() => {
    try {
      closeSync(fd);
    } catch {
      // already read to its end
    }
  });
  return { fd, open: () => createReadStream("", { fd, autoClose: false }) };
}

describe("standard input", () => {
  it("of a file is read", async () => {
    const path = join(newDir(), "in");
    writeFileSync(path, "data");
    const piped = await pipedInput(contextOf(opened(path)), "if piped");
    expect(piped).toMatchObject({ bytes: 4 });
    await piped?.close();
    expect(await pipedInput(contextOf(opened(path)), "leave")).toBeNull();
  });

  it("of a pipe is read, and is null if it is empty", async () => {
    const path = join(newDir(), "pipe");
    execFileSync("mkfifo", [path]);
    for (const [text, wanted] of [
      ["data", { bytes: 4 }],
      ["", null],
    ] as const) {
      const both = openSync(path, "r+"); // so that neither end blocks
      const stdin = opened(path);
      writeSync(both, text);
      closeSync(both);
      const piped = await pipedInput(contextOf(stdin), "if piped");
      wanted === null ? expect(piped).toBeNull() : expect(piped).toMatchObject(wanted);
      await piped?.close();
    }
  });

  it("of /dev/null, and one that is closed, is not read", async () => {
    const never = () => {
      throw new Error("it was read");
    };
    expect(await pipedInput(contextOf({ ...opened("/dev/null"), open: never }), "if piped")).toBeNull();
    expect(await pipedInput(contextOf({ fd: 1_000_000, open: never }), "if piped")).toBeNull();
    expect(await pipedInput(contextOf(undefined), "if piped")).toBeNull();
  });

  it("that is closed, or a directory, is an error if it was requested; /dev/null is empty", async () => {
    expect(await pipedInput(contextOf(opened("/dev/null")), "read")).toBeNull();
    const read = (stdin: Io["stdin"]) => pipedInput(contextOf(stdin), "read");
    await expect(read(opened("/dev/null", "r+"))).rejects.toThrow(/--stdin: standard input is closed/); // as Node opens it
    await expect(read({ ...opened("/dev/null"), fd: 1_000_000 })).rejects.toThrow(/standard input is closed/);
    await expect(read(opened(newDir()))).rejects.toThrow(/--stdin: standard input is a directory/);
  });

  it("that does not end causes a note after a few seconds", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const notes: string[] = [];
    let end = () => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    const open = async function* () {
      yield Buffer.from("a");
      await ended;
    };
    const reading = pipedInput(contextOf({ ...opened("/dev/null"), open }, notes), "read");
    vi.advanceTimersByTime(2_999);
    expect(notes).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(notes).toEqual([expect.stringContaining("--no-stdin")]);
    end();
    await (await reading)?.close();
  });

  it("leaves no file behind", async () => {
    const [dir, before] = [newDir(), process.env.TMPDIR];
    process.env.TMPDIR = dir;
    onTestFinished(() => {
      if (before === undefined) delete process.env.TMPDIR;
      else process.env.TMPDIR = before;
    });
    const open = async function* () {
      yield Buffer.from("a");
      expect(readdirSync(dir)).toEqual([]);
    };
    const piped = await pipedInput(contextOf({ ...opened("/dev/null"), open }), "read");
    expect(piped).toMatchObject({ bytes: 1 });
    await piped?.close();
    expect(readdirSync(dir)).toEqual([]);
  });
});
