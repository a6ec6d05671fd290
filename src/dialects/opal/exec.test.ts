import { describe, expect, it } from "vitest";
import { ConfigError } from "../../core/errors.ts";
import { checkExecInput } from "../../core/input/exec-input.ts";
import { type OpalSubmission, opalExec } from "./exec.ts";

const ENGINE = ["/opt/opal/engine", "--fast"];
/** As the door submits it: what comes out must be a command that is accepted. */
const made = (parts: Partial<OpalSubmission> = {}) => {
  const input = opalExec({ engine: ENGINE, prompt: "SLEEP_TEST_20s_RETRY", opalId: "job_abc123", ...parts });
  return checkExecInput(input, "exec");
};
const text = (base64: string | undefined) => Buffer.from(base64 ?? "", "base64").toString("utf8");
const inputFile = (name: string) => ({ name, base64: "AP8=" });
const nameOf = (name: string) => {
  const { files, env } = made({ inputFile: inputFile(name) });
  const [stored, ...others] = Object.keys(files).filter((each) => each !== "prompt.txt");
  expect(others).toEqual([]);
  expect(env.OPAL_INPUT_FILE).toBe(`inputs/${stored}`);
  expect(text(files["prompt.txt"])).toBe("SLEEP_TEST_20s_RETRY");
  return stored;
};

describe("a prompt", () => {
  it("comes to the engine as it is configured, in its environment and in a file", () => {
    const { argv, env, files, cwd } = made({ metadata: { a: [1, "ü"] } });
    expect(argv).toEqual(ENGINE);
    expect(cwd).toBe(null); // the attempt's own directory, from which files are named
    expect(env).toEqual({
      ...{ OPAL_JOB_ID: "job_abc123", OPAL_PROMPT: "SLEEP_TEST_20s_RETRY", OPAL_PROMPT_FILE: "inputs/prompt.txt" },
      OPAL_METADATA: '{"a":[1,"ü"]}',
    });
    expect(Object.keys(files)).toEqual(["prompt.txt"]);
    expect(text(files["prompt.txt"])).toBe("SLEEP_TEST_20s_RETRY");
  });

  it("gets the job's own id if the client chose none", () => {
    const { env, fill } = made({ opalId: null });
    expect([env.OPAL_JOB_ID, fill]).toEqual([undefined, { OPAL_JOB_ID: { kind: "jobId" } }]);
    expect(made().fill).toEqual({});
  });

  it("is never part of the command line", () => {
    expect(made({ prompt: "; rm -rf / #" }).argv).toEqual(ENGINE);
  });

  it("is in the environment up to 32 KiB, as bytes, and without NUL", () => {
    const kept = (prompt: string) => {
      const { env, files } = made({ prompt });
      expect(text(files["prompt.txt"])).toBe(prompt);
      return env.OPAL_PROMPT === prompt;
    };
    expect([kept("x".repeat(32_768)), kept("x".repeat(32_769))]).toEqual([true, false]);
    expect([kept("é".repeat(16_384)), kept("é".repeat(16_385))]).toEqual([true, false]);
    expect(kept("a\0b")).toBe(false);
  });

  it.each([undefined, null, "", " \n", 1, {}])("is refused when it is %s", (prompt) => {
    expect(() => made({ prompt })).toThrow(/^prompt: /);
  });
});

describe("metadata", () => {
  it("is any JSON, {} by default", () => {
    expect(made().env.OPAL_METADATA).toBe("{}");
    expect(made({ metadata: null }).env.OPAL_METADATA).toBe("{}");
    expect(made({ metadata: "a\0b" }).env.OPAL_METADATA).toBe('"a\\u0000b"');
  });

  it("is refused when it is too long, or no JSON", () => {
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    for (const metadata of ["x".repeat(65_535), "é".repeat(32_768), circle, 1n, () => 1]) {
      expect(() => made({ metadata })).toThrow(ConfigError);
      expect(() => made({ metadata })).toThrow(/^metadata: /);
    }
  });
});

describe("an input file", () => {
  it("keeps its bytes", () => {
    expect(made({ inputFile: inputFile("a.bin") }).files["a.bin"]).toBe("AP8=");
    expect(() => made({ inputFile: { name: "a", base64: "?" } })).toThrow(/^input_file: /);
  });

  it.each([
    ["photo.png", "photo.png"],
    ["/etc/passwd", "passwd"],
    ["../../x.sh", "x.sh"],
    ["C:\\Users\\me\\Q1 report.pdf", "Q1_report.pdf"],
    ["Übergröße-日本.txt", "Übergröße-日本.txt"],
    ["a\0b\nc\u001b[31m", "a_b_c__31m"],
    ["$(reboot)`x`'\";&|.txt", "__reboot__x______.txt"],
    [".bashrc", "bashrc"],
    ["-rf", "rf"],
    ["", "input"],
    ["..", "input"],
    ["a/", "input"],
    ["prompt.txt", "input_prompt.txt"],
    ["PROMPT.TXT", "input_PROMPT.TXT"],
    ["__proto__", "__proto__"],
  ])("named %j is called %s", (given, wanted) => {
    expect(nameOf(given)).toBe(wanted);
  });

  it("with a very long name keeps its extension", () => {
    expect(nameOf(`${"x".repeat(300)}.tar.gz`)).toBe(`${"x".repeat(57)}.gz`);
    expect(nameOf("𝒜".repeat(300))).toBe("𝒜".repeat(60));
    expect(nameOf(`a.${"b".repeat(300)}`)).toBe(`a.${"b".repeat(58)}`);
  });
});
