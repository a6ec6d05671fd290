import { expect, it } from "vitest";
import type { JobEvent } from "../../core/job/event.ts";
import {
  completed,
  failed,
  INTERRUPTED,
  lost,
  QUEUE_TIMEOUT,
  RELEASED,
  TestJobHistory,
  WAITING,
} from "../../core/job/testing-job.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { presets } from "../../core/policy/presets.ts";
import { type AttuneExecution, attuneView } from "./view.ts";

const ATTUNE = { ...presets.attune, maxAttempts: 4 };

function viewOf(story: TestJobHistory, parts: Partial<JobInfo> = {}) {
  const { job, events } = story;
  const result = job.state === "succeeded" ? "done" : undefined;
  const info = { ...job, payload: null, result, progress: undefined, annotations: {}, ...parts } as JobInfo;
  const all = events.map((event) => ({ ...event, seq: event.n, jobId: job.id })) as JobEvent[];
  return attuneView({ job: info, attempts: [], events: all, workerName: () => null });
}

const inShort = ({ status, retry_reason }: AttuneExecution) => `${status} ${retry_reason ?? "-"}`;

it("continues an execution that was returned, or waits for children", () => {
  const story = new TestJobHistory({ policy: ATTUNE }).start().settle(INTERRUPTED);
  expect(viewOf(story)).toMatchObject({ status: "requested", retry_count: 0, worker: null });
  story.start().settle(RELEASED).start().settle(WAITING);
  expect(viewOf(story)).toMatchObject({ status: "running", retry_count: 0 });
  expect(viewOf(story).chain).toHaveLength(1);
});

it("shows a chain with every kind of end", () => {
  const story = new TestJobHistory({ policy: { ...ATTUNE, maxAttempts: 9 }, expireInMs: 1_000 });
  story.settle(QUEUE_TIMEOUT, { afterMs: 1_000 });
  story.start().settle(lost());
  story.start().settle((job) => ({ ...lost()(job), why: "killed" }));
  story.start().settle(failed({ message: "read", code: "ECONNRESET" }));
  story.start().settle(completed());
  const view = viewOf(story);
  expect(view.chain.map(inShort)).toEqual([
    "failed -",
    "abandoned queue_timeout",
    "abandoned worker_heartbeat_stale",
    "failed worker_unavailable",
    "completed transient_error",
  ]);
  expect(view.chain.map(({ result }) => result)).toEqual([null, null, null, null, "done"]);
  expect(view).toMatchObject({ id: `${story.job.id}.r4`, worker: "worker-s4", original_execution: story.job.id });
});

it("leaves an execution that had ended as it was when the job is redriven", () => {
  const story = new TestJobHistory({ policy: { ...ATTUNE, maxAttempts: 1 } })
    .start()
    .settle(failed("no"), { afterMs: 1_000 });
  const [ended] = viewOf(story).chain;
  story.now += 60_000;
  story.command({ kind: "redrive" });
  const { chain } = viewOf(story);
  expect(chain[0]).toEqual(ended);
  expect(chain[1]).toMatchObject({ status: "requested", created: chain[1]?.updated });
  expect(Date.parse(chain[1]?.created ?? "") - Date.parse(ended?.updated ?? "")).toBe(60_000);
});

it("calls a retry unknown where another policy granted it", () => {
  const story = new TestJobHistory({ policy: { maxAttempts: 3 } }).start().settle(failed("what?"));
  expect(viewOf(story)).toMatchObject({ retry_reason: "unknown", max_retries: 2, status: "requested" });
});

it("has the max_retries of its policy, even if its action has another number", () => {
  const annotations = { "attune/action": "p.a", "attune/max_retries": "2" };
  const story = new TestJobHistory({ policy: { ...ATTUNE, maxAttempts: 5 } });
  expect(viewOf(story, { annotations })).toMatchObject({ max_retries: 4, chain: [{ max_retries: 4 }] });
});

it("never throws, whatever is missing", () => {
  const story = new TestJobHistory({ kind: "exec" });
  const nothing = viewOf(Object.assign(story, { events: [] }), { annotations: undefined as never });
  expect(nothing).toMatchObject({ status: "requested", action_ref: "exec", chain: [{}] });
  const odd = { annotations: { "attune/action": "p.a" }, payload: [1] };
  expect(viewOf(story, odd)).toMatchObject({ action_ref: "p.a", max_retries: 0, config: {} });
});
