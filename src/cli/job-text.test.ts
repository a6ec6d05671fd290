import { describe, expect, it } from "vitest";
import { commandLine } from "./job-text.ts";

describe("the command line of a job", () => {
  it.each([
    [{ argv: ["./flaky.sh", "--fast", "a=b"] }, "./flaky.sh --fast a=b"],
    [{ argv: ["echo", "two words", "", "it's"] }, "echo 'two words' '' 'it'\\''s'"],
    [{ argv: ["rm", "$HOME", "*"] }, "rm '$HOME' '*'"],
    [{ command: "make | tee log", shell: true }, "make | tee log"],
    [{ argv: [] }, ""],
    [{ argv: [1, null] }, "1 null"],
    [{ command: 5 }, ""],
    [{}, ""],
    [null, ""],
    [undefined, ""],
    ["text", ""],
  ])("%j is shown as a shell would read it", (payload, shown) => {
    expect(commandLine({ kind: "exec", payload })).toBe(shown);
  });

  it("is cut when nobody would read it all", () => {
    expect(commandLine({ kind: "exec", payload: { command: "x".repeat(10_000) } })).toBe(`${"x".repeat(499)}…`);
  });

  it("is not looked for in jobs of other kinds", () => {
    expect(commandLine({ kind: "mail", payload: { argv: ["secret"] } })).toBe("");
  });
});
