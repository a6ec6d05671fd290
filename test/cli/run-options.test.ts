/** The options of `perdure run`, each by its effect on a real command. */
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { run } from "../../src/cli/commands/run.ts";
import { IS_FULL } from "../tier.ts";
import { perdureAt, scriptAt } from "./kit.ts";
import { type Ending, endingOf, idIn, newPlace, perdureIn } from "./program.ts";

const FAST = ["--backoff", "1ms"];

/** The result of a command that always fails, unless another script is passed. */
async function endingWith(options: readonly string[], script = "exit 7"): Promise<Ending> {
  return endingOf(await scriptAt(newPlace(), ["--json", ...options], script));
}

const delays = ({ attempts }: Ending) => attempts.map(({ delayMs }) => delayMs);
const codes = ({ attempts }: Ending) => attempts.map(({ exitCode }) => exitCode);

describe("delays", () => {
  it.runIf(IS_FULL)("grow by --backoff-factor from --backoff up to --backoff-max", async () => {
    const options = ["--max-attempts", "5", "--backoff", "10ms", "--backoff-factor", "3", "--backoff-max", "50ms"];
    expect(delays(await endingWith([...options, "--jitter", "0"]))).toEqual([10, 30, 50, 50, null]);
  });

  it.runIf(IS_FULL)("are spread by --jitter", async () => {
    const options = ["--max-attempts", "8", "--backoff", "20ms", "--backoff-factor", "1", "--jitter", "0.9"];
    const waits = delays(await endingWith(options)).slice(0, -1) as number[];
    expect(waits).toHaveLength(7);
    for (const wait of waits) expect(Math.abs(wait - 20)).toBeLessThanOrEqual(18);
    // Seven equal waits out of 37 values, by chance: once in two thousand million runs.
    expect(new Set(waits).size).toBeGreaterThan(1);
  });

  it("are 0 with --backoff none", async () => {
    expect(delays(await endingWith(["--backoff", "none", "--max-attempts", "3"]))).toEqual([0, 0, null]);
  });

  it("and attempts are those of the help without any option", async () => {
    const { stdout } = await perdureAt(newPlace(), ["run", "--help"]);
    expect(stdout).toMatch(/^ +--max-attempts N +Attempts in all, the first included\. Default: 5\b/m);
    const { attempts } = await endingWith(FAST);
    expect(attempts).toHaveLength(5);
  });
});

describe("what is retried", () => {
  const SECOND = "exit 7$PERDURE_ATTEMPT"; // 71, 72, …

  it.each([
    ["--retry-on", ["--retry-on", "70-71,75"], [71, 72], "rejected"],
    ["--no-retry-on", ["--no-retry-on", " 72 , 9"], [71, 72], "rejected"],
    ["--retry-when", ["--retry-when", "{{ exit_code == 71 }}"], [71, 72], "rejected"],
    ["--stop-when", ["--stop-when", "{{ attempt >= 2 and exit_code > 70 }}"], [71, 72], "rejected"],
    ["--max-attempts", ["--max-attempts", "3"], [71, 72, 73], "exhausted"],
    ["a preset that does not retry unknown failures", ["--preset", "opal"], [71], "rejected"],
    ["a preset, with codes added to it", ["--preset", "opal", "--retry-on", "71", "--max-attempts", "9"], [71, 72]],
    ["a preset's own number of attempts", ["--preset", "noetl"], [71, 72, 73], "exhausted"],
  ])("is decided by %s", async (_, options, runs, reason = "rejected") => {
    const ending = await endingWith([...FAST, ...options], SECOND);
    expect({ codes: codes(ending), reason: ending.reason }).toEqual({ codes: runs, reason });
    expect(ending).toMatchObject({ state: "failed", exitCode: runs.at(-1) });
  });

  it("can be stopped by --stop-when: the attempt line gives the reason, and explain names the condition", async () => {
    const place = newPlace();
    const { stderr } = await scriptAt(place, [...FAST, "--stop-when", "{{ exit_code == 7 }}"], "exit 7");
    expect(stderr).toMatch(/^attempt 1\/5 failed: exit code 7; not retried: stopWhen is true$/m);
    expect((await perdureAt(place, ["explain", idIn({ stderr })])).stdout).toContain("stopWhen");
  });

  it.runIf(IS_FULL)("is any preset of the help", async () => {
    const help = run.options.find(({ name }) => name === "preset")?.help;
    const presets = (/: (.+?)\.$/.exec(help ?? "")?.[1] ?? "").split(", ");
    expect(presets.length).toBeGreaterThan(3);
    const place = newPlace();
    const said = await Promise.all(presets.map((name) => scriptAt(place, ["--preset", name], "exit 0")));
    expect(said.map(({ code }) => code)).toEqual(presets.map(() => 0));
  });
});

describe("the command's environment", () => {
  it("has the variables of --env, a minimal base, and nothing else of Perdure's environment", async () => {
    const argv = ["run", "-q", "--env", "GIVEN=a=b", "--env", "PASSED", "--env", "EMPTY=", "--", "env"];
    const { stdout } = await perdureIn(newPlace(), argv, { PASSED: "on", SECRET: "s", NODE_OPTIONS: "--no-warnings" });
    const lines = stdout.trimEnd().split("\n");
    expect(lines).toEqual(expect.arrayContaining(["GIVEN=a=b", "PASSED=on", "EMPTY=", "PERDURE_ATTEMPT=1"]));
    const names = lines.map((line) => line.split("=")[0] as string).filter((name) => !name.startsWith("PERDURE_"));
    expect(names.sort()).toEqual(["EMPTY", "GIVEN", "HOME", "LANG", "PASSED", "PATH"]);
  });

  it("has the current directory, or that of --cwd, as working directory", async () => {
    const place = newPlace();
    mkdirSync(join(place.cwd, "sub"));
    expect((await perdureAt(place, ["run", "-q", "--", "pwd"])).stdout).toBe(`${place.cwd}\n`);
    expect((await perdureAt(place, ["run", "-q", "--cwd", "sub", "--", "pwd"])).stdout).toBe(`${place.cwd}/sub\n`);
    const missing = await perdureAt(place, ["run", "--cwd", "none", "--", "pwd"]);
    expect(missing.code).toBeGreaterThan(1);
    expect(missing.stderr).toContain(`the working directory ${place.cwd}/none does not exist`);
  });

  it.runIf(IS_FULL)("deletes scratch files at the end, except with --keep", async () => {
    const script = 'cd "$PERDURE_OUTPUT_DIR"; echo s > scratch; echo a > artifacts/a';
    for (const [options, kept] of [
      [[], false],
      [["--keep"], true],
    ] as const) {
      const place = newPlace();
      const said = await scriptAt(place, options, script);
      const dir = join(place.data, "artifacts", idIn(said), "attempt_1");
      expect(existsSync(join(dir, "scratch"))).toBe(kept);
      expect(existsSync(join(dir, "artifacts", "a"))).toBe(true);
    }
  });

  it.runIf(IS_FULL)("names the directory of the previous attempt", async () => {
    const script =
      '[ -n "$PERDURE_PREVIOUS_OUTPUT_DIR" ] && cat "$PERDURE_PREVIOUS_OUTPUT_DIR/point" || { echo 41 > "$PERDURE_OUTPUT_DIR/point"; exit 1; }';
    expect(await scriptAt(newPlace(), [...FAST, "-q"], script)).toEqual({ code: 0, stdout: "41\n", stderr: "" });
  });
});

describe("the data", () => {
  it("is in --data, else in PERDURE_DATA, else in ./.perdure, for its owner only", async () => {
    const place = newPlace();
    const env = { PERDURE_DATA: "theirs" };
    await perdureAt(place, ["run", "-q", "--data", "deep/er/mine", "--", "true"], env);
    await perdureAt(place, ["run", "-q", "--", "true"], env);
    await perdureAt(place, ["run", "-q", "--", "true"]);
    expect(readdirSync(place.cwd).sort()).toEqual([".perdure", "deep", "theirs"]);
    for (const dir of ["deep/er/mine", "theirs", ".perdure"]) {
      const { stdout } = await perdureAt(place, ["ps", "--data", dir, "--json"]);
      expect(JSON.parse(stdout)).toMatchObject([{ state: "succeeded" }]);
    }
    const modes = await scriptAt(place, ["-q"], "stat -c %a .perdure .perdure/perdure.db .perdure/artifacts");
    expect(modes.stdout).toBe("700\n600\n700\n");
  });
});
