import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { testIo } from "../../../test/cli/kit.ts";
import { COMMANDS } from "../command-list.ts";
import { main } from "../main.ts";
import { completionOf, completionScript } from "./completion.ts";
import { config } from "./config.ts";

const commands = await Promise.all(COMMANDS.map(({ load }) => load()));

/** The completions of bash for a line whose last word is being typed. */
function completed(...words: string[]): string[] {
  const script = [
    completionScript("bash", commands),
    `COMP_WORDS=(${["perdure", ...words].map((word) => `'${word}'`).join(" ")})`,
    `COMP_CWORD=${words.length}`,
    "_perdure",
    `echo "\${COMPREPLY[@]}"`,
  ].join("\n");
  const out = execFileSync("bash", ["--norc", "-c", script], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
  return out.split(/\s+/).filter((word) => word !== "");
}

describe("completion in bash", () => {
  it("completes commands", () => {
    expect(completed("")).toEqual(expect.arrayContaining(["run", "ps", "help", "--version"]));
    expect(completed("ex")).toEqual(["explain"]);
    expect(completed("help", "ex")).toEqual(["explain"]);
    expect(completed("nonsense", "--x")).toEqual([]);
  });

  it("completes options of the command", () => {
    expect(completed("ps", "--sta")).toEqual(["--state"]);
    expect(completed("ps", "--state", "failed", "--li")).toEqual(["--limit"]);
    expect(completed("ps", "--he")).toEqual(["--help"]);
    expect(completed("run", "--backoff-f")).toEqual(["--backoff-factor"]);
  });

  it("leaves values, and the arguments of other programs, to the shell", () => {
    expect(completed("ps", "--state", "--li")).toEqual([]);
    expect(completed("run", "--", "--b")).toEqual([]);
    expect(completed("run", "make", "--b")).toEqual([]);
    expect(completed("run", "--backoff", "1s", "make", "--b")).toEqual([]);
    expect(completed("run", "--quiet", "--backoff-m")).toEqual(["--backoff-max"]);
  });

  it("completes the arguments of some commands", () => {
    expect(completed("completion", "")).toEqual(["bash", "zsh", "fish"]);
    expect(completed("config", "server.por")).toEqual(["server.port"]);
  });
});

describe("perdure completion", () => {
  it.each(["bash", "zsh", "fish"] as const)("has every command and option for %s", (shell) => {
    const script = completionScript(shell, commands);
    for (const { name, options } of commands) {
      expect(script).toContain(name);
      for (const option of options)
        expect(script).toContain(shell === "fish" ? `-l ${option.name}` : `--${option.name}`);
    }
  });

  it("quotes text from the tables", () => {
    const odd = {
      ...config,
      name: "odd",
      summary: "it's $(x)",
      options: [{ ...config.options[0], help: "a [b]: it's `x`" }],
    };
    const table = [odd as typeof config];
    expect(completionScript("zsh", table)).toContain(`'--json[a \\[b\\]\\: it'\\''s \`x\`]'`);
    expect(completionScript("fish", table)).toContain("-d 'it\\'s $(x)'");
    expect(completionScript("bash", table)).not.toContain("$(x)");
    // zsh is not installed everywhere; it quotes like bash.
    execFileSync("bash", ["--norc", "-n"], { input: completionScript("bash", commands) });
  });

  it("prints the script, and lists the shells that it supports", async () => {
    const run = async (...args: string[]) => {
      const io = testIo();
      return {
        code: await main(["completion", ...args], io, [completionOf(COMMANDS)]),
        out: io.stdout.text,
        err: io.stderr.text,
      };
    };
    expect(await run("bash")).toMatchObject({ code: 0, out: expect.stringContaining("complete -o default"), err: "" });
    expect(await run("bsh")).toMatchObject({ code: 2, err: expect.stringContaining('Did you mean "bash"?') });
    expect(await run("tcsh")).toMatchObject({
      code: 2,
      err: expect.stringMatching(/one of bash, zsh, fish; got "tcsh"\n$/),
    });
    expect(await run()).toMatchObject({ code: 2, err: expect.stringContaining("missing shell") });
  });
});
