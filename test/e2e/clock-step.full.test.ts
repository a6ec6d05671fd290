/** The wall clock of a SQLite server is set back an hour, and forward again, under load and across a restart: no job
 *  waits longer than its delay, none starts early, none is lost. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import type { JobHandle, PerdureClient } from "../../src/client/index.ts";
import { clockShim, HAS_COMPILER } from "./clock-shim.ts";
import { connect, newHome, resultOf, Server, TEST_MS, worker } from "./kit.ts";

const HOUR_S = 3_600;
const DELAY_MS = 2_000;
/** A step of a quarter of an hour would be far above it, whatever else runs on this machine. */
const PATIENCE = "60s";
const MAIN = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));

it.skipIf(!HAS_COMPILER)(
  "is set back an hour and ahead again (skipped where there is no gcc for the clock shim)",
  { timeout: TEST_MS },
  async () => {
    const home = newHome();
    const { env, set } = clockShim(home);
    const server = await Server.start({ home, env });
    await worker(server);
    const client = await connect(server.url, server.token);
    const jobs: JobHandle<unknown>[] = [];
    const delayed = new Set<string>();

    const load = async (client: PerdureClient, count: number) => {
      for (let i = 0; i < count; i++) {
        const isDelayed = i % 4 === 0;
        const job = await client.submit("add", { a: i, b: 1 }, isDelayed ? { delay: DELAY_MS } : {});
        jobs.push(job);
        if (isDelayed) delayed.add(job.id);
      }
    };
    const step = async (seconds: number) => {
      const during = load(client, 100);
      await load(client, 20);
      set(seconds);
      await during;
      await load(client, 20);
    };
    /** On the file itself, by a process that never saw the step. */
    const submitAlone = () => {
      const argv = [MAIN, "submit", "exec", "--input", '{"argv":["true"]}', "--db", join(home, "data", "perdure.db")];
      const { status, stdout, stderr } = spawnSync(process.execPath, [...argv, "--json"], {
        env: { PATH: process.env.PATH ?? "", HOME: home, ...env },
        encoding: "utf8",
        cwd: home,
      });
      expect(stderr).not.toMatch(/error/i);
      expect(status).toBe(0);
      return client.job((JSON.parse(stdout) as { id: string }).id);
    };

    await step(-HOUR_S);
    jobs.push(await submitAlone());
    await step(0);
    await step(-HOUR_S);
    // The last of these are still waiting when it ends.
    server.proc.signal("SIGKILL");
    await server.proc.ended;
    set(-2 * HOUR_S);
    await server.again().ready;
    await load(client, 20);
    await step(0);

    await Promise.all(jobs.map((job) => Promise.race([resultOf(job), late(job)])));
    for (const job of jobs) {
      const { attempt, submittedAt, startedAt } = await job.get();
      expect(attempt, job.id).toBe(1);
      if (delayed.has(job.id)) expect(Number(startedAt) - submittedAt, job.id).toBeGreaterThanOrEqual(DELAY_MS);
      const { text } = await client.explain(job.id);
      expect(text).not.toMatch(/-\d+ ?(ms|s|m|h)\b/);
    }
    const names = new Set<string>();
    for await (const { name } of client.events()) names.add(name);
    expect(names).toContain("engine.clock_stepped");
    expect(names).not.toContain("attempt.lost");

    async function late(job: JobHandle<unknown>): Promise<never> {
      await new Promise((resolve) => setTimeout(resolve, Number.parseInt(PATIENCE, 10) * 1_000).unref());
      throw new Error(`${job.id} waited for ${PATIENCE}: ${(await client.explain(job.id)).text}`);
    }
  },
);
