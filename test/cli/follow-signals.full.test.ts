/** Signals to commands that follow jobs, on a server and on a local data directory: Ctrl-C cancels the job of `perdure run`;
 *  any other command only stops following. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { localTarget, serverTarget, startMain, type TestTarget, untilThere } from "./follow-kit.ts";
import { perdureAt } from "./kit.ts";
import { endingOf, idIn, type Place, type Program, start, startShell } from "./program.ts";

let target: Awaited<ReturnType<typeof serverTarget>>;
let place: Place;
beforeAll(async () => {
  target = await serverTarget();
  await target.work();
  place = { cwd: target.dir, data: join(target.dir, ".perdure") };
});
afterAll(() => target.close());

const stateOf = async (id: string) => (await (await target.perdure.job(id)).get()).state;
const startRun = (script: string, ...options: string[]): Program =>
  start(place, ["run", ...options, "--", "sh", "-c", script], target.env);

describe("perdure run on a server", () => {
  it("cancels its job on Ctrl-C, and exits with 130 when it has ended", async () => {
    const program = startRun(`echo up; ${untilThere("never")}`, "--json");
    await program.untilPrinted("up");
    program.kill("SIGINT");
    const said = await program.ended;
    expect(said.code).toBe(130);
    expect(said.stderr).toContain("cancelling; press Ctrl-C again to exit now");
    expect(endingOf(said)).toMatchObject({ id: idIn(said), state: "cancelled", exitCode: 130 });
    expect(await stateOf(idIn(said))).toBe("cancelled");
  }, 120_000);

  it.each([
    ["SIGTERM", 143],
    ["SIGHUP", 129],
  ] as const)(
    "leaves its job running on the server on %s, and prints how to follow it",
    async (signal, code) => {
      const program = startRun(`echo up; ${untilThere(`go-${signal}`)}; echo done`);
      await program.untilPrinted("up");
      program.kill(signal);
      const said = await program.ended;
      const id = idIn(said);
      expect(said.code).toBe(code);
      expect(said.stderr).toContain(`follow it with \`perdure logs -f ${id}\``);
      expect(await stateOf(id)).toBe("running");
      const logs = startMain(["logs", "-f", id], { cwd: place.cwd, env: target.env });
      await logs.untilPrinted("up");
      writeFileSync(join(target.dir, `go-${signal}`), "");
      expect(await logs.ended).toBe(0);
      expect(logs.io).toMatchObject({ stdout: { text: "up\ndone\n" }, stderr: { text: "" } });
      expect((await perdureAt(place, ["wait", "-q", id], target.env)).code).toBe(0);
    },
    120_000,
  );

  it("prints the object of --json when it leaves the job, and leaves the job when its output is closed", async () => {
    const program = startRun(`echo up; ${untilThere("go-json")}`, "--json");
    await program.untilPrinted("up");
    program.kill("SIGTERM");
    const said = await program.ended;
    expect(endingOf(said)).toMatchObject({ id: idIn(said), state: "running", exitCode: 143 });
    const script = `$PERDURE_CLI run --key unread -- sh -c 'echo a; ${untilThere("go-json")}; seq 10' | head -1`;
    const piped = startShell(place, script, target.env);
    await piped.untilPrinted("a");
    writeFileSync(join(target.dir, "go-json"), "");
    const { code, stdout, stderr } = await piped.ended;
    expect({ code, stdout }).toEqual({ code: 0, stdout: "a\n" });
    expect(stderr).not.toMatch(/EPIPE|bug/);
    expect((await perdureAt(place, ["wait", "-q", idIn({ stderr })], target.env)).code).toBe(0);
  }, 120_000);
});

// All three stop in the same way, so one of them is enough on a local data directory.
describe.each([
  ["a local data directory", localTarget, ["events"]],
  ["a server", serverTarget, ["logs", "events", "wait"]],
] as const)("Ctrl-C on %s", (_, open, names) => {
  let other: TestTarget;
  beforeAll(async () => {
    other = await open();
    await other.work();
  });
  afterAll(() => other.close());

  const HOW = {
    logs: { argv: ["logs", "-f"], sign: "up" },
    events: { argv: ["events", "-f"], sign: "attempt.started" },
    wait: { argv: ["wait"], sign: "succeeded" },
  };
  it.each(names)(
    "ends %s quietly with 130, and the job keeps running",
    async (name) => {
      const { argv, sign } = HOW[name];
      const job = await other.script(`echo up; ${untilThere("never")}`);
      // `wait` has started when it reports the end of another job.
      const ids = name === "wait" ? [(await other.script("true")).id, job.id] : [job.id];
      const program = start({ cwd: other.dir, data: other.dir }, [...argv, ...ids], other.env);
      await program.untilPrinted(sign);
      program.kill("SIGINT");
      expect(await program.ended).toMatchObject({ code: 130, stderr: "" });
      expect((await job.get()).state).toBe("running");
      await job.cancel();
    },
    120_000,
  );
});
