/** The basics: a task, a worker, a typed result, and the explanation of how it came about.
 *  Run it with `npm start`, or `npx tsx examples/first-job.ts [file]` after `npm run build`.
 *  Jobs are kept in `.perdure/perdure.db` of the working directory, or in the file you name. */
import { Perdure, task } from "perdure";

const greet = task(
  "greet",
  { retry: { maxAttempts: 3, backoff: { initial: "200ms" } } },
  async (input: { name: string }, ctx) => {
    if (ctx.attempt === 1) throw new Error("the first run fails, to show a retry");
    return { greeting: `Hello, ${input.name}!`, attempt: ctx.attempt };
  },
);

const perdure = await Perdure.open(process.argv[2]);
await perdure.work([greet]);

const job = await perdure.submit(greet, { name: "Ada" }); // on disk from here on
const { greeting, attempt } = await job.result(); // { greeting: string; attempt: number }
console.log(`${greeting} (from attempt ${attempt})\n`);

console.log((await job.explain()).text);
await perdure.close();
