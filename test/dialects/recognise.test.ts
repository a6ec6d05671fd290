/** Each document is recognised as exactly one kind. */
import { describe, expect, it } from "vitest";
import { documentsOf } from "../../src/cli/apply/documents.ts";
import { DIALECT_NAMES } from "../../src/dialects/dialect.ts";
import { candidates, DIALECTS, dialectOf, recognise } from "../../src/dialects/registry.ts";
import { readYaml } from "../../src/yaml/read.ts";
import { OWN, SAMPLES } from "./samples.ts";

const parsed = (text: string) => readYaml(text, "test").value;
const kindOf = async (text: string) => {
  const [document] = await documentsOf({ files: ["-"], io: { cwd: "/" }, stdin: streamOf(text) });
  return document?.dialect?.name ?? "perdure";
};

async function* streamOf(text: string) {
  yield Buffer.from(text);
}

it("the registry has all five, by their names", () => {
  expect(DIALECTS.map(({ name }) => name)).toEqual([...DIALECT_NAMES]);
  for (const name of DIALECT_NAMES) expect(dialectOf(name).name).toBe(name);
  expect(() => dialectOf("flusterr")).toThrow('Did you mean "fluster"?');
});

describe("a document", () => {
  it.each(Object.entries(SAMPLES))("of %s is of it alone", async (name, text) => {
    expect(candidates(parsed(text)).map((each) => each.name)).toEqual([name]);
    expect(recognise(parsed(text))?.name).toBe(name);
    expect(await kindOf(text)).toBe(name);
  });

  it.each([
    OWN,
    "command: echo hello\n",
    "kind: mail\ninput: { to: a@example.org }\n",
    "jobs: [{ argv: [a] }, { kind: http, input: { url: https://a.example } }]\n",
    "kind: agent\ninput: { prompt: x }\n",
    "argv: [a]\nretry: { max_attempts: 3 }\n", // Perdure's own format, with a mistake that is reported as such
  ])("of ours is of no dialect: %j", async (text) => {
    expect(await kindOf(text)).toBe("perdure");
  });

  it.each([
    ["argv: [a]\nprompt: x\n", "could be a job file of Perdure or an OPAL job; choose with --dialect perdure|opal"],
    ["prompt: x\nstep: s\ntype: http\n", "could be an OPAL job or a NoETL task; choose with --dialect opal|noetl"],
  ])("that could be two is not guessed: %j", async (text, message) => {
    expect(recognise(parsed(text)) === null || text.includes("argv")).toBe(true);
    await expect(kindOf(text)).rejects.toThrow(message);
  });

  it.each(["a: 1\n", "[1, 2]\n", "hello\n", "apiVersion: v1\nkind: Pod\n", "name: x\nentrypoint: y\n"])(
    "of no known kind is refused with the known kinds: %j",
    async (text) => {
      await expect(kindOf(text)).rejects.toThrow(/of no known kind\. .*AgentTask/);
    },
  );

  it.each(["", "# nothing\n"])("that is empty is reported as empty: %j", async (text) => {
    await expect(kindOf(text)).rejects.toThrow("the file is empty");
  });

  it("of anything at all makes no recogniser throw", () => {
    for (const value of [
      null,
      undefined,
      0,
      "",
      [],
      [[]],
      { retry: null },
      { spec: 1, kind: [] },
      Object.create(null),
    ]) {
      expect(() => candidates(value)).not.toThrow();
    }
  });
});
