/** The SQL views of NoETL's tables have the rows that `--view noetl` shows, one for one, with the columns of NoETL's own tables. */
import { randomUUID } from "node:crypto";
import { expect, it, onTestFinished } from "vitest";
import type { JobEvent } from "../../src/core/job/event.ts";
import { type NoetlEvent, noetlEvents } from "../../src/dialects/noetl/events.ts";
import { noetlRunEvents } from "../../src/dialects/noetl/run-events.ts";
import { NOETL_SQL } from "../../src/dialects/noetl/sql.ts";
import { noetlQueueRow } from "../../src/dialects/noetl/view.ts";
import { readParts, readRunView } from "../../src/dialects/read-view.ts";
import { Perdure, task } from "../../src/index.ts";
import { systemClock } from "../../src/lib/system-clock.ts";
import { changeViews } from "../../src/store/open.ts";
import { all } from "../kit.ts";
import { borrowSchema } from "../postgres/borrowed.ts";
import { ask } from "../postgres/client.ts";
import { eventsInSql, queueInSql } from "./noetl-sql-kit.ts";

/** Of the DDL at NoETL's commit 6ef5895e, and of the document's changes to the queue. */
const COLUMNS = {
  workload: ["execution_id", "created_at", "data"],
  queue: [
    ...["queue_id", "execution_id", "catalog_id", "node_id", "action", "context", "status", "priority", "attempts"],
    ...["max_attempts", "available_at", "lease_until", "worker_id", "last_heartbeat", "created_at", "updated_at"],
    ...["parent_execution_id", "parent_event_id", "event_id", "node_name", "node_type", "meta"],
    ...["retry_config", "last_error", "retry_delay_seconds"],
  ],
  event: [
    ...["execution_id", "catalog_id", "event_id", "parent_event_id", "parent_execution_id", "created_at", "event_type"],
    ...["node_id", "node_name", "node_type", "status", "duration", "context", "result", "meta", "error"],
    ...["current_index", "current_item", "worker_id", "distributed_state", "context_key", "context_value"],
    ...["trace_component", "stack_trace"],
  ],
};

const REPEAT = { maxAttempts: 3, backoff: { type: "fixed", delay: "10ms" }, retryWhen: "error != None" };

interface Stage {
  readonly perdure: Perdure;
  readonly url: string;
  readonly schema: string;
  /** The schema of the views: of this test alone. */
  readonly into: string;
}

async function stage(): Promise<Stage> {
  const schema = borrowSchema();
  const perdure = await Perdure.open({ url: schema.url });
  const into = `noetl_${randomUUID().slice(0, 8)}`;
  const options = { url: schema.url, clock: systemClock, random: Math.random, into, views: NOETL_SQL.views };
  await changeViews({ ...options, statements: NOETL_SQL.statements });
  onTestFinished(async () => {
    await perdure.close();
    await changeViews({ ...options, statements: null });
    await schema.giveBack();
  });
  return { perdure, url: schema.url, schema: schema.schema, into };
}

const rowsOf = (from: Stage, id: string) => eventsInSql(from, id);

async function partsOf({ perdure }: Stage, id: string) {
  return { ...(await readParts(await perdure.job(id))), workerName: () => null };
}

async function runEventsOf(from: Stage, id: string): Promise<readonly NoetlEvent[]> {
  const run = await from.perdure.runHandle(id);
  const view = await readRunView({
    run: () => run.get(),
    events: async () => (await all(run.events())) as JobEvent[],
    steps: (page) => from.perdure.steps(id, page),
    job: (job) => partsOf(from, job),
  });
  return noetlRunEvents(view);
}

it("have the columns of NoETL's tables", async () => {
  const { url, into } = await stage();
  const found = await ask<{ view: string; names: string[] }>(
    url,
    `select table_name as view, array_agg(column_name::text order by ordinal_position) as names
     from information_schema.columns where table_schema = $1 group by table_name`,
    [into],
  );
  expect(Object.fromEntries(found.map(({ view, names }) => [view, names]))).toEqual(COLUMNS);
});

it("have the rows of the event view: of jobs with all that can happen to them", async () => {
  const from = await stage();
  const { perdure } = from;
  const flaky = task("flaky", { retry: REPEAT as never }, (ends: readonly string[], ctx) => {
    const end = ends[Math.min(ctx.attempt, ends.length) - 1];
    if (end !== "ok") throw new Error(end);
    return { attempt: ctx.attempt, half: 0.5 };
  });
  const once = task("once", { retry: 1 }, () => {
    throw new Error("only once");
  });
  const polled = task(
    "polled",
    { retry: { ...REPEAT, retryWhen: "result.done == false" } as never },
    (_: null, ctx) => {
      return { done: ctx.attempt > 1 };
    },
  );
  await perdure.work([flaky, once, polled], { name: "one" });
  const handles = [
    await perdure.submit(flaky, ["busy", "ok"]),
    await perdure.submit(flaky, ["busy", "busy", "busy"]),
    await perdure.submit(once, null as never),
    await perdure.submit(polled, null),
    await perdure.submit("nobody", {}, { delay: "1h", annotations: { "noetl/step": "named", "noetl/type": "http" } }),
  ];
  const [, failed, , , waiting] = handles;
  for (const handle of handles.slice(0, 4)) await handle.result().catch(() => {});
  await waiting?.cancel();
  await perdure.redrive(failed?.id as string);
  await failed?.result().catch(() => {});
  for (const { id } of handles) {
    const parts = await partsOf(from, id);
    expect(await rowsOf(from, id)).toEqual(JSON.parse(JSON.stringify(noetlEvents(parts))));
    const { worker_id: _, result: __, ...row } = noetlQueueRow(parts);
    expect(await queueInSql(from, id)).toEqual(JSON.parse(JSON.stringify(row)));
  }
});

it("have the rows of the event view: of runs with branches, loops, failures that are handled, and runs below", async () => {
  const from = await stage();
  const { perdure } = from;
  const double = task("double", ({ n }: { n: number }, ctx) => {
    if (n < 0 && ctx.attempt === 1) throw new Error("negative");
    return { n: n * 2 };
  });
  await perdure.work([double], { name: "one", concurrency: 4 });
  const work = (step: string, n: unknown, more: object = {}) => ({
    step,
    type: "task",
    task: "double",
    data: { n },
    ...more,
  });
  const document = (workflow: readonly object[], name: string, more: object = {}) => ({
    ...{ apiVersion: "perdure/v1", kind: "Playbook", metadata: { name, path: `tests/${name}` } },
    ...more,
    workflow,
  });
  await perdure.pushPlaybook(document([work("only", "{{ inputs.n }}")], "below"));
  const playbook = document(
    [
      { step: "start", next: ["many", "never", "fails"] },
      work("many", "{{ item }}", { loop: { in: [1, -2, 3], iterator: "item" }, retry: REPEAT, next: "below" }),
      work("never", 1, { when: "{{ 1 > 2 }}" }),
      work("fails", -1, { next: [{ when: "{{ error != None }}", step: "rescue" }] }),
      work("rescue", 5),
      { step: "below", type: "playbook", path: "tests/below", data: { n: 4 }, next: "odd" },
      work("odd", 1, { assert: { returns: ["missing"] }, next: [{ when: "{{ failure != None }}", step: "end" }] }),
      { step: "end" },
    ],
    "above",
    { workload: { word: "hello" } },
  );
  const good = await perdure.run(playbook, { more: 1 });
  expect(await good.result().catch((error: unknown) => String(error))).toBeDefined();
  const bad = await perdure.run(document([work("a", -1, { next: "b" }), work("b", 1)], "bad"));
  await bad.result().catch(() => {});
  const redriven = await perdure.redriveRun(bad.id);
  await (await perdure.runHandle(redriven.id)).result().catch(() => {});
  const { runs } = await perdure.runs({ parent: good.id });
  const ids = [good.id, bad.id, ...runs.map(({ id }) => id)];
  expect(ids).toHaveLength(3);
  const types = new Set<string>();
  for (const id of ids) {
    const shown = await runEventsOf(from, id);
    for (const { event_type } of shown) types.add(event_type);
    expect(await rowsOf(from, id)).toEqual(JSON.parse(JSON.stringify(shown)));
  }
  expect([...types].toSorted()).toEqual([
    ...["action_completed", "action_error", "action_started", "execution_complete", "execution_failed"],
    ...["execution_restarted", "execution_start", "loop_completed", "loop_iteration", "step_completed"],
    ...["step_failed_terminal", "step_retry", "step_skipped", "step_started"],
  ]);
  const [workload] = await ask(from.url, `select data from "${from.into}".workload where execution_id = $1`, [good.id]);
  expect(workload).toEqual({ data: { word: "hello", more: 1 } });
});
