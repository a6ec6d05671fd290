/** `perdure run`: its lines about the attempts, its exit code, and its output for programs. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { IS_FULL } from "../tier.ts";
import { perdureAt, scriptAt } from "./kit.ts";
import { endingOf, idIn, longTime, newPlace, processesWith, runScript } from "./program.ts";

const ONCE = ["--max-attempts", "1"];
const SLOW = `sleep ${longTime()}`;

describe("perdure run", () => {
  it("retries a command that fails once, and explain shows both attempts", async () => {
    const place = newPlace();
    const script = 'echo out $PERDURE_ATTEMPT; [ "$PERDURE_ATTEMPT" = 2 ] || { echo no luck >&2; exit 7; }';
    const { code, stdout, stderr } = await runScript(place, ["--max-attempts", "3", "--backoff", "100ms"], script);
    expect({ code, stdout }).toEqual({ code: 0, stdout: "out 1\nout 2\n" });
    const lines = stderr.trimEnd().split("\n");
    expect(lines).toEqual([
      "no luck",
      expect.stringMatching(/^attempt 1\/3 failed: exit code 7 \(no luck\); retrying in \d+ ms$/),
      expect.stringMatching(/^attempt 2 succeeded after [\d.]+ m?s$/),
      expect.stringMatching(/^job_\w{26}: succeeded after 2 attempts, /),
    ]);
    const id = idIn({ stderr });
    expect(readdirSync(join(place.data, "artifacts", id)).sort()).toEqual(["attempt_1", "attempt_2"]);
    const explained = await perdureAt(place, ["explain", id]);
    expect(explained).toMatchObject({ code: 0, stderr: "" });
    expect(explained.stdout).toMatch(/^Succeeded at .*, with attempt 2 of 3\.$/m);
    expect(explained.stdout).toMatch(/^Attempt 1 started .* failed after .*: "exit code 7: no luck"\.$/m);
    expect(explained.stdout).toMatch(/^Attempt 2 started .* completed after /m);
  });

  it.each([
    ["the command's own", "exit 42", 42],
    ["128 + n after a signal", "kill -USR1 $$", 138],
    ["137 when it is killed", "kill -9 $$", 137],
    ["1 for a verdict of failure", 'echo \'{"status": "failed"}\' > "$PERDURE_RESULT_FILE"', 1],
    ["0 for a verdict of success", 'echo \'{"status": "completed"}\' > "$PERDURE_RESULT_FILE"; exit 9', 0],
    ["the last of several", "exit 1$PERDURE_ATTEMPT", 12, ["--max-attempts", "2", "--backoff", "1ms"]],
    ["124 after a timeout", SLOW, 124, [...ONCE, "--timeout", "200ms"]],
  ])("exits with %s", async (_, script, code, options = ONCE) => {
    expect(await scriptAt(newPlace(), options as string[], script as string)).toMatchObject({ code, stdout: "" });
    if (script === SLOW) expect(processesWith(SLOW)).toEqual([]);
  });

  it.each([
    [["./no-such-program"], 127, "./no-such-program does not exist"],
    [["no-such-program"], 127, "no-such-program does not exist"],
    [["/etc/passwd"], 126, "/etc/passwd is not executable"],
    [["."], 126, ". is not executable"],
  ])("tries %j once, and exits with %i", async (argv, code, words) => {
    const { stderr, ...said } = await perdureAt(newPlace(), ["run", "--", ...argv]);
    expect(said).toEqual({ code, stdout: "" });
    expect(stderr).toContain(`attempt 1/5 failed: cannot start: ${words}`);
    expect(stderr).toMatch(/: failed \(invalid\) after 1 attempt, /);
  });

  it("exits with these codes as a program too", async () => {
    expect(await runScript(newPlace(), ONCE, "kill -USR1 $$")).toMatchObject({ code: 138, stdout: "" });
  });

  it("passes everything after -- to the command, also Perdure's own options", async () => {
    const { code, stdout } = await perdureAt(newPlace(), [
      "run",
      "-q",
      "--",
      "echo",
      "--json",
      "--help",
      "--",
      "-q",
      "",
    ]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: "--json --help -- -q \n" });
  });

  it.each([
    [["run", "-q", "echo", "--json", "-c", "--", "--help"], "--json -c -- --help\n"],
    [["run", "--max-attempts", "2", "-q", "sh", "-c", "echo $PERDURE_ATTEMPT"], "1\n"],
  ])("does the same from the first word of the command on: %j", async (argv, stdout) => {
    expect(await perdureAt(newPlace(), argv)).toEqual({ code: 0, stdout, stderr: "" });
  });

  it("with --json prints one object on the last line", async () => {
    const script =
      'echo \'{"a": 1}\'; [ "$PERDURE_ATTEMPT" = 3 ] && echo x > "$PERDURE_OUTPUT_DIR/artifacts/x.txt" || exit 7';
    const said = await scriptAt(newPlace(), ["--json", "--backoff", "20ms", "--jitter", "0"], script);
    expect(said.code).toBe(0);
    expect(said.stdout.split("\n").slice(0, 3)).toEqual(Array(3).fill('{"a": 1}'));
    expect(said.stdout.trimEnd().split("\n")).toHaveLength(4);
    const attempt = { signal: null, startedAt: expect.any(Number), endedAt: expect.any(Number) };
    const failed = { ...attempt, outcome: "failed", exitCode: 7, message: "exit code 7" };
    expect(endingOf(said)).toEqual({
      ...{ id: idIn(said), name: "echo", state: "succeeded", reason: null, exitCode: 0 },
      attempts: [
        { ...failed, attempt: 1, delayMs: 20 },
        { ...failed, attempt: 2, delayMs: 40 },
        { ...attempt, attempt: 3, outcome: "completed", exitCode: 0, message: null, delayMs: null },
      ],
      outputs: [{ name: "x.txt", size: 2, mime: "text/plain", sha256: expect.stringMatching(/^[0-9a-f]{64}$/) }],
    });
  });

  it("starts a new line for that object and for its own lines if the command did not end one", async () => {
    const said = await scriptAt(newPlace(), [...ONCE, "--json"], "printf out; printf err >&2; exit 3");
    expect(said.stdout).toMatch(/^out\n\{"id".*\}\n$/);
    expect(endingOf(said)).toMatchObject({ state: "failed", reason: "exhausted", exitCode: 3, outputs: [] });
    expect(said.stderr).toMatch(/^err\nattempt 1\/1 .*\njob_.*\n$/);
  });

  it("reports signals in that object, and prints nothing else with --quiet", async () => {
    const said = await scriptAt(newPlace(), [...ONCE, "--json", "--quiet"], "echo mine >&2; kill -9 $$");
    expect(said).toMatchObject({ code: 137, stderr: "mine\n" });
    const attempts = [{ outcome: "failed", exitCode: 137, signal: "SIGKILL", message: "signal SIGKILL: mine" }];
    expect(endingOf(said)).toMatchObject({ exitCode: 137, attempts });
  });

  it.runIf(IS_FULL)(
    "runs side by side with others on the same data, each with its own command",
    async () => {
      const place = newPlace();
      const names = ["n1", "n2", "n3"];
      const script = '[ "$PERDURE_ATTEMPT" = 2 ] || exit 1; echo $NAME';
      const all = names.map((name) => runScript(place, ["--backoff", "50ms", "--env", `NAME=${name}`], script));
      const said = await Promise.all(all);
      expect(said.map(({ code, stdout }) => ({ code, stdout }))).toEqual(
        names.map((name) => ({ code: 0, stdout: `${name}\n` })),
      );
      expect(new Set(said.map(idIn)).size).toBe(names.length);
      for (const { stderr } of said) expect(stderr).toMatch(/^job_.*: succeeded after 2 attempts/m);
    },
    120_000,
  );
});
