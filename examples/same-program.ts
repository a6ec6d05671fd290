/** One program for a file and for a server: only the address differs, `npx tsx examples/same-program.ts [address]`
 *  after `npm run build`. The address is a file, `postgres://…`, or `http://host:port` of a server, whose token
 *  is taken from PERDURE_TOKEN. */
import { Perdure, task } from "perdure";

const fetchPrice = task(
  "fetch-price",
  { retry: { maxAttempts: 3, backoff: { initial: "50ms" } }, timeout: "10s" },
  async (input: { item: string }, ctx) => {
    ctx.log(`requesting the price of ${input.item}`);
    if (ctx.attempt < 3) throw new Error(`the shop is closed in attempt ${ctx.attempt}`);
    return { item: input.item, cents: 499 };
  },
);

await using perdure = await Perdure.open(process.argv[2]);
await perdure.work([fetchPrice]);

const job = await perdure.submit(fetchPrice, { item: "tea" }, { tags: ["shopping"] });
const { item, cents } = await job.result(); // { item: string; cents: number }
console.log(`${item} costs ${cents / 100} after ${(await job.attempts()).length} attempts`);
for await (const event of job.events()) console.log(event.name);
console.log((await job.explain()).text);
