/** `perdure run --key`: always the same job, whoever runs the command and however often it is interrupted. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startMain } from "./follow-kit.ts";
import { perdureAt, scriptAt } from "./kit.ts";
import { endingOf, idIn, longTime, newPlace, type Place, processesWith, start, written } from "./program.ts";

const KEY = ["--key", "nightly 1"];

const runKey = (place: Place, script: string, ...options: string[]) => scriptAt(place, [...KEY, ...options], script);
const argvOf = (script: string, options: string[]) => ["run", ...KEY, ...options, "--", "sh", "-c", script];
/** In a separate process, which can receive signals. */
const startKey = (place: Place, script: string, ...options: string[]) => start(place, argvOf(script, options));
const startHere = ({ cwd }: Place, script: string, ...options: string[]) => startMain(argvOf(script, options), { cwd });

describe("a job that has ended, run again with its key,", () => {
  it("is not started again: the output explains how it ended, and the exit code is the same", async () => {
    const place = newPlace();
    const script = "echo ran; exit 5";
    const first = await runKey(place, script, "--max-attempts", "1");
    const again = await runKey(place, script, "--max-attempts", "1");
    expect([first.code, again.code]).toEqual([5, 5]);
    expect(again.stdout).toBe("");
    expect(again.stderr).toMatch(/^Failed \(exhausted\) at /);
    expect(again.stderr).toContain(idIn(first));
    const json = await runKey(place, script, "--max-attempts", "1", "--json", "--quiet");
    expect(json).toMatchObject({ code: 5, stderr: "" });
    expect(endingOf(json)).toMatchObject({ id: idIn(first), exitCode: 5, attempts: [{ exitCode: 5 }] });
    expect(json.stdout.trimEnd().split("\n")).toHaveLength(1);
  });

  it("is redriven with --again if it failed, with a new directory per attempt", async () => {
    const place = newPlace();
    const script = 'echo run $PERDURE_ATTEMPT; [ "$PERDURE_ATTEMPT" = 2 ] || exit 5';
    const first = await runKey(place, script, "--max-attempts", "1");
    const again = await runKey(place, script, "--max-attempts", "1", "--again");
    expect(again).toMatchObject({ code: 0, stdout: "run 2\n" });
    expect(idIn(again)).toBe(idIn(first));
    expect(readdirSync(join(place.data, "artifacts", idIn(first))).sort()).toEqual(["attempt_1", "attempt_2"]);
    const log = join(place.data, "artifacts", idIn(first), "attempt_1", "stdout.log");
    expect(readFileSync(log, "utf8")).toBe("run 1\n");
  });

  it("is redriven with --again under the options of the command, which replace only their own values", async () => {
    const place = newPlace();
    const script = '[ "$PERDURE_ATTEMPT" = 3 ] || exit 5';
    const first = await runKey(place, script, "--max-attempts", "1", "--jitter", "0");
    const options = ["--max-attempts", "2", "--backoff", "1ms", "--timeout", "50s"];
    const again = await runKey(place, script, "--again", ...options);
    expect(again.code).toBe(0);
    expect(again.stderr).toContain(
      "redriven after 1 attempt, with maxAttempts 2, backoff (exponential 1 ms to 1 min, factor 2), timeout 50 s\n",
    );
    expect(again.stderr).toContain("attempt 2 (1 of 2 since the redrive) failed: exit code 5; retrying in 1 ms");
    const job = JSON.parse((await perdureAt(place, ["get", idIn(first), "--json"])).stdout);
    expect(job).toMatchObject({ attempt: 3, timeoutMs: 50_000, policy: { backoff: { initialMs: 1, jitter: 0 } } });
    expect((await perdureAt(place, ["explain", idIn(first)])).stdout).toContain(
      "changed: maxAttempts 2, backoff (exponential 1 ms to 1 min, factor 2), timeout 50 s",
    );
  });

  it("is not redriven with --again if it succeeded, and one line reports that", async () => {
    const place = newPlace();
    const script = "echo ran";
    const id = idIn(await runKey(place, script));
    const { code, stdout, stderr } = await runKey(place, script, "--again");
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/^perdure run: [^\n]*succeeded[^\n]*\n$/);
    expect(stderr).toContain(id);
    expect((await runKey(place, script)).code).toBe(0);
  });

  it("refuses another command under the same key in one line", async () => {
    const place = newPlace();
    const id = idIn(await runKey(place, "true"));
    const { code, stdout, stderr } = await runKey(place, "touch started");
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/^perdure run: [^\n]*key[^\n]*\n$/);
    expect(stderr).toContain(id);
    expect(stderr).toContain("command");
    expect(readdirSync(place.cwd)).toEqual([".perdure"]);
    expect(JSON.parse((await perdureAt(place, ["ps", "--json"])).stdout)).toHaveLength(1);
  });
});

describe("a running job, run again with its key,", () => {
  it("is waited for, and both commands exit with its code", async () => {
    const place = newPlace();
    const script = "echo up; until [ -e go ]; do sleep 0.1; done; echo ran >> runs; exit 9";
    const first = startKey(place, script, "--max-attempts", "1");
    await first.untilPrinted("up");
    const second = startHere(place, script, "--max-attempts", "1");
    await second.untilPrinted("resuming the job with this key (1 attempt so far, running)");
    writeFileSync(join(place.cwd, "go"), "");
    expect([(await first.ended).code, await second.ended]).toEqual([9, 9]);
    expect(readFileSync(join(place.cwd, "runs"), "utf8")).toBe("ran\n");
  });

  it("keeps the options it was submitted with, and one line reports that", async () => {
    const place = newPlace();
    const script = "echo up; until [ -e go ]; do sleep 0.1; done; exit 9";
    const first = startHere(place, script, "--max-attempts", "1");
    await first.untilPrinted("up");
    const second = startHere(place, script, "--max-attempts", "4");
    await second.untilPrinted("the job keeps the options it was submitted with");
    writeFileSync(join(place.cwd, "go"), "");
    expect([await first.ended, await second.ended]).toEqual([9, 9]);
  });

  it("is resumed after its process ended with SIGTERM, and that attempt is not counted", async () => {
    const place = newPlace();
    const sleep = `sleep ${longTime()}`;
    const script = `echo run $PERDURE_ATTEMPT; [ "$PERDURE_ATTEMPT" = 2 ] || exec ${sleep}`;
    const first = startKey(place, script, "--json");
    await first.untilPrinted("run 1");
    first.kill("SIGTERM");
    const said = await first.ended;
    expect(said.code).toBe(143);
    expect(said.stderr).toContain(
      ": interrupted (not counted as an attempt); run again with the same --key to resume\n",
    );
    expect(processesWith(sleep)).toEqual([]);
    const second = await runKey(place, script, "--json");
    expect(second.stderr).toContain("resuming the job with this key (1 attempt so far, queued)");
    expect(second).toMatchObject({ code: 0, stdout: expect.stringMatching(/^run 2\n/) });
    expect(idIn(second)).toBe(idIn(said));
    expect(endingOf(second).attempts.map(({ outcome }) => outcome)).toEqual(["interrupted", "completed"]);
    const { stdout } = await perdureAt(place, ["get", idIn(second)]);
    expect(stdout).toMatch(/^Attempts +2 \(0 of 5 counted\)$/m);
  });

  it("is taken over by a waiting command when its process ends", async () => {
    const place = newPlace();
    const script = 'echo run $PERDURE_ATTEMPT; [ "$PERDURE_ATTEMPT" = 2 ] || exec sleep 71236';
    const first = startKey(place, script);
    await first.untilPrinted("run 1");
    const second = startHere(place, script);
    await second.untilPrinted("resuming the job with this key (1 attempt so far, running)");
    first.kill("SIGTERM");
    expect((await first.ended).code).toBe(143);
    expect(await second.ended).toBe(0);
    expect(second.io.stdout.text).toBe("run 2\n");
  });

  it("is resumed after kill -9, and the old command has ended before the new one starts", async () => {
    const place = newPlace();
    const beat = (n: number) => join(place.cwd, `beat.${n}`);
    // It ignores signals, and does not write to a pipe that would break.
    const script =
      'trap "" TERM HUP; i=0; while [ $i -lt 3 ]; do date +%s%N >> beat.$PERDURE_ATTEMPT; sleep 0.02; ' +
      '[ "$PERDURE_ATTEMPT" = 1 ] || i=$((i+1)); done';
    const first = startKey(place, script);
    await written(beat(1));
    first.kill("SIGKILL");
    const second = await runKey(place, script, "--json");
    expect(second.code).toBe(0);
    expect(endingOf(second).attempts.map(({ outcome }) => outcome)).toEqual(["lost", "completed"]);
    const [before, after] = [1, 2].map((n) => readFileSync(beat(n), "utf8").trim().split("\n").map(Number));
    expect(after?.[0]).toBeGreaterThan(before?.at(-1) as number);
  });
});
