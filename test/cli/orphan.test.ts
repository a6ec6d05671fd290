/** Jobs whose rows are running in a session that does not exist: a cancel ends them, although no engine runs. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { claimAndVanish, dropSessions, eventsIn, perdureAt } from "./kit.ts";
import { newDir } from "./targets.ts";

/** Commands in a new directory, and its data. */
function openHere() {
  const cwd = newDir();
  const ask = (...argv: string[]) => perdureAt({ cwd }, argv);
  const submit = async (...argv: string[]) => {
    const { code, stdout } = await ask("submit", "--run-at", "2020-01-01T00:00:00Z", ...argv);
    expect(code).toBe(0);
    return stdout.trim();
  };
  return { ask, submit, dir: join(cwd, ".perdure") };
}

it("is cancelled at once, with its children, and the events are recorded", async () => {
  const { ask, submit, dir } = openHere();
  const id = await submit("k");
  const child = await submit("k", "--parent", id);
  await claimAndVanish(dir);
  await dropSessions(dir);
  expect((await ask("explain", id)).stdout).toContain("Its session no longer exists");
  expect(await ask("cancel", id)).toEqual({ code: 0, stdout: `${id}  cancelled\n`, stderr: "" });
  for (const each of [id, child]) {
    const names = (await eventsIn(dir)).filter(({ jobId }) => jobId === each).map(({ name }) => name);
    expect(names).toEqual(["job.submitted", "attempt.started", "job.cancel_requested", "attempt.lost"]);
    const { stdout } = await ask("explain", each);
    expect(stdout).toMatch(/^Cancelled at /);
    expect(stdout).not.toContain("does not exist any more");
  }
  expect((await ask("cancel", id)).code).toBe(1);
});

it("is cancelled by a repeated cancel if its session was deleted after the first", async () => {
  const { ask, submit, dir } = openHere();
  const id = await submit("k");
  await claimAndVanish(dir);
  // Its session exists and may be alive, so cancellation is only requested.
  expect((await ask("cancel", id)).stdout).toBe(`${id}  running (cancelling)\n`);
  expect((await ask("cancel", id)).stdout).toBe(`${id}  running (cancelling)\n`);
  await dropSessions(dir);
  const said = await ask("cancel", "--json", id);
  expect(said.code).toBe(0);
  expect(JSON.parse(said.stdout)).toEqual([{ id, ok: true, state: "cancelled", reason: null }]);
});

it("succeeds instead of being cancelled if its verdict was complete", async () => {
  const { ask, submit, dir } = openHere();
  const id = await submit("--", "true");
  await claimAndVanish(dir);
  await dropSessions(dir);
  const attempt = join(dir, "artifacts", id, "attempt_1");
  mkdirSync(attempt, { recursive: true });
  writeFileSync(join(attempt, "result.json"), '{"status":"completed","output":{"n":1}}');
  const said = await ask("cancel", id);
  expect(said).toMatchObject({ code: 1, stderr: expect.stringContaining(" already ended: succeeded at ") });
});
