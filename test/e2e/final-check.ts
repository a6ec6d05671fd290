/** The final check of a test, read over HTTP from a server: every job has ended once, its row equals the fold of its
 *  events, and acknowledged jobs exist. */
import { expect } from "vitest";
import type { PerdureClient } from "../../src/client/index.ts";
import { type Audited, audit } from "../crash/audit.ts";
import { until } from "./kit.ts";

/** Nothing is queued or running. */
export async function drained(client: PerdureClient, deadlineMs?: number): Promise<void> {
  let left = "";
  const look = async () => {
    const queues = await client.queues();
    left = JSON.stringify(queues.map(({ queue, counts }) => ({ queue, ...counts })));
    return queues.every(({ counts }) => counts.queued + counts.running === 0);
  };
  await until("nothing is queued or running", look, deadlineMs).catch(async (error: Error) => {
    const { jobs } = await client.jobs({ state: ["queued", "running"], order: "oldest", limit: 3 });
    const stories = await Promise.all(jobs.map(async ({ id }) => (await client.explain(id)).text));
    throw new Error(`${error.message}\n${left}\n${stories.join("\n")}`);
  });
}

/** All jobs have ended by now; each history is a legal one. */
export async function reckon(client: PerdureClient, acknowledged?: ReadonlyMap<string, string>): Promise<Audited> {
  const audited = await audit(client as never); // its types are those of the built package
  for (const job of audited.jobs.values()) expect([job.id, isEnded(job.state)]).toEqual([job.id, true]);
  if (acknowledged === undefined) return audited;
  const byKey = new Map([...audited.jobs.values()].map((job) => [job.key, job.id]));
  for (const [key, id] of acknowledged) expect([key, byKey.get(key)]).toEqual([key, id]);
  expect(byKey.size, "one job for each key").toBe(audited.jobs.size);
  return audited;
}

function isEnded(state: string): boolean {
  return state === "succeeded" || state === "failed" || state === "cancelled";
}

/** How many attempts were lost or failed in all, and jobs that did not succeed. */
export function tally({ jobs, events }: Audited) {
  const all = [...events.values()].flat();
  const unsuccessful = [...jobs.values()].filter((job) => job.state !== "succeeded");
  return {
    attempts: all.filter((event) => event.name === "attempt.started").length,
    lost: all.filter((event) => event.name === "attempt.lost").length,
    unsuccessful: unsuccessful.map(({ id, state, reason }) => ({ id, state, reason })),
  };
}
