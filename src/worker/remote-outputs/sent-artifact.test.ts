import { appendFileSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Answer, Asked } from "../../../test/http-worker/fake-server.ts";
import { keeper, startAttempt } from "../../../test/http-worker/file-keeper.ts";
import { rounds } from "../../../test/tier.ts";
import { SentArtifact } from "./sent-artifact.ts";

type Op = "append" | "rewrite" | "rename" | "cut" | "look" | "wait";
const LARGE = "0123456789abcdef".repeat(150_000); // three pieces

async function bench(
  answer: (asked: Asked, put: ReturnType<typeof keeper>["put"]) => Answer = (asked, put) => put(asked),
) {
  const { kept, staged, put } = keeper();
  const made = await startAttempt((asked) => answer(asked, put));
  const path = join(made.dir, "f");
  const file = new SentArtifact(made.files, made.attempt, "artifacts/f", path);
  const passes = (ms: number) => new Promise<void>((resolve) => void made.clock.after(ms, resolve));
  return { ...made, kept, staged, path, file, passes, has: () => kept.get("artifacts/f") };
}

describe("a file of a command", () => {
  it("is sent when it has stopped changing, whole, and then what was added", async () => {
    const { file, path, has, server } = await bench();
    writeFileSync(path, "one");
    await file.sync();
    expect(has()).toBeUndefined();
    await file.sync();
    expect(has()).toBe("one");
    await file.sync();
    expect(server.asked).toHaveLength(1);
    appendFileSync(path, " two");
    await file.sync();
    await file.sync();
    expect(has()).toBe("one two");
    expect(server.asked.at(-1)?.path).toContain("offset=3");
  });

  it("that keeps changing is sent as it is after 5 s", async () => {
    const { file, path, has, passes } = await bench();
    for (let second = 0; second < 5; second++) {
      appendFileSync(path, `${second}`);
      await file.sync();
      expect(has()).toBeUndefined();
      await passes(1_000);
    }
    appendFileSync(path, "5");
    await file.sync();
    expect(has()).toBe("012345");
  });

  it("is never half there, also when it was written again while it was sent", async () => {
    let [cut, has]: [() => void, () => string | undefined] = [() => {}, () => undefined];
    const made = await bench((asked, put) => {
      const answer = put(asked);
      if (asked.path.includes("offset=1048576")) cut();
      expect(["old", LARGE]).toContain(has() ?? "old");
      return answer;
    });
    ({ has } = made);
    const { file, path, staged } = made;
    writeFileSync(path, "old");
    for (let looks = 0; looks < 2; looks++) await file.sync();
    writeFileSync(path, LARGE);
    cut = () => writeFileSync(path, LARGE.slice(1_000).replaceAll("f", "g"));
    for (let looks = 0; looks < 2; looks++) await file.sync();
    expect([has(), staged.size]).toEqual(["old", 0]);
    cut = () => {};
    writeFileSync(path, LARGE);
    for (let looks = 0; looks < 2; looks++) await file.sync();
    expect(has() === LARGE).toBe(true);
  });

  it("has the right bytes in the end, after any changes and any number of checks", async () => {
    const { file, path, has, passes } = await bench();
    const ops = fc.constantFrom<Op>("append", "rewrite", "rename", "cut", "look", "look", "wait");
    await fc.assert(
      fc.asyncProperty(fc.array(ops, { maxLength: 25 }), async (list) => {
        let n = 0;
        writeFileSync(path, "");
        for (const op of list) {
          n += 1;
          if (op === "append") appendFileSync(path, `+${n}`);
          else if (op === "rewrite") writeFileSync(path, "x".repeat(n % 7) + n);
          else if (op === "rename") {
            writeFileSync(`${path}.new`, `renamed ${n}`);
            renameSync(`${path}.new`, path);
          } else if (op === "cut") truncateSync(path, 1);
          else if (op === "look") await file.sync();
          else await passes(6_000);
        }
        await file.finish();
        expect(has()).toBe(readFileSync(path, "utf8"));
      }),
      { numRuns: rounds(60) },
    );
    rmSync(path);
    await file.remove();
    expect(has()).toBeUndefined();
  });

  it("is sent again to a server that has lost a part of it", async () => {
    const { file, path, has, kept } = await bench();
    writeFileSync(path, "0123456789");
    await file.finish();
    kept.set("artifacts/f", "0123");
    appendFileSync(path, "abc");
    await file.finish();
    expect(has()).toBe("0123456789abc");
  });
});
