import { describe, expect, it } from "vitest";
import { type CliCommand, readArguments } from "./command.ts";

const command: CliCommand = {
  ...{ name: "try", summary: "Try it", usage: "perdure try [ID]", examples: [] },
  options: [
    { name: "state", type: "string", multiple: true, help: "State." },
    { name: "limit", short: "n", type: "string", value: "N", help: "Limit." },
    { name: "json", type: "boolean", help: "JSON." },
  ],
  run: async () => 0,
};
const read = (...args: string[]) => readArguments(command, args);
const refused = (...args: string[]) => {
  try {
    read(...args);
  } catch (error) {
    return (error as Error).message;
  }
  return null;
};

describe("arguments", () => {
  it("are parsed by the table: values, lists, flags and positionals", () => {
    const given = read("a", "--state", "x", "--state=-y", "-n5", "--json", "b");
    expect(given?.texts("state")).toEqual(["x", "-y"]);
    expect(given?.text("limit")).toBe("5");
    expect(given?.integer("limit", { min: 1, max: 5 })).toBe(5);
    expect(given?.flag("json")).toBe(true);
    expect(given?.positionals).toEqual(["a", "b"]);
    expect(read()?.text("limit")).toBeUndefined();
    expect(read()?.flag("json")).toBe(false);
  });

  it("after -- are not options", () => {
    const given = read("--json", "--", "./x.sh", "--limit", "--help", "--", "-n");
    expect(given?.positionals).toEqual(["./x.sh", "--limit", "--help", "--", "-n"]);
    expect(given?.text("limit")).toBeUndefined();
  });

  it("with --help are not checked any further", () => {
    expect(read("--nonsense", "--limit", "x", "-h")).toBeNull();
    expect(read("--help")).toBeNull();
  });

  it.each([
    [["--stat", "x"], "unknown option --stat. Did you mean --state? See `perdure try --help`"],
    [["--zzzzzzz"], "unknown option --zzzzzzz. See `perdure try --help`"],
    [["-x"], "unknown option -x. See `perdure try --help`"],
    [["--limit"], "--limit requires a value: --limit N"],
    [
      ["--limit", "--json"],
      "--limit requires a value: --limit N; for a value that begins with a dash, write --limit=--json",
    ],
    [["--limit", "1", "-n", "2"], "-n can be used only once"],
    [["--json=yes"], '--json takes no value; got "yes"'],
  ])("%j are refused", (args, message) => {
    expect(refused(...args)).toBe(message);
  });

  it.each(["0", "101", "1.5", "-1", "abc", "", "1e1", "0x10", "9".repeat(20)])(
    "are not limits from 1 to 100: %j",
    (text) => {
      const given = read(`--limit=${text}`);
      expect(() => given?.integer("limit", { min: 1, max: 100 })).toThrow(
        /^--limit: must be a whole number from 1.*; got .*/,
      );
    },
  );

  it("may be any reference to a job, and are refused otherwise", () => {
    const id = "job_01m7gekg9zevv9a6xvvwmt1v8g";
    expect(read(id)?.jobId()).toBe(id);
    expect(read()?.optionalJobId()).toBeUndefined();
    expect(() => read()?.jobId()).toThrow("missing ID. Usage: perdure try [ID]");
    for (const text of ["job_01m7", "01m7gek", "nightly backup"]) expect(read(text)?.jobId()).toBe(text);
    expect(() => read("a\nb")?.jobId()).toThrow('"a\\nb" is neither the id nor the name of a job');
    expect(() => read(id, "b")?.jobId()).toThrow('unexpected argument "b". Usage: perdure try [ID]');
  });

  it("missing in the option table are a bug of the command", () => {
    expect(() => read()?.text("nope")).toThrow("the command try has no option nope in its table");
  });
});
