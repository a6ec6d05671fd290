/** The output of a command: escaped on a terminal, unchanged in a pipe. */
import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { IS_FULL } from "../tier.ts";
import { DANGEROUS, Kept, perdure, perdureAt, type Said, scriptAt, uncoloured } from "./kit.ts";
import { idIn, longTime, newPlace, type Place, processesWith, startShell } from "./program.ts";

/** Runs the program on a pseudo-terminal of `script`, whose output has CR LF. The exit code is the program's. */
async function onTerminal(place: Place, argv: readonly string[], env: Record<string, string> = {}): Promise<Said> {
  const quoted = argv.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ");
  const inner = `stty cols 120 -opost; $PERDURE_CLI ${quoted}`;
  const own = { TERM: "xterm", INNER: inner, ...env };
  const said = await startShell(place, 'exec script -qec "$INNER" /dev/null', own).ended;
  return { ...said, stdout: said.stdout.replaceAll("\r\n", "\n") };
}

/** The output that a terminal would get, without a pseudo-terminal. */
async function onScreen({ cwd }: Place, argv: readonly string[]): Promise<Omit<Said, "stderr">> {
  const screen = Object.assign(new Kept(), { isTTY: true });
  const { code } = await perdure(argv, { cwd, stdout: screen, stderr: screen, isTTY: true, columns: 120 });
  return { code, stdout: screen.text };
}

const HOSTILE = "\\033[2J\\033]0;owned\\007\\033]52;c;b3duZWQ=\\007\\302\\233 31m\\342\\200\\256gpj\\bx";
const SHOWN = "\\x1b[2J\\x1b]0;owned\\x07\\x1b]52;c;b3duZWQ=\\x07\\x9b 31m\\u{202e}gpj\\x08x";

/** Whether `script` is that of util-linux: others have other options. */
const hasScript = spawnSync("script", ["--version"], { encoding: "utf8" }).stdout?.includes("util-linux") === true;

describe.skipIf(!hasScript)("a terminal", () => {
  it("gets no control characters from the command, on stdout, on stderr or in Perdure's lines", async () => {
    const script = `printf '${HOSTILE}\\n'; printf '${HOSTILE}\\n' >&2; exit 3`;
    const { code, stdout } = await onTerminal(newPlace(), ["run", "--max-attempts", "1", "--", "sh", "-c", script]);
    expect(code).toBe(3);
    expect(uncoloured(stdout)).not.toMatch(DANGEROUS);
    expect(stdout.split(SHOWN)).toHaveLength(4);
    expect(stdout).toContain(`attempt 1/1 failed: exit code 3 (${SHOWN}); no attempts left`);
  });

  it("gets none in the object of --json either, and its values are unchanged", async () => {
    const script = `printf '${HOSTILE}\\n' >&2; exit 3`;
    const argv = ["run", "-q", "--json", "--max-attempts", "1", "--", "sh", "-c", script];
    const { stdout } = await onScreen(newPlace(), argv);
    expect(stdout).not.toMatch(DANGEROUS);
    const { attempts } = JSON.parse(stdout.trimEnd().split("\n").at(-1) as string) as {
      attempts: [{ message: string }];
    };
    expect(attempts[0].message).toContain("\x1b]0;owned\x07");
    expect(attempts[0].message).toContain("\x9b 31m\u202egpj\bx");
  });

  it("shows characters and line ends correctly when they arrive in pieces", async () => {
    const script =
      "printf '\\342\\202'; sleep 0.1; printf '\\254 a\\r'; sleep 0.1; printf '\\nb\\r\\n50%%\\r'; sleep 0.1; printf '99%%\\n'";
    const { stdout } = await onScreen(newPlace(), ["run", "-q", "--", "sh", "-c", script]);
    expect(stdout).toBe("€ a\nb\n50%\\r99%\n");
  });

  it("shows the incomplete end of an attempt's output, and not as part of the next attempt", async () => {
    const script = "printf 'a\\r'; [ $PERDURE_ATTEMPT = 2 ] || { printf '\\342\\202'; exit 1; }";
    const { stdout } = await onScreen(newPlace(), ["run", "-q", "--backoff", "1ms", "--", "sh", "-c", script]);
    expect(stdout).toMatch(/^a\\r\ufffd+\n?a\\r\n?$/);
  });

  it("gets logs and file names escaped, and colours only without NO_COLOR", async () => {
    const place = newPlace();
    const script = `printf '${HOSTILE}\\r\\nb'; printf '${HOSTILE}\\n' >&2; touch "$PERDURE_OUTPUT_DIR/artifacts/$(printf '\\033[2J')"`;
    const id = idIn(await scriptAt(place, [], script));
    for (const argv of [["logs", id], ["artifacts", id], ["get", id], ["events", id], ["explain", id], ["ps"]]) {
      const { code, stdout } = await onScreen(place, argv);
      expect(code).toBe(0);
      expect(uncoloured(stdout)).not.toMatch(DANGEROUS);
    }
    expect((await onTerminal(place, ["logs", id])).stdout).toBe(`${SHOWN}\nb${SHOWN}\n`);
    expect((await onTerminal(place, ["ps"])).stdout).toContain("\x1b[32msucceeded");
    expect((await onTerminal(place, ["ps"], { NO_COLOR: "1" })).stdout).not.toContain("\x1b");
    expect((await perdureAt(place, ["ps"])).stdout).not.toContain("\x1b");
  });

  it.runIf(IS_FULL)("without a known width gets the same output", async () => {
    const place = newPlace();
    await perdureAt(place, ["run", "-q", "--", "true"]);
    const inner = { INNER: "stty cols 0 rows 0; $PERDURE_CLI ps", TERM: "xterm" };
    const { stdout } = await startShell(place, 'exec script -qec "$INNER" /dev/null', inner).ended;
    expect(uncoloured(stdout)).toMatch(/^job_\w{26} +true +succeeded +1 /m);
  });
});

describe("a pipe", () => {
  it("gets the bytes of a run and of its logs unchanged", async () => {
    const place = newPlace();
    const bytes = "\\033[31m\\000\\377\\342\\202\\r\\r\\n\\302\\233";
    const script = `$PERDURE_CLI run -- sh -c "printf '${bytes}'" 2> notes | od -An -v -tx1`;
    const expected = " 1b 5b 33 31 6d 00 ff e2 82 0d 0d 0a c2 9b\n";
    expect((await startShell(place, script).ended).stdout).toBe(expected);
    const logs = `$PERDURE_CLI logs $(grep -o 'job_[a-z0-9]*' notes | head -1) | od -An -v -tx1`;
    expect((await startShell(place, logs).ended).stdout).toBe(expected);
  });

  it("that is closed ends the run, with all its processes", async () => {
    const place = newPlace();
    const sleep = `sleep ${longTime()}`;
    const script = `$PERDURE_CLI run -- sh -c '${sleep} & yes' | head -1`;
    const { code, stdout, stderr } = await startShell(place, script).ended;
    expect({ code, stdout }).toEqual({ code: 0, stdout: "y\n" });
    expect(stderr).not.toMatch(/EPIPE|bug|unsettled/);
    expect(processesWith(sleep)).toEqual([]);
    const jobs = JSON.parse((await perdureAt(place, ["ps", "--json"])).stdout) as { state: string }[];
    expect(jobs.map(({ state }) => state)).not.toContain("running");
  }, 120_000);

  it.runIf(IS_FULL)(
    "that is closed ends the run too when the output comes from stderr",
    async () => {
      const sleep = `sleep ${longTime()}`;
      const script = `$PERDURE_CLI run -- sh -c '${sleep} & yes >&2' 2>&1 >/dev/null | head -1`;
      expect(await startShell(newPlace(), script).ended).toEqual({ code: 0, stdout: "y\n", stderr: "" });
      expect(processesWith(sleep)).toEqual([]);
    },
    120_000,
  );

  it.runIf(IS_FULL)("that is closed does not make logs and artifacts fail", async () => {
    const place = newPlace();
    // More than the buffer of a pipe.
    const script = 'seq 30000; seq 30000 > "$PERDURE_OUTPUT_DIR/artifacts/n"';
    const id = idIn(await scriptAt(place, [], script));
    for (const argv of [`logs ${id}`, `artifacts ${id} n`]) {
      const piped = `{ $PERDURE_CLI ${argv}; echo "exit $?" >&2; } | head -c 1`;
      const said = await startShell(place, piped).ended;
      expect({ argv, ...said, stdout: said.stdout.length }).toEqual({ argv, code: 0, stdout: 1, stderr: "exit 0\n" });
    }
    for (const argv of [
      ["logs", id, "--json"],
      ["get", id],
      ["events", id, "--json"],
    ]) {
      const said = await perdure(argv, { cwd: place.cwd, stdout: new Kept(0) });
      expect({ argv, ...said }).toEqual({ argv, code: 0, stdout: "", stderr: "" });
    }
  });

  it("that is read slowly loses nothing", async () => {
    const script = "$PERDURE_CLI run -q -- seq 100000 | { sleep 0.5; md5sum; }; seq 100000 | md5sum";
    const [got, wanted] = (await startShell(newPlace(), script).ended).stdout.trim().split("\n");
    expect(got).toBe(wanted);
  });
});
