/** `perdure up` that is killed repeatedly while a job runs: whatever ended the server ended its workers too, so the job
 *  is not suspected, whether the server was away for long or came back at once. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { reckon } from "./final-check.ts";
import {
  connect,
  freePort,
  gone,
  linesIn,
  newHome,
  numberIn,
  pass,
  sh,
  TEST_MS,
  tokenIn,
  treeOf,
  until,
  up,
} from "./kit.ts";

it.each([
  { awayMs: 45_000, kills: 3 },
  { awayMs: 0, kills: 5 },
])(
  "is not treated as poison when `perdure up` is killed $kills times and away for $awayMs ms each time",
  {
    timeout: 3 * 45_000 + 2 * TEST_MS,
  },
  async ({ awayMs, kills }) => {
    const home = newHome();
    const [pids, go] = [join(home, "pids"), join(home, "go")];
    const args = ["--port", String(await freePort())];
    let running = await up({ home, args });
    const client = await connect(running.url, tokenIn(running));
    const job = await client.submit("exec", sh(`echo $$ >> ${pids}; while [ ! -e ${go} ]; do sleep 0.1; done`));
    await numberIn(pids);
    for (let kill = 1; kill <= kills; kill++) {
      const tree = treeOf(running.proc.pid);
      await running.proc.kill();
      for (const pid of tree) await gone(pid);
      await pass(awayMs);
      running = await up({ home, args });
      await until("the command runs again", () => linesIn(pids).length === kill + 1);
    }
    expect(await job.get()).toMatchObject({ state: "running", losses: kills, streak: 0 });
    writeFileSync(go, "");
    expect(await job.result()).toMatchObject({ exitCode: 0 });
    const { text } = await job.explain();
    expect(text).toContain("The job is not suspected of causing it: the engine had exited at that time");
    await reckon(client);
    expect(await running.proc.stop()).toBe(0);
  },
);
