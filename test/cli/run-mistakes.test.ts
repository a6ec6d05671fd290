/** Mistakes in `perdure run`: exit code 2, one line that names the option as it was typed, nothing stored. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { DANGEROUS, perdureAt } from "./kit.ts";
import { newPlace, PROGRAM, perdureIn } from "./program.ts";

type Mistake = readonly [argv: readonly string[], line: RegExp];

const NO_COMMAND: readonly Mistake[] = [
  [["run"], /^perdure run: missing COMMAND. Usage: perdure run \[OPTIONS\] -- COMMAND/],
  [["run", "--"], /: missing COMMAND\. /],
  [["run", "--max-attempts", "3", "--"], /: missing COMMAND\. /],
  [["run", "--", ""], /: COMMAND: must be .*; got ""/],
];

/** The options before `-- true`, and the message. */
const OPTIONS: readonly Mistake[] = [
  [["--max-attempt", "3"], /^perdure run: unknown option --max-attempt\. Did you mean --max-attempts\?/],
  [["--no-such"], /: unknown option --no-such/],
  [["-x"], /: unknown option -x/],
  [["--max-attempts", "0"], /: --max-attempts: must be a whole number from 1 .*; got "0"/],
  [["--max-attempts", "-1"], /: --max-attempts requires a value.*=-1/],
  [["--max-attempts=-1"], /: --max-attempts: must be .*; got "-1"/],
  [["--max-attempts", "abc"], /: --max-attempts: must be .*; got "abc"/],
  [["--max-attempts", "1.5"], /: --max-attempts: must be .*; got "1\.5"/],
  [["--max-attempts="], /: --max-attempts: must be .*; got ""/],
  [["--max-attempts"], /: --max-attempts requires a value/],
  [["--max-attempts", "2", "--max-attempts", "3"], /: --max-attempts can be used only once/],
  [["--backoff", "soon"], /: --backoff: must be .*; got "soon"/],
  [["--backoff", "5"], /: --backoff: must be (?!.*a number of milliseconds).*; got "5"/],
  [["--backoff=-1s"], /: --backoff: must be .*; got "-1s"/],
  [["--backoff="], /: --backoff: must be .*; got ""/],
  [["--backoff-max", "5 years"], /: --backoff-max: must be .*; got "5 years"/],
  [["--backoff-max", "4000d"], /: --backoff-max: must be .*; got "4000d"/],
  [["--backoff-factor", "0"], /: --backoff-factor: must be .*; got "?0"?$/m],
  [["--backoff-factor", "fast"], /: --backoff-factor: must be .*; got "fast"/],
  [["--backoff-factor", "1e3"], /: --backoff-factor: must be .*; got "1e3"/],
  [["--jitter", "1"], /: --jitter: must be .*below 1.*; got 1/],
  [["--jitter", "much"], /: --jitter: must be (?!.*1\.5).*; got "much"/],
  [["--retry-on", "abc"], /: --retry-on: must be exit codes.*; got "abc"/],
  [["--retry-on", "1,,2"], /: --retry-on: must be .*; got ""/],
  [["--retry-on", "0"], /: --retry-on: must be exit codes from 1.*; got "0"/],
  [["--retry-on", "256"], /: --retry-on: must be .*; got "256"/],
  [["--no-retry-on", "9-1"], /: --no-retry-on: must be .*; got "9-1"/],
  [["--no-retry-on="], /: --no-retry-on: must be .*; got ""/],
  [["--retry-when", "{{ exit_code == }}"], /: --retry-when: .*at character 17/],
  [["--retry-when", ""], /: --retry-when: /],
  [["--stop-when", "{{ attempts > 2 }}"], /: --stop-when: unknown name "attempts" at character 4/],
  [["--preset", "nope"], /: --preset: must be .*"?default"?, .*; got "nope"/],
  [["--timeout", "abc"], /: --timeout: must be .*; got "abc"/],
  [["--timeout", "30"], /: --timeout: must be (?!.*a number of milliseconds).*; got "30"/],
  [["--timeout", "0s"], /: --timeout: must be more than 0, .*; got "?0s?"?/],
  [["--env", "NOT_SET_HERE"], /: --env NOT_SET_HERE: not set in this environment; pass NOT_SET_HERE=VALUE/],
  [["--env", "=x"], /: --env: must be .*; got "=x"/],
  [["--env", "1A=x"], /: --env: .*letters.*; got "1A=x"/],
  [["--env", "A B"], /: --env: .*letters.*; got "A B"/],
  [["--env", "PERDURE_ATTEMPT=7"], /: --env.*PERDURE_/],
  [["--cwd", ""], /: --cwd: must be .*; got ""/],
  [["--key", ""], /: --key: must be .*; got ""/],
  [["--key", "a\nb"], /: --key: must be .*; got "a\\nb"/],
  [["--key", "k".repeat(501)], /: --key: .*500/],
  [["--again"], /: --again requires --key/],
  [["--quiet=yes"], /: --quiet takes no value; got "yes"/],
  [["--data", ""], /: --data: must be a text.*; got ""/],
  [
    ["--data", "postgres://me:secret@host/db"],
    /: --data: must be a directory (?!.*secret).*; got an address \(not shown, as it may hold a password\)/,
  ],
  [["--data", "/etc/passwd/x"], /: --data: cannot write to \/etc\/passwd\/x/],
  [["--data", "/etc/passwd"], /: --data: cannot write to \/etc\/passwd/],
  [["--data", "/proc/x"], /: --data: cannot write to \/proc\/x/],
  [["--data", "/proc"], /: --data: cannot write to \/proc\b/],
  [["--data", `new/${"n".repeat(300)}`], /: --data: cannot write to new\/nnn/],
];

describe("perdure run refuses", () => {
  const cases = [
    ...NO_COMMAND,
    ...OPTIONS.map(([argv, line]): Mistake => [["run", ...argv, "--", "touch", "started"], line]),
  ];
  it.for(cases.map((each) => [JSON.stringify(each[0]).slice(0, 60), ...each] as const))(
    "%s",
    async ([, argv, line]) => {
      const place = newPlace();
      const { code, stdout, stderr } = await perdureAt(place, argv);
      expect({ code, stdout, stderr }).toEqual({
        code: 2,
        stdout: "",
        stderr: expect.stringMatching(/^perdure run: .+\n$/),
      });
      expect(stderr).toMatch(line);
      expect(stderr).not.toMatch(DANGEROUS);
      expect(readdirSync(place.cwd)).toEqual([]);
    },
  );

  it("a directory of PERDURE_DATA, with a message that names the variable, also as a program", async () => {
    const { code, stderr } = await perdureIn(newPlace(), ["run", "--", "true"], { PERDURE_DATA: "/proc/x" });
    expect(code).toBe(2);
    expect(stderr).toMatch(/^perdure run: PERDURE_DATA: cannot write to \/proc\/x[^\n]*\n$/);
  });

  it("a command that is too long to be stored", async () => {
    const place = newPlace();
    const words = Array.from({ length: 11 }, () => "x".repeat(100_000));
    const { code, stderr } = await perdureAt(place, ["run", "--", "true", ...words]);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(/^perdure run: COMMAND: .*over 1 MiB.*\n$/),
    });
    expect(readdirSync(place.cwd)).toEqual([]);
  });

  it("a perdure.db that is not a database, and does not change it", async () => {
    const { cwd, data } = newPlace();
    const text = "not a database, but long enough to be looked at ".repeat(100);
    mkdirSync(data);
    writeFileSync(join(data, "perdure.db"), text);
    const { code, stderr } = await perdureAt({ cwd }, ["run", "--", "touch", "started"]);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(/^perdure run: .*not an SQLite database.*\n$/),
    });
    expect(readFileSync(join(data, "perdure.db"), "utf8")).toBe(text);
    expect(existsSync(join(cwd, "started"))).toBe(false);
  });

  it("a current directory that was deleted", async () => {
    const { cwd } = newPlace();
    const script = 'mkdir d && cd d && rmdir ../d && exec "$0" "$1" run -- touch started';
    const { status, stderr } = spawnSync("sh", ["-c", script, process.execPath, PROGRAM], { cwd, encoding: "utf8" });
    const message = "perdure: the current directory does not exist any more; change to another\n";
    expect({ status, stderr }).toEqual({ status: 2, stderr: message });
  });
});
