/** The demo of fluster's retries, with its API: a job that fails about every other time, and is retried up to five times.
 *  Run: npx tsx examples/fluster/flaky-demo.ts, or with your own random values: … flaky-demo.ts 0.1 0.4 0.7 */
import { Perdure, task } from "perdure";
import { Entrypoint, fluster } from "perdure/dialects";

const draws = process.argv.slice(2).map(Number);

const flakyJob = task("flaky_job", () => {
  if ((draws.shift() ?? Math.random()) < 0.5) throw new Error("Random failure");
  return "success";
});

const perdure = await Perdure.open();
await perdure.work([flakyJob], { name: "worker-1" });

const client = fluster(perdure);
const jobId = await client.submit({
  entrypoint: Entrypoint.fromCallable(flakyJob),
  name: "flaky-job",
  resources: { cpu: 1, memory: "512m" },
  retry: { max_retries_failure: 5, initial_delay: 0.1 },
});

const status = await client.wait(jobId, { timeout: 60 });
for (const { attempt_id, worker_id, state, error } of status.attempts) {
  console.log(`attempt ${attempt_id} on ${worker_id}: ${state}${error === null ? "" : `, ${error}`}`);
}
// Not failure_count + 1: a preempted attempt counts as an attempt too.
if (status.state === "SUCCEEDED") console.log(`Succeeded after ${status.attempts.length} attempts`);
else console.log(`${status.state} after ${status.failure_count} failures: ${status.error}`);

await perdure.close();
