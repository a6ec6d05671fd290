/** Submits jobs `from` to `to`, each with the key `job-<i>`, one by one or in lists (`batch`). An acknowledged id is
 *  appended to the file `acks` (and printed) before the next submit, so the file only has acknowledged jobs.
 *  Prints: pid <pid> · ack <i> <id> <created> · done · error <code> <message>. */
import { appendFileSync } from "node:fs";
import { Perdure } from "perdure";

const { url, from, to, acks, batch = 1, bodies = [{ work: "quick" }], retry } = JSON.parse(process.argv[2]);

console.log(`pid ${process.pid}`);
process.stdin.on("end", () => process.exit(1)).resume(); // the test has exited: exit too
process.stdin.unref?.();

const entry = (i) => {
  const options = { key: `job-${i}`, tags: [`n${i % 10}`], ...(retry ? { retry } : {}) };
  return { task: "job", input: { i, ...bodies[i % bodies.length] }, options };
};

function acknowledged(i, job) {
  appendFileSync(acks, `${i} ${job.id}\n`);
  console.log(`ack ${i} ${job.id} ${job.created}`);
}

try {
  const perdure = await Perdure.open({ url, lease: "1s" });
  for (let i = from; i < to; ) {
    if (batch === 1) {
      const { task, input, options } = entry(i);
      acknowledged(i, await perdure.submit(task, input, options));
      i += 1;
      continue;
    }
    const entries = Array.from({ length: Math.min(batch, to - i) }, (_, k) => entry(i + k));
    for (const answer of await perdure.submitMany(entries)) {
      if (!answer.ok) throw answer.error;
      acknowledged(i, answer.job);
      i += 1;
    }
  }
  await perdure.close();
  console.log("done");
} catch (error) {
  console.log(`error ${error.code} ${error.message}`);
  process.exit(1);
}
