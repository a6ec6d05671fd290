/** A run of a simulation and its steps as the API returns them, made as the engine makes them of what is stored. */
import type { RunInfo, StepInfo } from "../api/runs.ts";
import type { SimulatedRun } from "./simulated-run.ts";
import { shownStep } from "./step-info.ts";

export function runInfo(run: SimulatedRun): RunInfo {
  const { job, playbook, progress, result, failure } = run;
  const { inputs, workload } = JSON.parse(run.data) as Pick<RunInfo, "workload"> & { inputs: RunInfo["input"] };
  const isLive = job.state === "blocked" || job.state === "queued" || job.state === "running";
  return {
    id: job.id,
    namespace: job.namespace,
    name: playbook.name,
    playbook: { name: playbook.name, path: playbook.path, version: null, hash: "simulated" },
    state: isLive ? "running" : (job.state as "succeeded" | "failed" | "cancelled"),
    phase: progress.phase,
    reason: job.reason,
    failure,
    failedStep: progress.state.end?.node ?? null,
    openSteps: progress.open,
    madeSteps: progress.made,
    chapter: job.chapter,
    key: null,
    tags: [],
    queue: job.queue,
    priority: job.priority,
    annotations: {},
    parentId: null,
    input: inputs,
    workload,
    result: result === null ? undefined : JSON.parse(result),
    submittedAt: job.submittedAt,
    finishedAt: job.finishedAt,
    deadlineAt: run.deadlineAt,
    cancelRequestedAt: job.cancelRequestedAt,
  };
}

export function stepInfo(run: SimulatedRun, n: number): StepInfo {
  const stored = run.output(n);
  const { step: row } = stored as NonNullable<typeof stored>;
  const job = row.job === null ? null : (run.jobs.get(row.job)?.job ?? null);
  const step = run.playbook.steps.find(({ name }) => name === row.node);
  return shownStep(row, job, step?.action?.type ?? null, stored?.failure ?? null);
}
