import { describe, expect, it } from "vitest";
import { failure } from "../../core/decision/failure.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { commandLine, failureLine } from "./job-text.ts";

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

  it("is cut if it is very long", () => {
    expect(commandLine({ kind: "exec", payload: { command: "x".repeat(10_000) } })).toBe(`${"x".repeat(499)}…`);
  });

  it("is empty for jobs of other kinds", () => {
    expect(commandLine({ kind: "mail", payload: { argv: ["secret"] } })).toBe("");
  });
});

describe("the failure of a job in a list", () => {
  const shown = (message: string, line?: string, state = "failed") => {
    const cause = failure({ kind: "exit", message, ...(line === undefined ? {} : { line }) });
    return failureLine({ state, failure: cause } as JobInfo);
  };

  it("has the matched line of the output, on one line, also if the message is long", () => {
    expect(shown("exit code 1: bye")).toBe("exit code 1: bye");
    expect(shown("exit code 1:\nbye", "HTTP 401")).toBe("exit code 1: bye (HTTP 401)");
    expect(shown("x".repeat(5_000), "HTTP 401")).toMatch(/^x{249}… \(HTTP 401\)$/);
    expect(shown("x".repeat(5_000))).toMatch(/^x{499}…$/);
    expect(shown("bye", "HTTP 401", "running")).toBe("");
  });
});
