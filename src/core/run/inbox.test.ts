import { expect, it } from "vitest";
import { EVENT_FORMAT, type JobEventBody } from "../job/event.ts";
import { RUN_KIND } from "../playbook/playbook.ts";
import { messageOf } from "./inbox.ts";

const by = { v: EVENT_FORMAT, by: null };
const asked: JobEventBody = { name: "job.cancel_requested", data: by };
const cancelled: JobEventBody = { name: "job.cancelled", data: by };
const redriven: JobEventBody = {
  name: "job.redriven",
  data: { ...by, runAt: 0, expiresAt: null, run: { from: ["a"] } },
};
const step = { id: "job_2", kind: "resize", runId: "job_1", state: "queued" } as const;
const run = { id: "job_1", kind: RUN_KIND, runId: null, state: "blocked" } as const;

it.each([
  ["a step that ends", step, cancelled, "cancelled", { run: "job_1", kind: "ended", ref: "job_2", body: null }],
  ["a step that goes on", step, asked, "running", null],
  ["a step that had ended", { ...step, state: "failed" }, redriven, "queued", null],
  ["a job of its own", { ...step, runId: null }, cancelled, "cancelled", null],
  ["a run to cancel", run, asked, "blocked", { run: "job_1", kind: "cancel", ref: null, body: null }],
  ["a run to redrive", run, redriven, "blocked", { run: "job_1", kind: "redrive", ref: null, body: { from: ["a"] } }],
  ["a run below a run that ends", { ...run, runId: "job_0" }, cancelled, "cancelled", { run: "job_0", kind: "ended" }],
] as const)("%s", (_, job, event, state, message) => {
  const made = messageOf(job, event, { state });
  if (message === null) expect(made).toBeNull();
  else expect(made).toMatchObject(message);
});
