import { describe, expect, it } from "vitest";
import type { CommandVerdict } from "../../core/input/verdict.ts";
import type { CommandEnd } from "./command.ts";
import { endOf } from "./outcome.ts";

type Ended = Extract<CommandEnd, { kind: "ended" }>;
const NONE: CommandVerdict = { kind: "none" };

function end(parts: Partial<Ended> = {}): Ended {
  return {
    ...{ kind: "ended", exitCode: 0, signal: null, exceeded: null, isOutOfMemory: false, wasStopped: false, left: 0 },
    ...parts,
  };
}
const killed = (parts: Partial<Ended> = {}) => end({ exitCode: null, signal: "SIGKILL", ...parts });
const failureOf = (ended: Ended, line = "") => {
  const judged = endOf(ended, NONE, line);
  return judged.kind === "failed" ? judged.failure : null;
};

describe("without a verdict", () => {
  it("exit code 0 is success, any other a failure that may pass", () => {
    expect(endOf(end(), NONE, "noise")).toMatchObject({ kind: "completed", exitCode: 0, output: null });
    expect(failureOf(end({ exitCode: 7 }), "why")).toMatchObject({
      ...{ kind: "exit", class: "transient", exitCode: 7, message: "exit code 7: why" },
    });
  });

  it("a signal is 128 + n", () => {
    expect(failureOf(killed())).toMatchObject({ kind: "signal", signal: "SIGKILL", exitCode: 137 });
    const term = end({ exitCode: null, signal: "SIGTERM" });
    expect(failureOf(term, "bye")).toMatchObject({ exitCode: 143, message: "signal SIGTERM: bye" });
  });

  it("distinguishes an out-of-memory kill from other kills", () => {
    expect(failureOf(killed({ isOutOfMemory: true }))).toMatchObject({ kind: "oom", exitCode: 137, code: null });
    const exceeded = { kind: "memory", used: 5 } as const;
    expect(failureOf(killed({ exceeded }))).toMatchObject({ kind: "oom", code: "limit_memory" });
    const many = { kind: "processes", used: 9 } as const;
    expect(failureOf(killed({ exceeded: many }))).toMatchObject({ kind: "signal", code: "limit_processes" });
  });

  it("a last line of any length leaves a message that can be read", () => {
    const message = failureOf(end({ exitCode: 1 }), `x${"😀".repeat(5_000)}`)?.message ?? "";
    expect(message.length).toBeLessThan(2_048);
    expect(message.isWellFormed()).toBe(true);
  });
});

describe("what stands around the line", () => {
  const stackOf = (line: string, tail: string) => {
    const judged = endOf(end({ exitCode: 1 }), NONE, line, tail);
    return judged.kind === "failed" ? judged.failure.stack : undefined;
  };

  it("is kept where there is more than the line itself", () => {
    expect(stackOf("two", "one\ntwo\n")).toBe("one\ntwo");
    expect(stackOf("two", "two\n")).toBeNull();
    expect(stackOf("", "")).toBeNull();
  });
});

describe("a malformed result.json", () => {
  it("is mentioned where the exit code decides", () => {
    const judged = endOf(end({ exitCode: 3 }), { kind: "malformed", why: "it is empty" }, "oops");
    expect(judged).toMatchObject({
      kind: "failed",
      failure: {
        ...{ kind: "exit", class: "transient", exitCode: 3, code: "malformed_result" },
        message: "exit code 3: oops; its result.json is malformed: it is empty",
      },
    });
  });
});

describe("with a verdict", () => {
  const said = { reason: null, code: null, output: 5, usage: null, usageTrouble: null };

  it("its word counts, however it ended", () => {
    for (const each of [end(), end({ exitCode: 3 }), killed(), killed({ wasStopped: true })]) {
      expect(endOf(each, { kind: "completed", ...said }, "")).toMatchObject({ kind: "completed", output: 5 });
      const no = endOf(each, { kind: "failed", ...said, reason: "no" }, "");
      expect(no).toMatchObject({ kind: "failed", failure: { kind: "result", class: "logical", message: "no" } });
      const coded = endOf(each, { kind: "failed", ...said, reason: "no", code: "worker_oom" }, "");
      expect(coded).toMatchObject({ failure: { message: "no", code: "worker_oom" } });
      const spent = endOf(each, { kind: "budget_exceeded", ...said }, "");
      expect(spent).toMatchObject({ kind: "failed", failure: { kind: "result", class: "budget" } });
      const waits = { kind: "waiting", children: ["job_1"] } as const;
      expect(endOf(each, { ...waits, usage: null, usageTrouble: null }, "")).toEqual(waits);
    }
  });

  it("that is malformed counts as none, but for an exit code of 0", () => {
    const malformed: CommandVerdict = { kind: "malformed", why: "it is empty" };
    const message = "result.json is malformed: it is empty";
    expect(endOf(end(), malformed, "")).toMatchObject({ kind: "failed", failure: { kind: "result", message } });
    expect(endOf(end({ exitCode: 4 }), malformed, "")).toMatchObject({ failure: { kind: "exit", exitCode: 4 } });
  });

  it("that is refused is a permanent failure after exit code 0: the work was done", () => {
    const why = "it has 900000 bytes, over the limit of 786432";
    const oversized: CommandVerdict = { kind: "malformed", why, isRefused: true };
    const message = `exit code 0, but its result.json cannot be used: ${why}; write result.json as a small plain file, and large output to artifacts/`;
    expect(endOf(end(), oversized, "")).toMatchObject({
      ...{ kind: "failed", failure: { kind: "result", class: "logical", message, exitCode: 0 } },
    });
    // Nothing shows that the work was done.
    for (const each of [end({ exitCode: 4 }), killed(), end({ wasStopped: true })]) {
      expect(endOf(each, oversized, "")).toMatchObject({ failure: { class: "transient", code: "malformed_result" } });
    }
  });

  it("output requires exit code 0", () => {
    const output: CommandVerdict = { kind: "output", output: [1], usage: null };
    expect(endOf(end(), output, "")).toMatchObject({ kind: "completed", output: [1] });
    expect(endOf(end({ exitCode: 4 }), output, "")).toMatchObject({ kind: "failed" });
  });
});
