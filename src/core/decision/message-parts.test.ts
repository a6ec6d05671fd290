import { describe, expect, it } from "vitest";
import { findPart } from "./message-parts.ts";

const partIn = (text: string, parts: readonly string[]) => findPart(text, parts)?.part ?? null;

const STALE = "heartbeat ... stale";

describe("parts of messages", () => {
  it("are plain text, and the first that is found is given", () => {
    expect(partIn("read: connection reset by peer", ["timeout", "reset", "connection"])).toBe("reset");
    expect(partIn("read: connection reset by peer", ["a.*b", "reset$"])).toBeNull();
    expect(partIn("", ["x"])).toBeNull();
  });

  it.each([
    ["heartbeat stale"],
    ["worker heartbeat is stale"],
    ["heartbeat of worker w-3 went stale"],
    ["heartbeat: stale"],
    ["heartbeat ok\nheartbeat of w-1.example.org is stale"], // The nearest one counts, and a dot within a name ends nothing.
    ["heartbeat ... stale"],
    ["heartbeat for worker 0f8fad5b-d9cb-469f-a165-70867728950e (last seen 45 s ago) is stale"],
  ])("with words in between: %j", (text) => {
    expect(partIn(text, ["nothing", STALE])).toBe(STALE);
  });

  it.each([
    ["stale heartbeat"],
    ["heartbeat"],
    ["heartbeatstale"],
    ["heartbeat ok\ncache stale"],
    ["heartbeat ok. cache is stale"],
    ["heartbeat ok; cache is stale"],
    [`heartbeat ${"x ".repeat(50)}stale`],
  ])("with too much in between, or in another order: %j", (text) => {
    expect(partIn(text, [STALE])).toBeNull();
  });

  it("may have several gaps, also at their ends", () => {
    expect(partIn("a x b y c", ["a ... b ... c"])).not.toBeNull();
    expect(partIn("a x c y b", ["a ... b ... c"])).toBeNull();
    expect(partIn("say a", [" ... a"])).not.toBeNull();
    expect(partIn("say a", [" ... "])).toBeNull();
    expect(partIn("say a", [" ...  ... "])).toBeNull();
  });

  it("take no longer for what would make a pattern go back and forth", () => {
    const part = Array.from({ length: 30 }, () => "aa").join(" ... ");
    const text = "a".repeat(200_000);
    const before = process.cpuUsage();
    expect(partIn(text, [`${part} ... b`])).toBeNull();
    // About 0.1 s of CPU; one that tries all ways would not end.
    expect(process.cpuUsage(before).user).toBeLessThan(5_000_000);
  });
});
