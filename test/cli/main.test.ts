/** What all commands share: help, the version, usage errors and exit codes. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { CliCommand } from "../../src/cli/command.ts";
import { HELP } from "../../src/cli/command.ts";
import { COMMANDS as LISTED } from "../../src/cli/command-list.ts";
import { main } from "../../src/cli/main.ts";

import { PerdureError } from "../../src/core/errors.ts";
import { DANGEROUS, Kept, perdure, testIo } from "./kit.ts";

const COMMANDS = await Promise.all(LISTED.map(({ load }) => load()));

const PACKAGE = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };

const oneLine = expect.stringMatching(/^[^\n]+\n$/);

describe("help", () => {
  it("lists every command, within 80 columns", async () => {
    for (const argv of [["--help"], ["-h"], ["help"]]) {
      const { code, stdout, stderr } = await perdure(argv);
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      for (const { name, summary } of COMMANDS) expect(stdout).toMatch(new RegExp(`^  ${name} +${summary}$`, "m"));
      expect(Math.max(...stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
    }
  });

  it("wraps each paragraph from its own start", async () => {
    const { stdout } = await perdure(["help", "token"]);
    expect(stdout).toMatch(/^rotate-secret makes a new secret to sign session keys and job tokens, in the$/m);
  });

  it("lists commands with their own names and summaries", () => {
    expect(LISTED.map(({ name, summary }) => [name, summary])).toEqual(
      COMMANDS.map(({ name, summary }) => [name, summary]),
    );
  });

  it.each(COMMANDS.map((command) => [command.name, command] as const))(
    "on %s names all its options, within 80 columns",
    async (name, command) => {
      const asked = await perdure([name, "--help"]);
      expect(asked).toMatchObject({ code: 0, stderr: "" });
      expect(await perdure(["help", name])).toEqual(asked);
      expect(await perdure([name, "--unknown", "-h"])).toEqual(asked);
      expect(asked.stdout).toContain(`Usage: ${command.usage}\n`);
      for (const option of [...command.options, HELP]) {
        expect(asked.stdout).toMatch(new RegExp(`^  .*--${option.name}\\b`, "m"));
        if (option.short) expect(asked.stdout).toContain(`-${option.short}, --${option.name}`);
      }
      for (const example of command.examples) expect(asked.stdout).toContain(example);
      expect(Math.max(...asked.stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
    },
  );

  it.each(COMMANDS.map((command) => [command.name, command] as const))(
    "on %s comes from a table in which every option name is unique",
    (_, { options }) => {
      const all = [...options, HELP];
      const names = all.map(({ name }) => name);
      const shorts = all.flatMap(({ short }) => short ?? []);
      expect(new Set(names).size).toBe(names.length);
      expect(new Set(shorts).size).toBe(shorts.length);
    },
  );
});

describe("perdure", () => {
  it("prints its version", async () => {
    const said = { code: 0, stdout: `${PACKAGE.version}\n`, stderr: "" };
    expect(await perdure(["--version"])).toEqual(said);
    expect(await perdure(["-V"])).toEqual(said);
  });

  it("without a command is a usage error, with a short help on stderr", async () => {
    const { code, stdout, stderr } = await perdure([]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain("Usage: perdure COMMAND");
    expect(stderr).toContain("perdure --help");
  });

  it.each([
    [["pss"], 'perdure: unknown command "pss". Did you mean `perdure ps`?\n'],
    [["explian"], 'perdure: unknown command "explian". Did you mean `perdure explain`?\n'],
    [["zzzzzz"], /^perdure: unknown command "zzzzzz"\. Commands: .*ps, get, explain/],
    [["help", "gett"], 'perdure: unknown command "gett". Did you mean `perdure get`?\n'],
    [["--data", "x", "ps"], /^perdure: unknown option --data: options come after the command/],
    [["ps", "--stat", "x"], "perdure ps: unknown option --stat. Did you mean --state? See `perdure ps --help`\n"],
    [["get"], "perdure get: missing ID. Usage: perdure get ID [OPTIONS]\n"],
    [["get", "job\x1b[2J"], /^perdure get: "job\\u001b\[2J" is neither the id nor the name of a job/],
    [["ps", "\x1b[2J"], /^perdure ps: unexpected argument "\\u001b\[2J"/],
    [["\u202egpj"], /^perdure: unknown command "\\u\{202e\}gpj"/],
  ])("answers %j with one line and exit code 2", async (argv, line) => {
    const { code, stdout, stderr } = await perdure(argv);
    expect({ code, stdout, stderr }).toEqual({ code: 2, stdout: "", stderr: oneLine });
    expect(stderr).toEqual(typeof line === "string" ? line : expect.stringMatching(line));
    expect(stderr).not.toMatch(DANGEROUS);
  });

  const failing = (error: unknown): CliCommand => ({
    ...{ name: "try", summary: "Try", usage: "perdure try", options: [], examples: [] },
    run: () => Promise.reject(error),
  });

  it.each([
    ["job_not_found", 1],
    ["job_failed", 1],
    ["store_io", 1],
    ["store_full", 1],
    ["invalid_cursor", 2],
    ["store_newer", 2],
    ["store_not_a_database", 2],
  ] as const)("turns an error of code %s into exit code %i and one line", async (errorCode, exitCode) => {
    const io = testIo();
    const code = await main(["try"], io, [failing(new PerdureError(errorCode, "no\nluck"))]);
    expect(code).toBe(exitCode);
    expect(io.stderr.text).toBe("perdure try: no\\nluck\n");
  });

  it("shows a stack only for its own bugs, with escape sequences removed", async () => {
    for (const thrown of [new TypeError("x is \x1b[2J undefined"), "text", undefined]) {
      const io = testIo();
      expect(await main(["try"], io, [failing(thrown)])).toBe(70);
      expect(io.stderr.text).toMatch(/^perdure try: this is a bug in Perdure/);
      expect(io.stderr.text).not.toMatch(DANGEROUS);
      if (thrown instanceof Error) expect(io.stderr.text).toContain("main.test.ts");
    }
  });

  it("ends quietly when its output is closed, and reports output that cannot be written", async () => {
    const gone = testIo({ stdout: new Kept(0) });
    expect(await main(["--help"], gone)).toBe(0);
    expect(gone.stderr.text).toBe("");
    const full = testIo({ stdout: new Kept(0, "ENOSPC") });
    expect(await main(["--help"], full)).toBe(1);
    expect(full.stderr.text).toBe("perdure: cannot write the output: write ENOSPC\n");
  });
});
