import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { DECISION_STEPS, type Match, matchText } from "./match.ts";

describe("what matched, as text", () => {
  it.each<[Match, string]>([
    [{ by: "rule", index: 1, conditions: "exitCode 75" }, "rules[1] (exitCode 75)"],
    [{ by: "rule", index: 0 }, "rules[0]"],
    [{ by: "preset", preset: "agent", conditions: "status 401" }, "preset agent (status 401)"],
    [{ by: "list", list: "retryOn", entry: "heartbeat ... stale", line: "l" }, 'retryOn "heartbeat ... stale"'],
    [{ by: "exitCodes", list: "noRetryOnExitCodes", code: 2 }, "noRetryOnExitCodes (2)"],
    [{ by: "exitCodes", list: "retryOnExitCodes" }, "retryOnExitCodes"],
    [{ by: "condition", condition: "stopWhen" }, "stopWhen"],
    [{ by: "onUnknown", unknownLists: ["a-2"] }, 'onUnknown (this version does not know lines "a-2")'],
    [{ by: "loss", why: "killed" }, "killed"],
    [{ by: "handbacks", count: 20 }, "handed back 20 times in a row"],
  ])("%j", (match, text) => {
    expect(matchText(match)).toBe(text);
  });
});

it("docs/lifecycle.md has the steps of the decision, in their order", () => {
  const page = readFileSync(new URL("../../../docs/lifecycle.md", import.meta.url), "utf8");
  const named = [...page.matchAll(/^\d+\. `(\w+)` \*\*/gm)].map(([, name]) => name);
  expect(named).toEqual([...DECISION_STEPS]);
});
