/** Two processes on one file: this one works, another one cancels. The handler is notified by its signal.
 *  The second process is the same file, started with the database and the job id as arguments.
 *  Run: npx tsx examples/cancel-from-another-process.ts */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Perdure, type PerdureError, task } from "perdure";

const [file, jobId] = process.argv.slice(2);
if (file !== undefined && jobId !== undefined) await cancel(file, jobId);
else await work();

/** The other process needs only the file, no task and no worker. */
async function cancel(file: string, jobId: string): Promise<void> {
  const perdure = await Perdure.open(file);
  const { state } = await perdure.cancel(jobId);
  console.log(`canceller: requested cancel, the job is ${state}`);
  await perdure.close();
}

async function work(): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), "perdure-example-"));
  const file = join(dir, "jobs.db");
  const perdure = await Perdure.open(file);
  let started = () => {};
  const running = new Promise<void>((resolve) => {
    started = resolve;
  });

  const long = task("long-work", async (_: undefined, ctx) => {
    console.log("worker: started, this takes a minute");
    started();
    try {
      await sleep(60_000, undefined, { signal: ctx.signal }); // pass the signal on to everything that can be aborted
    } finally {
      if (ctx.signal.aborted) console.log(`worker: stopped, because ${ctx.signal.reason.message}`);
    }
  });
  await perdure.work([long]);
  const job = await perdure.submit(long);
  await running;

  const child = spawn(process.execPath, [...process.execArgv, fileURLToPath(import.meta.url), file, job.id], {
    stdio: "inherit",
  });
  const childEnded = once(child, "exit");
  const error = await job.result().catch((thrown: unknown) => thrown as PerdureError);
  console.log(`worker: result() rejected with ${(error as PerdureError).code}`);
  await childEnded;

  console.log((await job.explain()).text);
  await perdure.close();
  rmSync(dir, { recursive: true });
}
