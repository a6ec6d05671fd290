/** Signals to `perdure run`: Ctrl-C cancels, the others hand back, and nothing of the command lives on. */
import { describe, expect, it } from "vitest";
import { IS_FULL } from "../tier.ts";
import { perdureAt, scriptAt } from "./kit.ts";
import { endingOf, idIn, longTime, newPlace, type Place, processesWith, start } from "./program.ts";

/** A tree: children, one in a session of its own, one whose parent is gone. */
const tree = (n: number) => `sleep ${n} & setsid sleep ${n} & (setsid sh -c 'sleep ${n} & :' &); echo up; wait`;

/** Promised is a second; a machine that stalls may take longer. */
const untilGone = (n: number) => expect.poll(() => processesWith(`sleep ${n}`), { interval: 100 }).toEqual([]);

async function stateOf(place: Place, id: string): Promise<string> {
  const { stdout, stderr } = await perdureAt(place, ["get", id, "--json"]);
  expect(stderr).toBe("");
  return (JSON.parse(stdout) as { state: string }).state;
}

describe("Ctrl-C", () => {
  it("cancels the job, ends the whole tree, and exits with 130", async () => {
    const place = newPlace();
    const n = longTime();
    const program = start(place, ["run", "--json", "--", "sh", "-c", tree(n)]);
    await program.says("up");
    program.kill("SIGINT");
    const said = await program.ended;
    expect(said.code).toBe(130);
    expect(processesWith(`sleep ${n}`)).toEqual([]);
    expect(said.stderr).toContain("cancelling");
    expect(endingOf(said)).toMatchObject({ id: idIn(said), state: "cancelled", exitCode: 130 });
  });

  it.runIf(IS_FULL)("cancels while it waits for the next run", async () => {
    const place = newPlace();
    const program = start(place, ["run", "--backoff", "1h", "--", "false"]);
    await program.says("retrying in");
    program.kill("SIGINT");
    const said = await program.ended;
    expect(said.code).toBe(130);
    expect(await stateOf(place, idIn(said))).toBe("cancelled");
  });

  it("pressed twice leaves at once, and the tree goes soon after", async () => {
    const place = newPlace();
    const n = longTime();
    const script = `trap "" TERM; ${tree(n)}; while :; do sleep 0.05; done`;
    const program = start(place, ["run", "--", "sh", "-c", script]);
    await program.says("up");
    program.kill("SIGINT");
    await program.says("cancelling; press Ctrl-C again to exit now");
    program.kill("SIGINT");
    expect((await program.ended).code).toBe(130);
    await untilGone(n);
  });

  it("is what a cancelled job answers for later, and --again runs it", async () => {
    const place = newPlace();
    const script = 'echo up $PERDURE_ATTEMPT; [ "$PERDURE_ATTEMPT" = 2 ] || exec sleep 71242';
    const program = start(place, ["run", "--key", "k", "--", "sh", "-c", script]);
    await program.says("up 1");
    program.kill("SIGINT");
    expect((await program.ended).code).toBe(130);
    const told = await scriptAt(place, ["--key", "k"], script);
    expect(told).toMatchObject({ code: 130, stdout: "" });
    expect(told.stderr).toMatch(/^Cancelled at /);
    expect(await scriptAt(place, ["--key", "k", "--again"], script)).toMatchObject({ code: 0, stdout: "up 2\n" });
  });
});

describe("another signal", () => {
  it.each([
    ["SIGTERM", 143],
    ["SIGHUP", 129],
  ] as const)("%s ends the tree, hands the job back and exits with %i", async (signal, code) => {
    const n = longTime();
    const place = newPlace();
    const program = start(place, ["run", "--key", "k", "--", "sh", "-c", tree(n)]);
    await program.says("up");
    program.kill(signal);
    const said = await program.ended;
    expect(said.code).toBe(code);
    expect(said.stderr).toContain("interrupted");
    expect(processesWith(`sleep ${n}`)).toEqual([]);
    expect(await stateOf(place, idIn(said))).toBe("queued");
  });

  it("cancels a job without a key, which nobody could go on with, and --json tells the same code", async () => {
    const place = newPlace();
    const n = longTime();
    const program = start(place, ["run", "--json", "--", "sh", "-c", tree(n)]);
    await program.says("up");
    program.kill("SIGTERM");
    const said = await program.ended;
    expect(said.code).toBe(143);
    expect(processesWith(`sleep ${n}`)).toEqual([]);
    expect(endingOf(said)).toMatchObject({ id: idIn(said), state: "cancelled", exitCode: 143 });
  });

  it.runIf(IS_FULL)("leaves the object of --json too when the job is handed back", async () => {
    const program = start(newPlace(), ["run", "--json", "--key", "k", "--", "sh", "-c", tree(longTime())]);
    await program.says("up");
    program.kill("SIGTERM");
    const said = await program.ended;
    const attempts = [{ attempt: 1, outcome: "interrupted" }];
    expect(endingOf(said)).toMatchObject({ id: idIn(said), state: "queued", exitCode: 143, attempts });
  });

  it.runIf(IS_FULL)("sent again, kills what does not end by itself, and no failure is recorded", async () => {
    const place = newPlace();
    const n = longTime();
    const script = `trap "echo heard" TERM; ${tree(n)}; while :; do sleep 0.05; done`;
    const program = start(place, ["run", "--key", "k", "--", "sh", "-c", script]);
    await program.says("up");
    program.kill("SIGTERM");
    await program.says("heard");
    await new Promise((resolve) => setTimeout(resolve, 600)); // what comes sooner counts as the same signal
    program.kill("SIGTERM");
    const said = await program.ended;
    expect(said.code).toBe(143);
    await untilGone(n);
    expect(await stateOf(place, idIn(said))).toMatch(/^(queued|running)$/); // handed back, or lost if time was short
  });

  it.runIf(IS_FULL)("that cannot be caught ends the tree soon after too", async () => {
    const n = longTime();
    const program = start(newPlace(), ["run", "--", "sh", "-c", tree(n)]);
    await program.says("up");
    program.kill("SIGKILL");
    await program.ended;
    await untilGone(n);
  });
});
