/** Runs of playbooks: stored, advanced, read, ended and pruned. Messages are in `inbox.ts`, races in `advance-races.ts`. */
import { expect, test } from "vitest";
import { failure } from "../../core/decision/failure.ts";
import { RUN_KIND } from "../../core/playbook/playbook.ts";
import type { PruneQuery } from "../store.ts";
import type { Bench } from "./bench.ts";
import { broke, DAY, done, MINUTE, newJob, reportOf, SECOND, T0, usageOf } from "./kit.ts";
import { DEFINITION, newRun, newStepJob, RunBench, saveDefinition, writeOf } from "./run-kit.ts";

const FAILED = { state: "failed", reason: "step" } as const;

export function runTests(bench: Bench): void {
  const run = new RunBench(bench);
  const left = async (parts = {}) => (await bench.store.find({ order: "oldest", ...parts })).jobs.map((job) => job.id);

  /** Claims all that is due, and ends it. */
  async function work(now = T0, outcome = done()): Promise<string[]> {
    const session = await bench.open({ slots: 999 }, now);
    const jobs = await bench.claim(session, 999, now);
    await bench.settle(
      jobs.map((job) => reportOf(job, outcome)),
      now,
    );
    return jobs.map(({ id }) => id);
  }

  test("a new run is blocked, due by its start, and claimed by nobody", async () => {
    const id = await run.submit({ of: { data: '{"inputs":{"a":1},"workload":null}', pins: { "a/b": DEFINITION } } });
    expect(await bench.row(id)).toMatchObject({ state: "blocked", kind: RUN_KIND, runId: null, parentId: null });
    expect(await run.row(id)).toEqual({
      ...{ id, namespace: "default", playbook: DEFINITION, pins: { "a/b": DEFINITION } },
      ...{ phase: "forward", open: 0, made: 0, state: newRun().run?.progress.state },
      ...{ data: '{"inputs":{"a":1},"workload":null}', deadlineAt: null, result: null, failure: null, origin: null },
    });
    const session = await bench.open({ kinds: [RUN_KIND, "work"] });
    expect(await bench.claim(session, 9, T0 + DAY)).toEqual([]);
    expect(await run.due()).toEqual([id]);
    const loaded = await run.load(id);
    expect(loaded).toMatchObject({
      messages: [{ kind: "start", ref: null, at: T0, body: null }],
      timers: [],
      steps: [],
    });
    expect(loaded.job).toEqual((await bench.store.facts([id]))[0]);
    expect(await bench.store.children.unblockable({ parents: null, limit: 9 })).toMatchObject({ jobs: [] });
  });

  test("a run of a definition that is not stored is refused, and its neighbours are stored", async () => {
    await saveDefinition(bench.store);
    const bad = newRun({ of: { playbook: "nothing" } });
    const pinned = newRun({ of: { pins: { a: "nothing" } } });
    const answers = await bench.store.insert([bad, newRun(), pinned, newJob()], T0);
    expect(answers.map(({ status }) => status)).toEqual(["refused", "inserted", "refused", "inserted"]);
    expect(await bench.store.jobs([bad.id, pinned.id])).toEqual([null, null]);
  });

  test("nothing is loaded of other jobs, and of runs where nothing is due", async () => {
    const { id } = await run.started();
    const plain = await bench.submit();
    expect(await run.runs.load([id, plain, "job_nobody"], T0)).toEqual([null, null, null]);
    expect([await run.runs.row(plain), await run.runs.row("job_nobody")]).toEqual([null, null]);
    expect(await run.due()).toEqual([]);
  });

  test("what the caller knows of a run is used at its revision only", async () => {
    const { id } = await run.started([{}]);
    await bench.amend(id, { kind: "cancel" });
    const loaded = await run.load(id);
    const known = (_: string, revision: number) => (revision === loaded.job.revision ? loaded : undefined);
    expect(await run.runs.load([id], T0, known)).toEqual([loaded]);
    await run.advance(id, { send: ["continue"] });
    const [after] = await run.runs.load([id], T0, known);
    expect(after?.job.revision).toBe(loaded.job.revision + 1);
    expect(after?.messages).toMatchObject([{ kind: "continue" }]);
  });

  test("an advance writes its steps, their jobs and what else it decided, and deletes what it read", async () => {
    const id = await run.submit({ retry: { budget: { tokens: 100 } } });
    const loaded = await run.load(id);
    const step = newStepJob(id, { name: "run / a", tags: ["t"], payload: '{"x":1}', annotations: '{"k":"v"}' });
    await run.write(
      loaded,
      {
        start: [
          { job: step, tokens: [[0, 0, 0]] },
          { node: "w", job: null, state: "waiting", due: T0 + MINUTE, tokens: [[1, 2, 0]] },
          { node: "l", job: null, state: "looping", items: "[1,2]" },
          { node: "r", job: null, state: "succeeded", result: '{"ok":true}', endedAt: T0 + 1, visit: 3, try: 2 },
        ],
        variables: { page: "2", "a.b": '"x"' },
        timers: { set: [{ n: 2, dueAt: T0 + MINUTE }] },
        data: '{"inputs":{},"workload":{"city":"Oslo"}}',
        pins: { sub: DEFINITION },
        deadlineAt: T0 + DAY,
      },
      T0 + 1,
    );
    const base = { visit: 1, item: -1, try: 1, at: T0 + 1, endedAt: null, due: null, job: null, tokens: [] };
    expect(await run.runs.steps({ run: id, after: 0, limit: 9 })).toEqual([
      { ...base, n: 1, node: "a", state: "open", job: step.id, tokens: [[0, 0, 0]] },
      { ...base, n: 2, node: "w", state: "waiting", due: T0 + MINUTE, tokens: [[1, 2, 0]] },
      { ...base, n: 3, node: "l", state: "looping" },
      { ...base, n: 4, node: "r", state: "succeeded", visit: 3, try: 2, endedAt: T0 + 1 },
    ]);
    expect(await run.row(id)).toMatchObject({
      ...{ phase: "forward", open: 3, made: 4, deadlineAt: T0 + DAY, pins: { sub: DEFINITION } },
      data: '{"inputs":{},"workload":{"city":"Oslo"}}',
    });
    expect(await run.runs.variables(id)).toEqual({ page: "2", "a.b": '"x"' });
    expect([await run.runs.list(id, 3), await run.runs.list(id, 1)]).toEqual(["[1,2]", null]);
    expect(await bench.names(id)).toEqual(["job.submitted", "run.advanced"]);
    expect(await run.due(T0 + 1)).toEqual([]);
    const job = await bench.row(step.id);
    expect(job).toMatchObject({
      ...{ parentId: id, runId: id, depth: 1, state: "queued", name: "run / a", tags: ["t"], payload: '{"x":1}' },
      ...{ annotations: { k: "v" }, budgets: [{ jobId: id }] },
    });
    const [claimed] = await bench.claim(await bench.open(), 9, T0 + 1);
    expect(claimed).toMatchObject({ id: step.id, payload: '{"x":1}' });
    await bench.report(claimed as NonNullable<typeof claimed>, done('"r"'), T0 + 2);
    const after = await run.load(id, T0 + 2);
    expect(after.steps.map(({ n }) => n)).toEqual([1]);
    expect(after.ends).toEqual({ [step.id]: { state: "succeeded", reason: null, failure: null } });
    // A value that is set again replaces the earlier one.
    await run.write(after, { end: [{ n: 1 }], variables: { page: "3" } }, T0 + 2);
    expect(await run.runs.variables(id)).toEqual({ page: "3", "a.b": '"x"' });
  });

  test("a run that has moved on is not written, and neither is anything of its write", async () => {
    const id = await run.submit();
    const loaded = await run.load(id);
    await bench.amend(id, { kind: "cancel" });
    const late = newStepJob(id);
    const parts = { start: [{ job: late }], variables: { a: "1" }, timers: { set: [{ n: 1, dueAt: T0 }] } };
    expect(await run.write(loaded, parts)).toEqual({ status: "moved" });
    expect(await run.write({ ...loaded, run: { ...loaded.run, id: "job_nobody" } })).toEqual({ status: "moved" });
    expect(await bench.store.jobs([late.id])).toEqual([null]);
    expect(await run.messages(id)).toEqual(["start", "cancel"]);
    expect([await run.runs.variables(id), (await run.row(id)).made]).toEqual([{}, 0]);
    // Of two writes in one call, the first counts.
    const [a, b] = [await run.load(id), await run.submit({ at: T0 })];
    const other = await run.load(b);
    const writes = [
      writeOf(a, { start: [{}] }),
      writeOf(a, { start: [{ node: "b" }] }),
      writeOf(other, { start: [{}] }),
    ];
    const answers = await run.runs.advance(writes, T0);
    expect(answers.map(({ status }) => status)).toEqual(["written", "moved", "written"]);
    expect(await run.runs.steps({ run: id, after: 0, limit: 9 })).toMatchObject([{ node: "a" }]);
  });

  test("many advances that start many steps are written, in the order of the list", async () => {
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) ids.push(await run.submit());
    const loaded = (await run.runs.load(ids, T0)).flatMap((one) => one ?? []);
    const start = Array.from({ length: 400 }, (_, item) => ({ node: "l", item }));
    const writes = loaded.map((one, i) => writeOf(one, { start: start.slice(0, 400 - i) }));
    const answers = await run.runs.advance([...writes, ...writes.slice(0, 1)], T0);
    expect(answers.map(({ status }) => status)).toEqual([...ids.map(() => "written"), "moved"]);
    for (const [i, id] of ids.entries()) expect((await run.row(id)).made).toBe(400 - i);
  });

  test("a bad write is refused as a whole, beside others", async () => {
    const { id } = await run.started([{}]);
    await work();
    const bad = writeOf(await run.load(id), { start: [{ job: { at: T0 } }] });
    const twice = { ...bad, made: bad.made.map((one) => ({ ...one, row: { ...one.row, n: 1 } })) };
    const other = await run.submit();
    const good = run.runs.advance([writeOf(await run.load(other), { start: [{}] })], T0);
    await expect(run.runs.advance([twice], T0)).rejects.toThrow();
    expect(await good).toEqual([{ status: "written" }]);
    expect(await bench.store.jobs([bad.jobs[0]?.id as string])).toEqual([null]);
    expect(await run.messages(id)).toHaveLength(1);
    await run.advance(id, { end: [{ n: 1 }], finish: { state: "succeeded" } });
  });

  test("steps are claimed with their run and parent, and those of one run after a cancel of it too", async () => {
    const { id } = await run.started([{}]);
    await work();
    await bench.amend(id, { kind: "cancel" });
    await run.advance(id, { end: [{ n: 1 }], start: [{ node: "cleanup" }], phase: "finally" });
    expect(await bench.insert([{ parent: { id, attempt: null }, depth: 1 }])).toMatchObject([{ code: "parent_ended" }]);
    expect(await work()).toHaveLength(1);
    await run.advance(id, { end: [{ n: 2 }], finish: { state: "cancelled" } });
    expect(await bench.row(id)).toMatchObject({ state: "cancelled", finishedAt: T0 });
  });

  test("timers are due in their order, once, and none of a run that has ended", async () => {
    const { id } = await run.started([{ job: null, state: "waiting", due: T0 + MINUTE }]);
    const other = await run.submit();
    await run.advance(other, { start: [{}], timers: { set: [{ n: 0, dueAt: T0 + 2 * MINUTE }] } });
    const first = await run.load(other, T0 + DAY);
    expect(first).toMatchObject({ messages: [], timers: [{ n: 0, dueAt: T0 + 2 * MINUTE }] });
    const start = {
      timers: {
        set: [
          { n: 1, dueAt: T0 + MINUTE },
          { n: 2, dueAt: T0 + 3 * MINUTE },
        ],
      },
    };
    await run.write({ ...(await run.load(other, T0 + DAY)), timers: [] }, {});
    const waiting = await run.runs.due({ now: T0, limit: 9 });
    expect(waiting).toEqual({ runs: [], nextAt: T0 + 2 * MINUTE });
    await bench.amend(id, { kind: "cancel" }); // to have something to read
    await run.advance(id, start, T0 + 1);
    expect(await run.runs.due({ now: T0 + MINUTE, limit: 9 })).toEqual({ runs: [id], nextAt: T0 + 2 * MINUTE });
    expect((await run.runs.due({ now: T0 + DAY, limit: 9 })).runs).toEqual([id, other]);
    expect((await run.runs.due({ now: T0 + DAY, limit: 1 })).runs).toEqual([id]);
    const due = await run.load(id, T0 + MINUTE);
    expect(due).toMatchObject({ timers: [{ n: 1, dueAt: T0 + MINUTE }], steps: [{ n: 1, node: "a" }] });
    await run.write(due, { end: [{ n: 1, result: "null" }] }, T0 + MINUTE);
    expect(await run.due(T0 + MINUTE)).toEqual([]);
    await run.advance(id, { finish: { state: "cancelled" }, timers: { set: [], drop: [] } }, T0 + 5 * MINUTE);
    expect(await run.runs.due({ now: T0 + MINUTE, limit: 9 })).toEqual({ runs: [], nextAt: T0 + 2 * MINUTE });
  });

  test("messages come before timers that are due later, the longest due first", async () => {
    const a = await run.submit({ at: T0 });
    const b = await run.submit({ at: T0 });
    await run.advance(b, { start: [{}], timers: { set: [{ n: 0, dueAt: T0 + SECOND }] } });
    const c = await run.submit({ at: T0 + MINUTE });
    expect(await run.due(T0 + DAY)).toEqual([a, b, c]);
    expect(await run.due(T0 + DAY, 2)).toEqual([a, b]);
    // Messages that were written just now are left to the engine that wrote them; timers are not.
    const query = { now: T0 + DAY, limit: 9, writtenBefore: T0 + MINUTE };
    expect((await run.runs.due(query)).runs).toEqual([a, b]);
    expect((await run.runs.due({ ...query, writtenBefore: T0 })).runs).toEqual([b]);
    // Of a message from the time to come, nobody knows how young it is: the clock was set back.
    expect((await run.runs.due({ now: T0 + 30 * SECOND, limit: 9, writtenBefore: T0 })).runs).toContain(c);
  });

  test("the result and the failure of a run are its own", async () => {
    const good = await run.started([{}]);
    const bad = await run.started([{}]);
    await work();
    const shown = failure({ kind: "error", message: "no" });
    await run.advance(good.id, { end: [{ n: 1 }], finish: { state: "succeeded" }, result: '{"total":3}' });
    await run.advance(bad.id, { end: [{ n: 1 }], finish: FAILED, failure: shown, result: null }, T0 + 1);
    expect(await bench.row(good.id)).toMatchObject({ state: "succeeded", result: '{"total":3}', failure: null });
    expect(await bench.row(bad.id)).toMatchObject({ ...FAILED, result: null, failure: { message: "no" } });
    expect(await run.row(good.id)).toMatchObject({ phase: "ended", result: '{"total":3}' });
    expect(await bench.store.ended([good.id, bad.id])).toEqual([good.id, bad.id]);
    expect(await bench.names(bad.id)).toEqual(["job.submitted", "run.advanced", "run.advanced", "run.ended"]);
  });

  test("outputs are those of the jobs, of runs below, or of the step itself", async () => {
    const id = await run.submit();
    const below = newRun({ parent: { id, attempt: null }, depth: 1, runId: id });
    const free = newRun();
    await run.advance(id, {
      start: [
        { node: "ok", job: { kind: "good" } },
        { node: "bad", job: { kind: "bad" } },
        { node: "none", job: null, state: "succeeded", result: "[1]", endedAt: T0 },
        { node: "sub", job: below },
        { node: "free", job: free, state: "succeeded", result: '"id"', endedAt: T0 },
        { node: "off" },
      ],
    });
    await run.advance(below.id, { finish: { state: "succeeded" }, result: '"of the run"' });
    await run.advance(free.id, { finish: { state: "succeeded" }, result: '"its own"' });
    const session = await bench.open({ kinds: ["good", "bad"] });
    for (const job of await bench.claim(session, 9)) {
      await bench.report(job, job.kind === "good" ? done('{"r":1}') : broke("it broke"), T0 + 1);
    }
    const [off] = (await run.runs.openJobs(id, 9)).slice(-1);
    await bench.amend(off as string, { kind: "cancel" });
    const loaded = await run.load(id);
    expect(
      Object.values(loaded.ends)
        .map(({ state }) => state)
        .sort(),
    ).toEqual(["cancelled", "failed", "succeeded", "succeeded"].sort());
    // What the advance that ends them reads: their rows are still open.
    expect(await run.runs.outputs(id, [1, 2])).toMatchObject([
      { step: { state: "open" }, result: '{"r":1}', failure: null },
      { step: { state: "open" }, result: null, failure: { message: "it broke" } },
    ]);
    const states = { 1: "succeeded", 2: "handled", 4: "succeeded", 6: "cancelled" } as const;
    await run.write(loaded, { end: Object.entries(states).map(([n, state]) => ({ n: Number(n), state })) });
    const outputs = await run.runs.outputs(id, [1, 2, 3, 4, 5, 6, 7]);
    expect(outputs.map(({ step, result, attempt }) => [step.node, step.state, result, attempt])).toEqual([
      ["ok", "succeeded", '{"r":1}', 1],
      ["bad", "handled", null, 1],
      ["none", "succeeded", "[1]", 0],
      ["sub", "succeeded", '"of the run"', 0],
      ["free", "succeeded", '"id"', 0],
      ["off", "cancelled", null, 0],
    ]);
    expect(outputs.map(({ failure }) => failure?.message ?? null)).toEqual([null, "it broke", null, null, null, null]);
    await bench.amend(id, { kind: "cancel" });
    await run.advance(id, { finish: { state: "cancelled" } });
    // What it started and does not wait for goes its own way.
    expect(await bench.row(free.id)).toMatchObject({ parentId: null, runId: null });
  });

  test("items of a loop are read in the order of its list, each by its latest try", async () => {
    const id = await run.submit();
    const loop = { node: "l", job: null, state: "looping", items: "[0,1,2]" } as const;
    const item = (index: number, nth = 1) => ({ node: "l", item: index, try: nth, job: {} });
    await run.advance(id, { start: [loop, item(1), item(0), item(2), { node: "x" }] });
    await work(T0, done('"0123456789"'));
    const loaded = await run.load(id);
    // The row of the loop comes with those of its items.
    expect(loaded.steps.map(({ n }) => n)).toEqual([1, 2, 3, 4, 5]);
    await run.write(loaded, {
      end: [{ n: 2, state: "failed" }, { n: 3 }, { n: 4 }, { n: 5 }],
      start: [item(1, 2)],
      variables: {},
    });
    await work(T0, done('"again"'));
    await run.advance(id, { end: [{ n: 6 }, { n: 1 }], finish: { state: "succeeded" } });
    const items = await run.runs.items(id, 1, 1_000);
    expect(items?.map(({ step, result }) => [step.item, step.try, result])).toEqual([
      [0, 1, '"0123456789"'],
      [1, 2, '"again"'],
      [2, 1, '"0123456789"'],
    ]);
    expect(await run.runs.items(id, 1, 20)).toBeNull();
    expect(await run.runs.items(id, 5, 1_000)).toEqual([]);
  });

  test("a page of steps has those that match, in their order", async () => {
    const item = (n: number) => ({ node: "l", item: n });
    const { id, jobs } = await run.started([
      {},
      { node: "l", job: null, state: "looping" },
      item(0),
      item(1),
      { node: "b" },
    ]);
    const page = async (parts = {}) =>
      (await run.runs.steps({ run: id, after: 0, limit: 9, ...parts })).map(({ n }) => n);
    expect(await page()).toEqual([1, 2, 3, 4, 5]);
    expect(await page({ after: 2, limit: 2 })).toEqual([3, 4]);
    expect(await page({ node: "l" })).toEqual([2, 3, 4]);
    expect(await page({ node: "l", items: false })).toEqual([2]);
    expect(await page({ states: ["looping", "succeeded"] })).toEqual([2]);
    expect(await page({ states: [] })).toEqual([]);
    expect(await run.runs.steps({ run: "job_nobody", after: 0, limit: 9 })).toEqual([]);
    expect(await run.runs.openJobs(id, 9)).toEqual(jobs);
    expect(await run.runs.openJobs(id, 2)).toEqual(jobs.slice(0, 2));
    expect(await run.runs.openJobs(id, 9, 4)).toEqual(jobs.slice(0, 3));
    await bench.amend(jobs[0] as string, { kind: "cancel" });
    expect(await run.runs.openJobs(id, 9)).toEqual(jobs.slice(1));
    const job = await bench.take(await bench.open());
    await bench.amend(job.id, { kind: "cancel" });
    expect(await run.runs.openJobs(id, 9)).toEqual(jobs.filter((one) => one !== jobs[0] && one !== job.id));
  });

  test("steps are left out of searches and of dead letters, unless they are asked for", async () => {
    const { id, jobs } = await run.started([{ job: { kind: "bad" } }, { node: "b" }]);
    const alone = await bench.submit({ kind: "bad" });
    const session = await bench.open({ kinds: ["bad"] });
    for (const job of await bench.claim(session, 9)) await bench.report(job, broke());
    expect(await left()).toEqual([id, alone]);
    expect(await left({ deadLetter: true })).toEqual([alone]);
    expect(await left({ deadLetter: true, steps: true })).toEqual([jobs[0], alone]);
    expect(await left({ steps: true })).toEqual([id, ...jobs, alone]);
    expect(await left({ steps: false })).toEqual([id, alone]);
    expect(await left({ parentId: id })).toEqual(jobs);
    expect(await left({ idPrefix: jobs[0] as string })).toEqual([jobs[0]]);
    expect(await bench.amend(jobs[0] as string, { kind: "redrive" })).toMatchObject({ status: "refused_command" });
  });

  test("usage of steps is spent from the budget of their run", async () => {
    const { id } = await run.started([{}, { node: "b" }], { retry: { budget: { tokens: 100 } } });
    const session = await bench.open();
    const [a, b] = await bench.claim(session, 2);
    await bench.report(a as NonNullable<typeof a>, done(), T0, { usage: usageOf(40) });
    expect((await bench.row(id)).budgets).toMatchObject([{ jobId: id, spent: { tokens: 40 } }]);
    await bench.report(b as NonNullable<typeof b>, done(), T0, { usage: usageOf(30) });
    expect((await bench.row(id)).budgets).toMatchObject([{ spent: { tokens: 70 } }]);
    await run.advance(id, { end: [{ n: 1 }, { n: 2 }], finish: { state: "succeeded" } });
  });

  const prune = (endedBefore: PruneQuery["endedBefore"], parts: Partial<PruneQuery> = {}) =>
    bench.store.prune({ now: T0 + DAY, keyWindowMs: DAY, sessionsEndedBefore: 0, limit: 100, endedBefore, ...parts });

  test("the steps of a run stay as long as the run does, whatever their own end was", async () => {
    const { id, jobs } = await run.started([{}, { node: "b" }]);
    await work(T0 + 1);
    await run.advance(id, { end: [{ n: 1 }, { n: 2 }], finish: FAILED }, T0 + 2);
    const day8 = { now: T0 + 8 * DAY, limit: 100 };
    expect(await prune({ succeeded: T0 + DAY, failed: T0 - 82 * DAY }, day8)).toMatchObject({ jobs: 0, more: false });
    expect(await left({ steps: true })).toEqual([id, ...jobs]);
    expect(await bench.amend(id, { kind: "redrive" }, T0 + 8 * DAY)).toMatchObject({ status: "applied" });
    await run.advance(id, { start: [{ try: 2 }] }, T0 + 8 * DAY);
    expect((await run.runs.outputs(id, [1]))[0]).toMatchObject({ result: '"done"' });
  });

  test("a pruned run leaves nothing, however many steps it has, and other runs keep theirs", async () => {
    const id = await run.submit();
    const below = newRun({ parent: { id, attempt: null }, depth: 1, runId: id });
    const steps = Array.from({ length: 30 }, (_, i) => ({ node: `s${i}` }));
    const free = newRun();
    await run.advance(id, {
      start: [{ job: below, node: "sub" }, ...steps, { node: "free", job: free, state: "succeeded", endedAt: T0 }],
      variables: { a: "1" },
    });
    await run.advance(below.id, { start: [{}, { node: "b" }] });
    await run.advance(free.id, { start: [{}] });
    await work();
    await run.advance(below.id, { end: [{ n: 1 }, { n: 2 }], finish: { state: "succeeded" } });
    const ends = [1, ...steps.map((_, i) => i + 2)].map((n) => ({ n }));
    await run.advance(id, { end: ends, finish: { state: "succeeded" } }, T0 + 1);
    const kept = await left({ parentId: free.id });
    const counts: number[] = [];
    const ids: string[] = [];
    for (let more = true; more; ) {
      const answer = await prune({ succeeded: T0 + DAY }, { limit: 10 });
      expect(answer.ids).toHaveLength(answer.jobs);
      expect(answer.jobs).toBeLessThanOrEqual(10);
      counts.push(answer.jobs);
      ids.push(...answer.ids);
      more = answer.more;
      // It is gone at once for everyone.
      expect([await run.runs.row(id), await bench.store.history(id)]).toEqual([null, null]);
      expect(await bench.amend(id, { kind: "redrive" }, T0 + DAY)).toEqual({ status: "unknown_job" });
    }
    expect(new Set(ids).size).toBe(1 + 1 + 2 + 30);
    expect(await left({ steps: true })).toEqual([free.id, ...kept]);
    expect(await run.runs.steps({ run: id, after: 0, limit: 9 })).toEqual([]);
    expect((await prune({ succeeded: T0 + DAY })).jobs).toBe(0);
    await run.advance(free.id, { end: [{ n: 1 }], finish: { state: "succeeded" } }, T0 + 2);
  });

  test("definitions are stored once, with their assets, until nothing names them", async () => {
    const { runs } = run;
    const asset = { hash: "asset-1", body: new Uint8Array([0, 255, 10]) };
    const shared = { hash: "asset-2", body: new Uint8Array() };
    const a = { hash: "a", body: '{"code":"asset-1","more":"asset-2"}' };
    const b = { hash: "b", body: '{"code":"asset-2"}' };
    await runs.savePlaybooks([a, b], [asset, shared], T0);
    await runs.savePlaybooks([a], [asset], T0 + 1);
    expect(await runs.playbooks(["b", "x", "a"])).toEqual([b.body, null, a.body]);
    expect(new Uint8Array((await runs.asset("asset-1")) as Uint8Array)).toEqual(asset.body);
    expect(await runs.asset("x")).toBeNull();
    await runs.savePlaybooks(
      [
        { hash: "c", body: "{}" },
        { hash: "d", body: "{}" },
      ],
      [],
      T0,
    );
    await runs.push({ namespace: "default", path: "p", playbook: "b", source: "s", at: T0, by: null });
    const later = T0 + 9 * DAY;
    const id = await run.submit({ of: { playbook: "c", pins: { sub: "d" } }, at: T0 + DAY });
    const sweep = async (at = later) => {
      for (let i = 0; i < 3; i++) await prune({}, { now: at, namesUnusedBefore: at - DAY });
    };
    await sweep();
    expect(await runs.playbooks(["a", "b", "c", "d", DEFINITION])).toEqual([null, b.body, "{}", "{}", null]);
    expect([await runs.asset("asset-1"), await runs.asset("asset-2")]).toEqual([null, expect.anything()]);
    await runs.remove("default", "p", null);
    await run.advance(id, { finish: { state: "succeeded" } }, later);
    await prune({ succeeded: later + 1 }, { now: later });
    await sweep();
    expect(await runs.playbooks(["b", "c", "d"])).toEqual([null, null, null]);
    expect(await runs.asset("asset-2")).toBeNull();
    // A process that knew it stores it again.
    await runs.savePlaybooks([b], [], later);
    expect(await runs.playbooks(["b"])).toEqual([b.body]);
    expect(await bench.store.insert([newRun({ of: { playbook: "c" } })], later)).toMatchObject([{ status: "refused" }]);
  });

  test("the catalog counts versions by path", async () => {
    const { runs } = run;
    await runs.savePlaybooks(
      [
        { hash: "a", body: "{}" },
        { hash: "b", body: "[]" },
      ],
      [],
      T0,
    );
    const entry = { namespace: "default", path: "shop/orders", playbook: "a", source: "one", at: T0, by: "ada" };
    const first = { ...entry, version: 1 };
    expect(await runs.push(entry)).toEqual(first);
    // The same source is not a new version; an older one is.
    expect(await runs.push({ ...entry, at: T0 + 1, by: null })).toEqual(first);
    const second = { ...entry, source: "two", playbook: "b", by: null, version: 2 };
    expect(await runs.push({ ...entry, source: "two", playbook: "b", by: null })).toEqual(second);
    expect(await runs.push({ ...entry, at: T0 + 2 })).toMatchObject({ version: 3, source: "one" });
    await runs.push({ ...entry, path: "a" });
    await runs.push({ ...entry, path: "z" });
    await runs.push({ ...entry, namespace: "other" });
    const paths = async (after: string | null, limit = 9) =>
      (await runs.catalog({ namespace: "default", after, limit })).map(({ path, version }) => `${path}@${version}`);
    expect(await paths(null)).toEqual(["a@1", "shop/orders@3", "z@1"]);
    expect(await paths("a", 1)).toEqual(["shop/orders@3"]);
    const find = (version: number | null) => runs.catalogEntry("default", "shop/orders", version);
    expect([await find(1), await find(2), await find(9)]).toEqual([first, second, null]);
    expect(await find(null)).toMatchObject({ version: 3 });
    expect((await runs.versions("default", "shop/orders")).map(({ version }) => version)).toEqual([1, 2, 3]);
    await expect(runs.push({ ...entry, playbook: "nothing", source: "x" })).rejects.toThrow(/nothing/);
    expect(await runs.remove("default", "shop/orders", 3)).toBe(1);
    expect(await find(null)).toMatchObject({ version: 2 });
    expect(await runs.remove("default", "shop/orders", null)).toBe(2);
    expect(await runs.versions("default", "shop/orders")).toEqual([]);
    expect(await runs.versions("other", "shop/orders")).toHaveLength(1);
  });
}
