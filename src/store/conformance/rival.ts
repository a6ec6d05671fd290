/** A second process on the same store, for races that one process cannot have with itself. It opens the store named by
 *  its argument, says so, and then does what each line of its input asks. Started by `rivals.ts`. */
import { createInterface } from "node:readline";
import { idMaker } from "../../lib/id.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { openStore } from "../open.ts";
import { decideAt, newJob, reaped } from "./kit.ts";

export type Order =
  /** Submits a job under each of these keys; answers their ids. */
  | { readonly do: "submit"; readonly keys: readonly string[]; readonly now: number }
  /** Settles these attempts as lost, some at a time; answers who won each. */
  | { readonly do: "reap"; readonly places: readonly { jobId: string; attempt: number }[]; readonly now: number };

/** So few that who settles one at a time, in a process that stands still for a moment, still finds some left. */
const TOGETHER = 4;

const [, , url] = process.argv;
// The kit makes the same ids in every process.
const newId = idMaker({ now: Date.now, randomBytes: (bytes) => crypto.getRandomValues(bytes) });
const secret = () => `secret-of-${process.pid}`.padEnd(32, "x");
const store = await openStore({ url, clock: systemClock, random: Math.random, newSecret: secret });
console.log(JSON.stringify("open"));
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await answer(JSON.parse(line) as Order)));
}
await store.close();

async function answer(order: Order): Promise<unknown> {
  const { now } = order;
  if (order.do === "submit") {
    const calls = order.keys.map((key) => store.insert([newJob({ key, id: newId("job"), at: now })], now));
    return (await Promise.all(calls)).flat();
  }
  const won: boolean[] = [];
  for (let at = 0; at < order.places.length; at += TOGETHER) {
    const reports = order.places.slice(at, at + TOGETHER).map(reaped);
    for (const { status } of await store.settle(reports, now, decideAt(now))) won.push(status === "accepted");
  }
  return won;
}
