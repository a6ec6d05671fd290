import { NonRetryableError } from "../core/decision/failure.ts";
import { ConfigError } from "../core/errors.ts";
import type { JobInfo } from "../core/job/views.ts";
import { RUN_KIND } from "../core/playbook/playbook.ts";
import { task } from "../core/task/task.ts";
import type { WorkerHandle } from "../core/task/work-options.ts";
import type { Perdure } from "../embedded/perdure.ts";

/** How an attempt of a step ends: `"ok"` without a value, with a value, with an HTTP status from 100 to 599, or with an error.
 *  @example
 *  const outcome: StepOutcome = { ok: { total: 3 } }; */
export type StepOutcome =
  | "ok"
  | "fail"
  | number
  | { readonly ok: unknown }
  /** With `retryable: false`, no policy repeats it. */
  | { readonly error: string; readonly retryable?: boolean };

/** Outcomes by the name of a step, one for each attempt; the last one repeats. `*` is for all other steps, which otherwise end with
 *  `"ok"`.
 *  @example
 *  const outcomes: StepOutcomes = { fetch_data: [503, 503, { ok: { total: 3 } }], "*": "ok" };
 *  await kit.runToEnd(run, { outcomes }); */
export type StepOutcomes = Readonly<Record<string, StepOutcome | readonly StepOutcome[]>>;

const RUNTIME = "runtime/";
const CONNECTION = "connection/";
const PAGE = 1_000;

export class ScriptedSteps {
  readonly #perdure: Perdure;
  readonly #outcomes: StepOutcomes;
  readonly #workers = new Map<string, WorkerHandle>();
  readonly #used = new Map<string, number>();

  constructor(perdure: Perdure, outcomes: StepOutcomes) {
    this.#perdure = perdure;
    this.#outcomes = outcomes;
  }

  /** Starts workers for the kinds and labels of steps that wait; true if there were new ones. */
  async serve(run: string): Promise<boolean> {
    let isNew = false;
    const { jobs } = await this.#perdure.jobs({ parent: run, state: ["queued", "blocked"], limit: PAGE });
    for (const job of jobs) {
      if (job.kind === RUN_KIND) isNew = (await this.serve(job.id)) || isNew;
      else isNew = (await this.#work(job)) || isNew;
    }
    return isNew;
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#workers.values()].map((worker) => worker.stop({ force: true })));
  }

  async #work({ kind, labels, queue }: JobInfo): Promise<boolean> {
    const place = JSON.stringify([kind, labels, queue]);
    if (this.#workers.has(place)) return false;
    const names = Object.keys(labels);
    const after = (prefix: string) =>
      names.flatMap((name) => (name.startsWith(prefix) ? [name.slice(prefix.length)] : []));
    const rest = names.filter((name) => !name.startsWith(RUNTIME) && !name.startsWith(CONNECTION));
    const connections = after(CONNECTION).map((name) => [name, "postgres://nowhere/none"] as const);
    const scripted = task(kind, (_input: never, { jobId }) => this.#outcome(jobId, kind));
    const worker = await this.#perdure.work([scripted], {
      concurrency: PAGE,
      queues: [queue],
      runtimes: after(RUNTIME),
      labels: Object.fromEntries(rest.map((name) => [name, labels[name] as string])),
      ...(connections.length === 0 ? {} : { connections: Object.fromEntries(connections) }),
    });
    this.#workers.set(place, worker);
    return true;
  }

  async #outcome(jobId: string, kind: string): Promise<never> {
    const step = await this.#stepOf(jobId);
    const given = this.#outcomes[step] ?? this.#outcomes["*"] ?? "ok";
    const list = Array.isArray(given) ? (given as readonly StepOutcome[]) : [given as StepOutcome];
    const used = this.#used.get(step) ?? 0;
    this.#used.set(step, used + 1);
    const outcome = list[Math.min(used, list.length - 1)] ?? "ok";
    return resultOf(outcome, kind, step) as never;
  }

  async #stepOf(jobId: string): Promise<string> {
    const { runId } = await (await this.#perdure.job(jobId)).get();
    for (let after = 0; runId !== null; ) {
      const page = await this.#perdure.steps(runId, { after, limit: PAGE });
      const found = page.find(({ job }) => job === jobId);
      if (found !== undefined) return found.step;
      if (page.length === 0) break;
      after = (page.at(-1) as { n: number }).n;
    }
    throw new Error(`${jobId} is not a step of a run`);
  }
}

/** As the executor of its kind would return or throw it. */
function resultOf(outcome: StepOutcome, kind: string, step: string): unknown {
  if (outcome === "fail") throw new Error(`scripted failure of step ${step}`);
  if (typeof outcome === "number") {
    if (!Number.isInteger(outcome) || outcome < 100 || outcome > 599) {
      const allowed = "an HTTP status from 100 to 599";
      throw new ConfigError({ path: `outcomes.${step}`, given: outcome, allowed });
    }
    if (outcome < 300) return shaped(null, kind, outcome);
    throw Object.assign(new Error(`scripted status ${outcome}`), { status: outcome });
  }
  if (outcome === "ok") return shaped(null, kind);
  if ("ok" in outcome) return shaped(outcome.ok, kind);
  throw outcome.retryable === false ? new NonRetryableError(outcome.error) : new Error(outcome.error);
}

function shaped(value: unknown, kind: string, status = 200): unknown {
  switch (kind) {
    case "http":
      return { status_code: status, status, headers: {}, body: value };
    case "exec":
      return { output: value, exitCode: 0, stdout: { text: "", textCut: false } };
    case "postgres":
      return Array.isArray(value)
        ? { rows: value as unknown[], rowCount: value.length }
        : (value ?? { rows: [], rowCount: 0 });
    default:
      return value;
  }
}
