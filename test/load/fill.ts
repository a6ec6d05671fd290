/** A SQLite store with very many jobs in all states, as after months of use: created by bulk submits, then moved to
 *  their states by SQL. Events and attempts of the moves are left out, so it is for reading only. */

import { Perdure, task } from "../../src/index.ts";
import { openDatabase } from "../../src/store/sqlite/driver.ts";

const KINDS = ["mail", "report", "import", "resize", "sync"] as const;
const QUEUES = ["default", "slow", "nightly", "bulk"] as const;
const AT_ONCE = 1_000;

export async function fill(url: string, count: number): Promise<void> {
  const perdure = await Perdure.open({ url });
  try {
    const tasks = KINDS.map((kind) => task(kind, (_input: { n: number }) => {}));
    for (let done = 0; done < count; done += AT_ONCE) {
      const answers = await perdure.submitMany(
        Array.from({ length: Math.min(AT_ONCE, count - done) }, (_, i) => {
          const n = done + i;
          const options = {
            queue: QUEUES[n % QUEUES.length] as string,
            ...(n % 10 === 0 ? { name: `customer-${n % 5_000}` } : {}),
            ...(n % 20 === 0 ? { tags: [`tenant-${n % 50}`] } : {}),
          };
          return { task: tasks[n % tasks.length] as (typeof tasks)[number], input: { n }, options };
        }),
      );
      if (answers.some((answer) => !answer.ok)) throw new Error("a submit was refused");
    }
  } finally {
    await perdure.close();
  }
  const db = await openDatabase(url);
  // Of a hundred jobs: 5 wait, 10 failed, 5 were cancelled, 80 succeeded.
  db.exec(`
    update job set state = 3, finished_at = submitted_at + 1000 where no % 100 < 80;
    update job set state = 4, finished_at = submitted_at + 1000, reason = 'failed' where no % 100 between 80 and 89;
    update job set state = 5, finished_at = submitted_at + 1000 where no % 100 between 90 and 94;
  `);
  db.close();
}

if (process.argv[1] === import.meta.filename) {
  const [url = "jobs.db", count = "1000000"] = process.argv.slice(2);
  await fill(url, Number(count));
}
