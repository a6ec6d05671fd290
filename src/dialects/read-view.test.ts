import { expect, it } from "vitest";
import type { JobState } from "../core/job/job.ts";
import type { JobInfo } from "../core/job/views.ts";
import { type FindChildren, readChildren } from "./read-view.ts";

/** Children with these states, returned in pages of at most `size`. */
function finder(states: readonly JobState[], page = 1_000): { find: FindChildren; calls: object[] } {
  const calls: object[] = [];
  const children = states.map((state, no) => ({ id: `job_${no}`, state }) as JobInfo);
  const find: FindChildren = async (filter) => {
    calls.push(filter);
    const from = Number(filter.cursor ?? 0);
    const fitting = children.filter(({ state }) => filter.state?.includes(state) ?? true);
    const end = from + Math.min(filter.limit, page);
    return { jobs: fitting.slice(from, end), next: end < fitting.length ? String(end) : null };
  };
  return { find, calls };
}

const states = (count: number): JobState[] =>
  Array.from({ length: count }, (_, i) => (i % 50 === 49 ? "failed" : "queued"));
const numbers = (jobs: readonly JobInfo[]) => jobs.map(({ id }) => Number(id.slice(4)));

it("are read in one call if there are few, oldest first", async () => {
  const { find, calls } = finder(states(100));
  const { jobs, more } = await readChildren(find);
  expect([numbers(jobs), more, calls.length]).toEqual([Array.from({ length: 100 }, (_, i) => i), false, 1]);
});

it("are at most 100, failed ones first, in three calls however many there are", async () => {
  const { find, calls } = finder(states(10_000).map((state, i) => (i < 300 ? state : "succeeded")));
  const { jobs, more } = await readChildren(find);
  expect(numbers(jobs).slice(0, 9)).toEqual([49, 99, 149, 199, 249, 299, 0, 1, 2]);
  expect([jobs.length, more, calls.length]).toEqual([100, true, 3]);
  const all = finder(states(10_000).map((): JobState => "failed"));
  expect([(await readChildren(all.find)).jobs.length, all.calls.length]).toEqual([100, 2]);
});

it("continue after a short page", async () => {
  const { find, calls } = finder(states(60), 25);
  expect([numbers((await readChildren(find)).jobs).length, calls.length]).toEqual([60, 3]);
});
