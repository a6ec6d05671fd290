import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { rounds } from "../../../test/tier.ts";
import type { CommandVerdict } from "../../core/input/verdict.ts";
import { readUsage, readVerdict, usageTrouble } from "./result-files.ts";

const dir = mkdtempSync(join(tmpdir(), "perdure-verdict-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
let count = 0;

function file(content: string | Buffer): string {
  const path = join(dir, `${++count}.json`);
  writeFileSync(path, content);
  return path;
}
const verdict = (content: string | Buffer) => readVerdict(file(content));
const why = (found: CommandVerdict) => (found.kind === "malformed" ? found.why : `not malformed: ${found.kind}`);
const NO_MORE = { reason: null, code: null, output: null, usage: null, usageTrouble: null };

describe("a verdict", () => {
  it("is absent without a file", async () => {
    expect(await readVerdict(join(dir, "none"))).toEqual({ kind: "none" });
  });

  it("of a file with another owner than the command is refused, and so is its usage", async () => {
    const path = file('{"status":"completed","usage":{"tokensIn":1}}');
    const own = process.getuid?.() ?? 0;
    expect((await readVerdict(path, own)).kind).toBe("completed");
    expect(why(await readVerdict(path, own + 1))).toContain("not owned by the user");
    expect(await readUsage(path, own + 1)).toBe(null);
  });

  it("is completed or failed, with its optional fields", async () => {
    expect(await verdict('{"status":"completed"}')).toEqual({ kind: "completed", ...NO_MORE });
    expect(await verdict('{"status":"failed"}')).toEqual({ kind: "failed", ...NO_MORE });
    const usage = { tokensIn: 1, tokensOut: 2, costUsd: 0.5 };
    const full = { status: "failed", reason: "no such image", output: { tried: 3 }, usage, more: true };
    expect(await verdict(JSON.stringify(full))).toEqual({
      ...{ kind: "failed", reason: "no such image", code: null, output: { tried: 3 }, usage, usageTrouble: null },
    });
  });

  it("is waiting, with the ids of the children", async () => {
    const children = ["job_1", "job_2"];
    const waiting = { status: "waiting", children };
    expect(await verdict(JSON.stringify(waiting))).toEqual({
      kind: "waiting",
      children,
      usage: null,
      usageTrouble: null,
    });
    const usage = { tokensIn: 1, tokensOut: 2, costUsd: 0.5 };
    const twice = { ...waiting, children: [...children, "job_1"], usage };
    expect(await verdict(JSON.stringify(twice))).toEqual({ kind: "waiting", children, usage, usageTrouble: null });
    const many = Array.from({ length: 1_001 }, (_, i) => `job_${i}`);
    for (const bad of [undefined, null, "job_1", [], [1], [""], ["x".repeat(101)], many, { 0: "job_1" }]) {
      expect(why(await verdict(JSON.stringify({ status: "waiting", children: bad })))).toContain("1 to 1000 ids");
    }
    const most = JSON.stringify({ status: "waiting", children: many.slice(1) });
    expect(await verdict(most)).toMatchObject({ kind: "waiting" });
  });

  it("has the reason why not all of its usage is counted", async () => {
    for (const status of ["completed", "failed", "budget_exceeded", "waiting"]) {
      const given = { status, children: ["job_1"], usage: { cost_usd: "3", tokens_in: 2 } };
      expect(await verdict(JSON.stringify(given))).toMatchObject({
        usage: { tokensIn: 2, tokensOut: 0, costUsd: 0 },
        usageTrouble: 'cost_usd: must be a number of at least 0; got "3"',
      });
    }
    expect(await verdict('{"status":"failed","usage":null}')).toMatchObject({ usage: null, usageTrouble: null });
  });

  it("takes a reason only where it is a text, and not too much of it", async () => {
    for (const reason of [1, null, {}, "", "  "]) {
      expect(await verdict(JSON.stringify({ status: "failed", reason }))).toMatchObject({ reason: null });
    }
    const long = (await verdict(JSON.stringify({ status: "failed", reason: "x".repeat(9_000) }))) as { reason: string };
    expect(long.reason.length).toBeLessThanOrEqual(2_048);
  });

  it("takes another text for a reason where it gives none: error, message, summary, the first of them", async () => {
    const all = { summary: "s", message: "m", error: "e", reason: "r" };
    const reasonOf = async (parts: object) =>
      ((await verdict(JSON.stringify({ status: "failed", ...parts }))) as { reason: string }).reason;
    expect(await reasonOf(all)).toBe("r");
    expect(await reasonOf({ ...all, reason: " " })).toBe("e");
    expect(await reasonOf({ ...all, reason: null, error: { code: 7 } })).toBe("m");
    expect(await reasonOf({ summary: "s", result: "x" })).toBe("s");
    expect(await reasonOf({ result: "x" })).toBe(null);
  });

  it("takes a word in code or error for the code, where it is not the reason itself", async () => {
    const codeOf = async (parts: object) =>
      ((await verdict(JSON.stringify({ status: "failed", ...parts }))) as { code: string | null }).code;
    expect(await codeOf({ reason: "CUDA is full", error: "worker_oom" })).toBe("worker_oom");
    expect(await codeOf({ error: "CUDA is full", code: "worker_oom" })).toBe("worker_oom");
    expect(await codeOf({ reason: "r", error: "worker_oom", code: "E1" })).toBe("E1");
    for (const none of [{ error: "worker_oom" }, { reason: "r", error: "two words" }, { reason: "r", code: 7 }, {}]) {
      expect(await codeOf(none)).toBe(null);
    }
  });

  it("without a status is output, whatever JSON it is", async () => {
    for (const value of [
      { a: 1 },
      {},
      [1],
      "text",
      7,
      false,
      null,
      { Status: "completed" },
      { nested: { status: 1 } },
    ]) {
      expect(await verdict(JSON.stringify(value))).toEqual({ kind: "output", output: value, usage: null });
    }
  });

  it("is malformed if it is not JSON, or has another status", async () => {
    for (const text of ["{", "completed", '{"status":"completed"', '{"status":"completed"}x', "\0", "NaN"]) {
      expect((await verdict(text)).kind, text).toBe("malformed");
    }
    for (const status of ["done", "COMPLETED", "", 1, null, true, ["completed"], {}]) {
      expect(why(await verdict(JSON.stringify({ status })))).toContain("its status is");
    }
    expect(why(await verdict(""))).toContain("empty");
    // Half a file may be whole the next time.
    expect(await verdict("{")).not.toHaveProperty("isRefused");
    expect((await verdict(Buffer.from([0xff, 0xfe, 0x7b]))).kind).toBe("malformed");
  });

  it("is malformed where it is too large, and then not read", async () => {
    const path = file("");
    truncateSync(path, 50 * 2 ** 30); // 50 GB, of holes
    expect(why(await readVerdict(path))).toContain("53687091200 bytes");
    const most = `"${"x".repeat(786_432 - 2)}"`;
    expect((await verdict(most)).kind).toBe("output");
    expect(await verdict(`${most} `)).toEqual({
      ...{ kind: "malformed", isRefused: true },
      why: "it has 786433 bytes, over the limit of 786432",
    });
  });

  it("is malformed where it is nested too deeply to be written again", async () => {
    const deep = await verdict(`${"[".repeat(100_000)}${"]".repeat(100_000)}`);
    expect(deep).toMatchObject({ kind: "malformed", isRefused: true });
  });

  it("is not read from links, pipes and directories, and never blocks", async () => {
    const [link, fifo, folder] = [join(dir, "link"), join(dir, "fifo"), join(dir, "folder")];
    symlinkSync(file('{"status":"completed"}'), link);
    execFileSync("mkfifo", [fifo]);
    mkdirSync(folder);
    for (const path of [link, fifo, folder]) {
      expect(await readVerdict(path), path).toMatchObject({ kind: "malformed", isRefused: true });
    }
    for (const path of [link, fifo, folder]) expect(await readUsage(path)).toBe(null);
  });

  it("never throws and never pollutes prototypes, whatever the file contains", async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.json(), fc.string(), fc.uint8Array()), async (content) => {
        const path = join(dir, "fuzz");
        writeFileSync(path, content);
        expect((await readVerdict(path)).kind).toMatch(
          /^(none|output|completed|failed|budget_exceeded|waiting|malformed)$/,
        );
        await readUsage(path);
        await usageTrouble(path);
        expect(Object.keys(Object.prototype)).toEqual([]);
      }),
      { numRuns: rounds(300) },
    );
    const evil = '{"__proto__":{"status":"completed"}}';
    expect((await verdict(evil)).kind).toBe("output");
  });
});

describe("usage", () => {
  const usage = { tokensIn: 10, tokensOut: 2, costUsd: 0.25 };

  it("is read by the names that people use, alone or below `usage`", async () => {
    for (const given of [usage, { tokens_in: 10, tokens_out: 2, cost_usd: 0.25 }, { usage }]) {
      expect(await readUsage(file(JSON.stringify(given)))).toEqual(usage);
    }
    const claude = { input_tokens: 10, output_tokens: 2 };
    expect(await readUsage(file(JSON.stringify(claude)))).toEqual({ ...usage, costUsd: 0 });
  });

  it("counts only numbers from 0", async () => {
    for (const bad of [-1, "5", null, {}, true]) {
      const text = JSON.stringify({ tokensIn: bad, tokensOut: 3 }).replace("null", "1e999");
      expect(await readUsage(file(text))).toEqual({ tokensIn: 0, tokensOut: 3, costUsd: 0 });
    }
  });

  it.each([
    ['{"cost_usd":"3"}', 'cost_usd: must be a number of at least 0; got "3"'],
    ['{"usage":{"tokensIn":-5}}', "tokensIn: must be a number of at least 0; got -5"],
    ['{"cost":3}', "has none of tokens_in, tokens_out and cost_usd"],
    ["[3]", "must be an object; got [3]"],
    ["", "it is empty"],
    ["{cost", /JSON/],
  ])("has the reason why it is not counted: %s", async (text, why) => {
    expect(await usageTrouble(file(text))).toMatch(why);
  });

  it("has no problem if all is counted, or the file does not exist", async () => {
    for (const text of [
      '{"tokens_in":0}',
      '{"usage":{"cost_usd":0.1},"model":"m"}',
      '{"input_tokens":1,"cache":"x"}',
    ]) {
      expect(await usageTrouble(file(text))).toBe(null);
    }
    expect(await usageTrouble(join(dir, "none"))).toBe(null);
  });

  it("counts whole tokens, and no more than sums can bear", async () => {
    const text = JSON.stringify({ tokensIn: 1.6, tokensOut: 9e307, costUsd: 1.7e308 });
    expect(await readUsage(file(text))).toEqual({ tokensIn: 2, tokensOut: 1e15, costUsd: 1e15 });
  });

  it("is null if the file does not exist, or is being written", async () => {
    expect(await readUsage(join(dir, "none"))).toBe(null);
    for (const text of ["", "{", '{"tokensIn":1', "[]", "7", "{}"]) expect(await readUsage(file(text))).toBe(null);
  });
});
