import { describe, expect, it } from "vitest";
import { HOSTILE, Kept, testIo } from "../../../test/cli/kit.ts";
import { Printer, showLocal, showSince } from "./print.ts";
import { painted } from "./terminal-text.ts";

describe("a printer", () => {
  it("escapes everything it prints", async () => {
    const io = testIo({ env: { FORCE_COLOR: "1" } });
    const out = new Printer(io);
    out.line("a ", painted("red", HOSTILE));
    out.block("two\nlines\x1b[0m");
    out.note(`${HOSTILE}`);
    await out.flush();
    const shown = "\\x1b[2J\\x1b]0;owned\\x07\\u{202e}gpj.exe\\u{200b}\\x9b31m\\r\\nsecond line";
    expect(io.stdout.text).toBe(`a \x1b[31m${shown}\x1b[0m\ntwo\nlines\\x1b[0m\n`);
    expect(io.stderr.text).toBe(`${shown}\n`);
  });

  it("writes a list as one JSON array, of any length", async () => {
    for (const list of [[], [1], [{ a: "\u009b\n" }, null, "x"]]) {
      const io = testIo();
      await new Printer(io).jsonList(list);
      expect(JSON.parse(io.stdout.text)).toEqual(list);
      expect(io.stdout.text.endsWith("]\n")).toBe(true);
    }
  });

  it("stops quietly when the reader has closed the output", async () => {
    const io = testIo({ stdout: new Kept(1) });
    const out = new Printer(io);
    out.line("seen");
    out.line("lost");
    await out.flush();
    expect(out.gone.aborted).toBe(true);
    out.line("not even tried");
    await out.flush();
    expect(io.stdout.text).toBe("seen\n");
  });

  it("reports a failed write", async () => {
    const out = new Printer(testIo({ stdout: new Kept(0, "ENOSPC") }));
    out.line("lost");
    await expect(out.flush()).rejects.toMatchObject({ exitCode: 1, message: "cannot write the output: write ENOSPC" });
  });
});

describe("times", () => {
  it("are local, with their offset and full precision", () => {
    const zone = process.env.TZ;
    try {
      for (const [name, shown] of [
        ["UTC", "2026-11-15T20:32:58.301+00:00"],
        ["Europe/Zurich", "2026-11-15T21:32:58.301+01:00"],
        ["America/St_Johns", "2026-11-15T17:02:58.301-03:30"],
      ] as const) {
        process.env.TZ = name;
        const at = Date.parse("2026-11-15T20:32:58.301Z");
        expect(showLocal(at)).toBe(shown);
        expect(Date.parse(showLocal(at))).toBe(at);
      }
    } finally {
      if (zone === undefined) delete process.env.TZ;
      else process.env.TZ = zone;
    }
    expect(showLocal(Number.NaN)).toBe("an unknown time");
  });

  it("in the future, by a wrong clock, are 0 ms ago", () => {
    expect(showSince(2_000, 1_000)).toBe("0 ms");
    expect(showSince(1_000, 2_500)).toBe("1.5 s");
  });
});
