/** Makes the jobs of the steps that an advance starts. Hot: thousands a second, so what a step of a playbook has in common for
 *  all its runs is made once. */
import { resourceLabels } from "../../core/input/resources.ts";
import { DEFAULT_PRIORITY, NO_LABELS, submitJob } from "../../core/job/lifecycle.ts";
import type { StepOptions } from "../../core/playbook/playbook.ts";
import type { PlannedJob } from "../../core/run/plan.ts";
import type { LoadedRun } from "../../core/run/run.ts";
import { newRunProgress } from "../../core/run/start.ts";
import type { NewJob } from "../../store/store.ts";
import { policyHash } from "../policy-hash.ts";

type JobLabels = Readonly<Record<string, string>>;

/** A step without a queue, a priority or labels of its own has those of its run. */
export function stepJob({ job: run }: LoadedRun, planned: PlannedJob, now: number): NewJob {
  const { id, kind, payload, options, name, isChild } = planned;
  const { namespace, tags } = run;
  const { policy, timeoutMs } = options;
  const queue = options.queue ?? run.queue;
  const priority = options.priority ?? run.priority ?? DEFAULT_PRIORITY;
  const labels = labelsOf(run.labels, options, planned.labels);
  const isRun = planned.run !== null;
  const expireInMs = isRun ? null : options.deadlineMs;
  const parentId = isChild ? run.id : null;
  const deadlineAt = null;
  // No spreads: V8 is two hundred times slower when fields are added to a spread object.
  const terms = {
    kind,
    queue,
    namespace,
    runAt: now,
    expireInMs,
    policy,
    labels,
    priority,
    timeoutMs: isRun ? null : timeoutMs,
    deadlineAt,
    parentId,
  };
  const job: NewJob = {
    id,
    namespace,
    queue,
    kind,
    labels,
    priority,
    runAt: now,
    timeoutMs: terms.timeoutMs,
    expireInMs,
    deadlineAt,
    key: null,
    bodyHash: null,
    tags,
    payload,
    policy,
    policyHash: policyHash(policy),
    owner: null,
    parent: isChild ? { id: run.id, attempt: null } : null,
    // Also of an independent run, so that a playbook that starts itself comes to an end.
    depth: run.depth + 1,
    annotations: null,
    name,
    action: null,
    transition: submitJob(terms, now),
  };
  if (!isRun && !isChild) return job;
  return asStep(job, run.id, planned, now);
}

function asStep(job: NewJob, runId: string, { isChild, run }: PlannedJob, now: number): NewJob {
  if (run === null) return Object.assign(job, { runId });
  const { hash, pins, data, timeoutMs } = run;
  const deadlineAt = timeoutMs === null ? null : now + timeoutMs;
  const details = { playbook: hash, pins, data, deadlineAt, origin: null, progress: newRunProgress() };
  return Object.assign(job, isChild ? { runId, run: details } : { run: details });
}

const labelsOfSteps = new WeakMap<StepOptions, JobLabels>();

function labelsOf(ofRun: JobLabels, options: StepOptions, own: JobLabels): JobLabels {
  let ofStep = labelsOfSteps.get(options);
  if (ofStep === undefined) {
    const { labels, resources } = options;
    const all = resources === null ? labels : { ...labels, ...resourceLabels(resources) };
    ofStep = isEmpty(all) ? NO_LABELS : all;
    labelsOfSteps.set(options, ofStep);
  }
  if (isEmpty(ofRun) && isEmpty(own)) return ofStep;
  return { ...ofRun, ...ofStep, ...own };
}

function isEmpty(labels: JobLabels): boolean {
  for (const _ in labels) return false;
  return true;
}
