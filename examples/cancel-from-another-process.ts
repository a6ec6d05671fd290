/** Two processes on one file: this one works, another one cancels. The handler hears of it through its signal.
 *  The second process is this same file, started with the database and the job's id as arguments.
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

/** The other process. It needs no task and no worker, only the file. */
async function cancel(file: string, jobId: string): Promise<void> {
  const perdure = await Perdure.open(file);
  const { state } = await perdure.cancel(jobId);
  console.log(`canceller: asked for the end of a job that is ${state}`);
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
      await sleep(60_000, undefined, { signal: ctx.signal }); // hand the signal on to whatever can stop
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
  console.log(`worker: result() says ${(error as PerdureError).code}`);
  await childEnded;

  console.log((await job.explain()).text);
  await perdure.close();
  rmSync(dir, { recursive: true });
}
