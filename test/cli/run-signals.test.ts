/** Signals to `perdure run`: Ctrl-C cancels, other signals return the job to its queue, and no process of the command is left. */
import { describe, expect, it } from "vitest";
import { IS_FULL } from "../tier.ts";
import { perdureAt, scriptAt } from "./kit.ts";
import { endingOf, idIn, longTime, newPlace, type Place, processesWith, start } from "./program.ts";

/** A process tree: children, one in a separate session, one whose parent has exited. */
const tree = (n: number) => `sleep ${n} & setsid sleep ${n} & (setsid sh -c 'sleep ${n} & :' &); echo up; wait`;

/** The promise is one second; a busy machine may take longer. */
const untilGone = (n: number) => expect.poll(() => processesWith(`sleep ${n}`), { interval: 100 }).toEqual([]);

async function stateOf(place: Place, id: string): Promise<string> {
  const { stdout, stderr } = await perdureAt(place, ["get", id, "--json"]);
  expect(stderr).toBe("");
  return (JSON.parse(stdout) as { state: string }).state;
}

describe("Ctrl-C", () => {
  it("cancels the job, ends the whole process tree, and exits with 130", async () => {
    const place = newPlace();
    const n = longTime();
    const program = start(place, ["run", "--json", "--", "sh", "-c", tree(n)]);
    await program.untilPrinted("up");
    program.kill("SIGINT");
    const said = await program.ended;
    expect(said.code).toBe(130);
    expect(processesWith(`sleep ${n}`)).toEqual([]);
    expect(said.stderr).toContain("cancelling");
    expect(endingOf(said)).toMatchObject({ id: idIn(said), state: "cancelled", exitCode: 130 });
  });

  it.runIf(IS_FULL)("cancels while it waits for the next attempt", async () => {
    const place = newPlace();
    const program = start(place, ["run", "--backoff", "1h", "--", "false"]);
    await program.untilPrinted("retrying in");
    program.kill("SIGINT");
    const said = await program.ended;
    expect(said.code).toBe(130);
    expect(await stateOf(place, idIn(said))).toBe("cancelled");
  });

  it("pressed twice exits at once, and the process tree ends soon after", async () => {
    const place = newPlace();
    const n = longTime();
    const script = `trap "" TERM; ${tree(n)}; while :; do sleep 0.05; done`;
    const program = start(place, ["run", "--", "sh", "-c", script]);
    await program.untilPrinted("up");
    program.kill("SIGINT");
    await program.untilPrinted("cancelling; press Ctrl-C again to exit now");
    program.kill("SIGINT");
    expect((await program.ended).code).toBe(130);
    await untilGone(n);
  });

  it("decides the exit code when the key is used later; --again runs the job", async () => {
    const place = newPlace();
    const script = 'echo up $PERDURE_ATTEMPT; [ "$PERDURE_ATTEMPT" = 2 ] || exec sleep 71242';
    const program = start(place, ["run", "--key", "k", "--", "sh", "-c", script]);
    await program.untilPrinted("up 1");
    program.kill("SIGINT");
    expect((await program.ended).code).toBe(130);
    const later = await scriptAt(place, ["--key", "k"], script);
    expect(later).toMatchObject({ code: 130, stdout: "" });
    expect(later.stderr).toMatch(/^Cancelled at /);
    expect(await scriptAt(place, ["--key", "k", "--again"], script)).toMatchObject({ code: 0, stdout: "up 2\n" });
  });
});

describe("another signal", () => {
  it.each([
    ["SIGTERM", 143],
    ["SIGHUP", 129],
  ] as const)("%s ends the process tree, returns the job to its queue and exits with %i", async (signal, code) => {
    const n = longTime();
    const place = newPlace();
    const program = start(place, ["run", "--key", "k", "--", "sh", "-c", tree(n)]);
    await program.untilPrinted("up");
    program.kill(signal);
    const said = await program.ended;
    expect(said.code).toBe(code);
    expect(said.stderr).toContain("interrupted");
    expect(processesWith(`sleep ${n}`)).toEqual([]);
    expect(await stateOf(place, idIn(said))).toBe("queued");
  });

  it("cancels a job without a key, which could not be resumed, and --json has the same code", async () => {
    const place = newPlace();
    const n = longTime();
    const program = start(place, ["run", "--json", "--", "sh", "-c", tree(n)]);
    await program.untilPrinted("up");
    program.kill("SIGTERM");
    const said = await program.ended;
    expect(said.code).toBe(143);
    expect(processesWith(`sleep ${n}`)).toEqual([]);
    expect(endingOf(said)).toMatchObject({ id: idIn(said), state: "cancelled", exitCode: 143 });
  });

  it.runIf(IS_FULL)("prints the object of --json too when the job returns to its queue", async () => {
    const program = start(newPlace(), ["run", "--json", "--key", "k", "--", "sh", "-c", tree(longTime())]);
    await program.untilPrinted("up");
    program.kill("SIGTERM");
    const said = await program.ended;
    const attempts = [{ attempt: 1, outcome: "interrupted" }];
    expect(endingOf(said)).toMatchObject({ id: idIn(said), state: "queued", exitCode: 143, attempts });
  });

  it.runIf(IS_FULL)("sent again, kills a command that ignores it, and no failure is recorded", async () => {
    const place = newPlace();
    const n = longTime();
    const script = `trap "echo heard" TERM; ${tree(n)}; while :; do sleep 0.05; done`;
    const program = start(place, ["run", "--key", "k", "--", "sh", "-c", script]);
    await program.untilPrinted("up");
    program.kill("SIGTERM");
    await program.untilPrinted("heard");
    await new Promise((resolve) => setTimeout(resolve, 600)); // a repetition within this time counts as the same signal
    program.kill("SIGTERM");
    const said = await program.ended;
    expect(said.code).toBe(143);
    await untilGone(n);
    expect(await stateOf(place, idIn(said))).toMatch(/^(queued|running)$/); // queued again, or still running if there was not enough time
  });

  it.runIf(IS_FULL)("that cannot be caught also ends the process tree, soon after", async () => {
    const n = longTime();
    const program = start(newPlace(), ["run", "--", "sh", "-c", tree(n)]);
    await program.untilPrinted("up");
    program.kill("SIGKILL");
    await program.ended;
    await untilGone(n);
  });
});
