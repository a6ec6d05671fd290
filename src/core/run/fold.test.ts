import { expect, it } from "vitest";
import { EVENT_FORMAT } from "../job/event.ts";
import { testGraph } from "../playbook/testing-playbook.ts";
import { applyChange, foldRun } from "./fold.ts";
import { runTroubles } from "./invariants.ts";
import type { RunChange, RunProgress, StepRow } from "./run.ts";
import { newRunProgress } from "./start.ts";

const playbook = testGraph([[1, 2], [2], []]);

function fold(...changes: readonly RunChange[]): RunProgress {
  return changes.reduce(applyChange, newRunProgress());
}

const ARRIVE: RunChange = { do: "arrive", to: 0, by: [0, -1, -1] };
const FIRST: RunChange = { do: "start", n: 1, step: 0, visit: 1, job: "job_1" };
const ENDED: RunChange = { do: "end", n: 1, step: 0, visit: 1, state: "succeeded" };
const ROUTED: RunChange = { do: "route", n: 1, step: 0, taken: [0, 1], to: [1, 2] };

it("counts what is open, and keeps arrivals until a step starts with them", () => {
  const progress = fold(ARRIVE, FIRST, ENDED, ROUTED, { do: "start", n: 2, step: 1, visit: 1, job: "job_2" });
  expect(progress).toMatchObject({ phase: "forward", open: 1, made: 2 });
  expect(progress.state).toMatchObject({
    visits: { 0: 1, 1: 1 },
    alive: { 1: 1 },
    latest: { 0: 1 },
    pending: { 2: [[1, 1, 0]] },
    last: 1,
  });
});

it("never changes the progress that it is given", () => {
  const changes: RunChange[] = [
    ARRIVE,
    { ...FIRST, job: undefined as never, items: 2 },
    { do: "start", n: 2, step: 0, visit: 1, item: 0, job: "job_2" },
    { do: "end", n: 2, step: 0, visit: 1, item: 0, state: "failed" },
    { do: "stopLoop", step: 0, visit: 1 },
    { do: "end", n: 1, step: 0, visit: 1, state: "failed" },
    { do: "resume" },
    { do: "reloop", n: 1, step: 0, visit: 1, items: [0], try: 2 },
    { do: "start", n: 3, step: 0, visit: 1, item: 0, try: 2, job: "job_3" },
  ];
  let progress = newRunProgress();
  for (const change of changes) {
    const before = JSON.stringify(progress);
    const next = applyChange(progress, change);
    expect(JSON.stringify(progress)).toBe(before);
    progress = next;
  }
  expect(progress.state.loops["0:1"]).toMatchObject({ next: 1, again: [], open: 1, failed: [], stopped: false });
  expect(progress.state).toMatchObject({ broken: [], alive: { 0: 1 }, extra: 1 });
});

it("repeats visits with another try, and forgets what a step can reach", () => {
  const done = fold(ARRIVE, FIRST, ENDED, ROUTED);
  const forgotten = [{ do: "forget", steps: [0, 1, 2], rows: [], try: 2 } as const].reduce(applyChange, done);
  expect(forgotten.state).toMatchObject({ visits: { 0: 0 }, latest: {}, pending: {}, tries: { 0: [2, 1] } });
});

it("moves what it counts by index to another definition", () => {
  const moved = applyChange(fold(ARRIVE, FIRST, ENDED, ROUTED), {
    do: "remap",
    names: ["s0", "s1", "s2"],
    to: [2, -1, 0],
  });
  expect(moved.state).toMatchObject({ visits: { 2: 1 }, latest: { 2: 1 }, pending: { 0: [[1, -1, 2]] } });
});

it("rebuilds the rows of the steps, by the names of the definition at that time", () => {
  const advanced = (at: number, ...changes: readonly RunChange[]) =>
    ({ name: "run.advanced", at, data: { v: EVENT_FORMAT, messages: 1, changes } }) as const;
  const { progress, steps } = foldRun(
    [
      advanced(10, ARRIVE, FIRST),
      advanced(20, ENDED, ROUTED, { do: "start", n: 2, step: 1, visit: 1, due: 99 }),
      advanced(30, { do: "remap", names: ["a", "b", "c"], to: [0, 1, 2] }),
    ],
    playbook,
  );
  const first: StepRow = {
    ...{ n: 1, node: "a", visit: 1, item: -1, try: 1, state: "succeeded", job: "job_1", due: null },
    ...{ tokens: [[0, -1, -1]], at: 10, endedAt: 20 },
  };
  expect(steps).toEqual([
    first,
    { ...first, n: 2, node: "b", state: "waiting", job: null, due: 99, tokens: [[1, 0, 0]], at: 20, endedAt: null },
  ]);
  expect(progress).toMatchObject({ open: 1, made: 2, state: { waits: 1 } });
});

it("finds what is wrong in a run", () => {
  const row: StepRow = {
    ...{ n: 1, node: "s0", visit: 1, item: -1, try: 1, state: "open", job: "job_1", due: null },
    ...{ tokens: [], at: 0, endedAt: null },
  };
  const progress = fold(ARRIVE, FIRST);
  const run = {
    ...progress,
    ...{ id: "job_0", namespace: "default", playbook: "", pins: {}, data: "", deadlineAt: null },
    ...{ result: null, failure: null, origin: null },
  };
  const whole = {
    run,
    job: { id: "job_0", state: "blocked" },
    steps: [row],
    unread: [],
    timers: [],
    playbook,
  } as const;
  expect(runTroubles(whole)).toEqual([]);
  expect(runTroubles({ ...whole, jobs: new Map([["job_1", "succeeded"]]) })).toEqual([
    "job_0: the job job_1 of row 1 is succeeded, without a message",
  ]);
  expect(runTroubles({ ...whole, steps: [row, row] })).toContain("job_0: two rows of s0 visit 1 item -1 try 1");
  expect(runTroubles({ ...whole, run: { ...run, phase: "ended" } })).toContain(
    "job_0: it has ended, and row 1 has not",
  );
  const idle = { ...run, ...fold(ARRIVE, FIRST, ENDED) };
  expect(runTroubles({ ...whole, run: idle, steps: [{ ...row, state: "succeeded", endedAt: 1 }] })).toEqual([
    "job_0: it is live, and waits for nothing",
  ]);
  expect(runTroubles({ ...whole, events: [], run })[0]).toContain("its events give");
});
