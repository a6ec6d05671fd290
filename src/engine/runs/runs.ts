/** The verbs of runs: start, read, list, redrive. Their background work is in `run-service.ts`. */
import {
  checkRunsFilter,
  checkStepsPage,
  type RunInfo,
  type RunRedriveOptions,
  type RunsFilter,
  type StepInfo,
  type StepsPage,
} from "../../core/api/runs.ts";
import { PerdureError } from "../../core/errors.ts";
import { isTerminal } from "../../core/job/job.ts";
import type { RunExplanation } from "../../core/run/explain-run.ts";
import type { GraphFormat } from "../../core/run/graph-format.ts";
import { graphText } from "../../core/run/graph-text.ts";
import type { RunRow } from "../../core/run/run.ts";
import { readRunHistory } from "../../core/run/run-history.ts";
import { isId } from "../../lib/id.ts";
import type { JobRow } from "../../store/store.ts";
import { command, jobNotFound } from "../command.ts";
import type { EngineParts } from "../parts.ts";
import type { Playbooks } from "../playbooks/playbooks.ts";
import { redriveOf } from "./redrive-run.ts";
import { eventsOfRun, runExplanation, stepsOfRun } from "./run-explanation.ts";
import type { RunService, RunTrouble } from "./run-service.ts";
import { jobsOfRuns, runInfo, stepInfos } from "./run-views.ts";
import { type NewRunRequest, type StartedRun, startRun } from "./start-run.ts";

/** Of a page of runs, in characters. */
const PAGE_CHARS = 8_388_608;
const READ_TOGETHER = 4;

export class Runs {
  readonly #parts: EngineParts;
  readonly #playbooks: Playbooks;
  readonly #service: RunService;

  constructor(parts: EngineParts, playbooks: Playbooks, service: RunService) {
    this.#parts = parts;
    this.#playbooks = playbooks;
    this.#service = service;
  }

  async start(request: NewRunRequest): Promise<StartedRun> {
    const started = await startRun(this.#parts, this.#playbooks, request);
    if (started.created) this.#service.mayGoOn([started.id]);
    return started;
  }

  /** Throws `job_not_found` for a job of another namespace, and for one that is not a run. */
  async info(namespace: string, id: string): Promise<RunInfo> {
    const { job, run } = await this.#read(namespace, id);
    return runInfo(this.#parts.store, this.#playbooks, job, run);
  }

  async list(namespace: string, filter: RunsFilter): Promise<{ runs: RunInfo[]; next: string | null }> {
    const { store } = this.#parts;
    const conditions = { namespace, ...jobsOfRuns(checkRunsFilter(filter)) };
    const { jobs, next } = await store.find(conditions);
    const runs: RunInfo[] = [];
    let chars = 0;
    for (let at = 0; at < jobs.length; at += READ_TOGETHER) {
      if (chars > PAGE_CHARS) {
        // A run may have a megabyte of data, so a page can be short. The cursor is that of a page of this size.
        return { runs, next: (await store.find({ ...conditions, limit: at })).next };
      }
      const together = jobs.slice(at, at + READ_TOGETHER);
      const rows = await Promise.all(together.map(({ id }) => store.runs.row(id)));
      for (const [index, run] of rows.entries()) {
        if (run === null) continue;
        runs.push(await runInfo(store, this.#playbooks, together[index] as JobRow, run));
        chars += run.data.length + (run.result?.length ?? 0);
      }
    }
    return { runs, next };
  }

  async steps(namespace: string, id: string, page: StepsPage = {}): Promise<StepInfo[]> {
    const checked = checkStepsPage(page);
    const { run } = await this.#read(namespace, id);
    return stepInfos(this.#parts.store, await this.#playbooks.load(run.playbook), id, checked);
  }

  async redrive(namespace: string, id: string, options: RunRedriveOptions, by: string | null): Promise<RunInfo> {
    const { job, run } = await this.#read(namespace, id);
    if (job.state !== "failed" && job.state !== "cancelled") {
      throw new PerdureError(
        "wrong_state",
        `${id}: cannot redrive a run that is ${isTerminal(job.state) ? job.state : "running"}; it must be failed or cancelled`,
      );
    }
    const wanted = await redriveOf(this.#parts.store, this.#playbooks, run, options);
    await command(this.#parts, id, { kind: "redrive", run: wanted, by });
    return this.info(namespace, id);
  }

  /** Drawn with the states of its steps; items of loops are counted. */
  async graph(namespace: string, id: string, format: GraphFormat): Promise<string> {
    const { job, run } = await this.#read(namespace, id);
    const { store, clock } = this.#parts;
    const playbook = await this.#playbooks.load(run.playbook);
    const steps = await stepsOfRun(store, playbook, id);
    const events = await eventsOfRun(store, job);
    return graphText(playbook, format, { steps, history: readRunHistory(events), now: clock.now() });
  }

  /** `whyNot`: why the job of an open step is not running. */
  async explain(job: JobRow, whyNot: (jobId: string) => Promise<string>): Promise<RunExplanation | null> {
    const run = await this.#parts.store.runs.row(job.id);
    if (run === null) return null;
    return runExplanation(this.#parts, this.#playbooks, { job, run }, whyNot, this.troubleOf(job.id));
  }

  /** Why it cannot advance, if a mistake of this version is the reason. */
  troubleOf(id: string): RunTrouble | null {
    return this.#service.troubleOf(id);
  }

  /** Advances all that are due now, and returns when that is done. */
  sweep(): Promise<void> {
    return this.#service.sweep();
  }

  async #read(namespace: string, id: string): Promise<{ readonly job: JobRow; readonly run: RunRow }> {
    if (typeof id !== "string" || !isId(id, "job")) throw jobNotFound(String(id));
    const { store } = this.#parts;
    const [[job], run] = await Promise.all([store.jobs([id]), store.runs.row(id)]);
    if (job == null || job.namespace !== namespace) throw jobNotFound(id);
    if (run === null) throw new PerdureError("job_not_found", `job ${id} is not a run`);
    return { job, run };
  }
}
