/** Runs and their steps as people see them. */
import type { RunInfo, RunStatus, RunsFilter, StepInfo, StepsPage } from "../../core/api/runs.ts";
import type { Failure } from "../../core/decision/failure.ts";
import { isTerminal, type JobState } from "../../core/job/job.ts";
import { checkJobsFilter, type JobConditions } from "../../core/job/jobs-filter.ts";
import { type Playbook, type PlaybookStep, RUN_KIND } from "../../core/playbook/playbook.ts";
import { isOpen, type RunRow, type StepRow, type StoredOutput } from "../../core/run/run.ts";
import { parseRunData } from "../../core/run/run-data.ts";
import { shownStep } from "../../core/run/step-info.ts";
import { outputOf } from "../../core/run/step-output.ts";
import type { JobRow, Store } from "../../store/store.ts";
import type { Playbooks } from "../playbooks/playbooks.ts";

const STATES: Readonly<Record<RunStatus, readonly JobState[]>> = {
  running: ["queued", "running", "blocked"],
  succeeded: ["succeeded"],
  failed: ["failed"],
  cancelled: ["cancelled"],
};

/** The jobs that are these runs. */
export function jobsOfRuns({ state, playbook, ...rest }: RunsFilter): JobConditions {
  const states = state === undefined ? undefined : typeof state === "string" ? [state] : state;
  return checkJobsFilter({
    ...rest,
    kind: RUN_KIND,
    ...(playbook === undefined ? {} : { action: playbook }),
    ...(states === undefined ? {} : { state: states.flatMap((one) => STATES[one]) }),
  });
}

export async function runInfo(
  { runs }: Pick<Store, "runs">,
  playbooks: Playbooks,
  job: JobRow,
  run: RunRow,
): Promise<RunInfo> {
  const { name, path } = await playbooks.load(run.playbook);
  const { inputs, workload } = parseRunData(run.data);
  const n = job.state === "failed" ? (run.state.end?.step ?? run.state.broken[0] ?? null) : null;
  const [failed] = n === null ? [] : await runs.steps({ run: run.id, after: n - 1, limit: 1 });
  return {
    id: job.id,
    namespace: job.namespace,
    name: job.name,
    playbook: { name, path, version: await versionOf(runs, job, run, path), hash: run.playbook },
    state: statusOf(job.state),
    phase: run.phase,
    reason: job.reason,
    failure: job.state === "failed" ? run.failure : null,
    failedStep: failed?.node ?? null,
    openSteps: run.open,
    madeSteps: run.made,
    chapter: job.chapter,
    key: job.key,
    tags: job.tags,
    queue: job.queue,
    priority: job.priority,
    annotations: job.annotations,
    parentId: job.runId,
    input: inputs,
    workload,
    result: job.state === "succeeded" && run.result !== null ? (JSON.parse(run.result) as unknown) : undefined,
    submittedAt: job.submittedAt,
    finishedAt: job.finishedAt,
    deadlineAt: run.deadlineAt,
    cancelRequestedAt: job.cancelRequestedAt,
  };
}

function statusOf(state: JobState): RunStatus {
  return state === "succeeded" || state === "failed" || state === "cancelled" ? state : "running";
}

/** The version that it was started from; after a redrive with another definition, the latest one with that definition. */
async function versionOf(
  runs: Store["runs"],
  { namespace, payload }: JobRow,
  { playbook: hash }: RunRow,
  path: string | null,
): Promise<number | null> {
  const { playbook } = (JSON.parse(payload) ?? {}) as { playbook?: { version?: unknown; hash?: unknown } };
  if (playbook?.hash === hash) return typeof playbook.version === "number" ? playbook.version : null;
  if (path === null || playbook === undefined) return null;
  const versions = (await runs.versions(namespace, path)).filter((entry) => entry.playbook === hash);
  return versions.reduce<number | null>((most, { version }) => Math.max(most ?? 0, version), null);
}

/** A page of outputs. */
const OUTPUT_CHARS = 8_388_608;

export async function stepInfos(
  { runs, facts, children }: Pick<Store, "runs" | "facts" | "children">,
  playbook: Playbook,
  run: string,
  page: StepsPage & { readonly after: number; readonly limit: number },
): Promise<StepInfo[]> {
  const { after, limit, states, step: node, items, outputs = false } = page;
  const rows = await runs.steps({
    ...{ run, after, limit },
    ...(states === undefined ? {} : { states }),
    ...(node === undefined ? {} : { node }),
    ...(items === false ? { items } : {}),
  });
  const ids = rows.flatMap(({ job }) => (job === null ? [] : [job]));
  const jobs = new Map((await facts(ids)).flatMap((job) => (job === null ? [] : [[job.id, job] as const])));
  const read = rows.filter(({ state }) => !isOpen(state) && (outputs || hasFailed(state))).map(({ n }) => n);
  const stored = new Map((read.length === 0 ? [] : await runs.outputs(run, read)).map((one) => [one.step.n, one]));
  const retried = [...jobs.values()]
    .filter(({ state, attempt }) => attempt > 0 && !isTerminal(state))
    .map(({ id }) => id);
  const failures = new Map<string, Failure | null>();
  if (retried.length > 0)
    for (const [i, one] of (await children.failures(retried)).entries()) failures.set(retried[i] as string, one);
  const types = new Map(playbook.steps.map((step) => [step.name, step] as const));
  const found: StepInfo[] = [];
  let chars = 0;
  for (const row of rows) {
    const job = row.job === null ? null : (jobs.get(row.job) ?? null);
    const one = stored.get(row.n);
    const failure = one?.failure ?? (row.job === null ? null : (failures.get(row.job) ?? null));
    const step = types.get(row.node);
    const info = shownStep(row, job, step?.action?.type ?? null, failure === null ? null : { ...failure, stack: null });
    if (outputs && one !== undefined) {
      const items = step?.loop != null && row.item < 0 ? await runs.items(run, row.n, OUTPUT_CHARS) : null;
      found.push({ ...info, output: shownOutput(step, one, items) });
      for (const { result } of items ?? []) chars += result?.length ?? 0;
    } else found.push(info);
    chars += one?.result?.length ?? 0;
    if (outputs && chars > OUTPUT_CHARS) break;
  }
  return found;
}

/** The items of a loop are together its output. */
function shownOutput(
  step: PlaybookStep | undefined,
  one: StoredOutput,
  items: readonly StoredOutput[] | null,
): unknown {
  if (step === undefined) return null; // of an earlier definition
  if (step.loop === null) return outputOf(step, one).value;
  return one.step.item >= 0 ? outputOf({ ...step, loop: null }, one).value : outputOf(step, one, items).value;
}

function hasFailed(state: StepRow["state"]): boolean {
  return state === "failed" || state === "handled" || state === "cancelled";
}
