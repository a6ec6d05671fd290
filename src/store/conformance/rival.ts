/** A second process on the same store, for races that need separate processes. It opens the store named by its
 *  argument, reports that it is ready, and then runs the command on each line of its input. Started by `rivals.ts`. */
import { createInterface } from "node:readline";
import { idMaker } from "../../lib/id.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { openStore } from "../open.ts";
import { decideAt, newJob, reaped } from "./kit.ts";

export type Order =
  /** Submits a job under each of these keys; returns their ids. */
  | { readonly do: "submit"; readonly keys: readonly string[]; readonly now: number }
  /** Settles these attempts as lost, some at a time; returns who won each. */
  | { readonly do: "reap"; readonly places: readonly { jobId: string; attempt: number }[]; readonly now: number };

/** Small enough that a process that settles one at a time and pauses for a moment still finds some left. */
const TOGETHER = 4;

const [, , url] = process.argv;
// The kit generates the same ids in every process.
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
