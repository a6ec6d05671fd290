import { describe, expect, it } from "vitest";
import { checkExecInput } from "./exec-input.ts";
import { pythonInput } from "./python-input.ts";

const codeHash = "ab".repeat(32);

describe("the job of a python step", () => {
  it("names its code by hash, and passes its data on standard input", () => {
    const input = pythonInput({ codeHash, data: { city: "Oslo" }, env: { A: "1" } });
    expect(checkExecInput(input, "exec")).toMatchObject({
      ...{ argv: ["python3", "inputs/run_task.py"], runner: "python", assets: { "task.py": codeHash } },
      ...{ files: {}, stdin: '{"city":"Oslo"}', env: { A: "1" } },
    });
    expect(checkExecInput(pythonInput({ codeHash, data: null }), "exec")).toMatchObject({ stdin: "{}", env: {} });
  });

  it("has a payload that does not grow with its code, nor with the runner", () => {
    expect(JSON.stringify(pythonInput({ codeHash, data: null })).length).toBeLessThan(200);
  });
});
