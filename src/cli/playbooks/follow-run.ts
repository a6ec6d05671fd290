/** Follows a run until it has ended: its events give the steps, their rows give names, and the jobs of open steps give attempts.
 *  What happened before it began is counted and not printed. */
import { MAX_STEPS_PAGE, type RunHandle, type RunInfo, type StepInfo } from "../../core/api/runs.ts";
import type { Perdure } from "../../core/api.ts";
import type { JobEvent } from "../../core/job/event.ts";
import type { JobInfo } from "../../core/job/views.ts";
import { isOpen, type RunChange } from "../../core/run/run.ts";
import { sleep } from "../../lib/clock.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { stepName } from "../output/run-text.ts";
import { attemptLine } from "../run/progress.ts";
import { reportIfWaiting } from "../run/why-waiting.ts";
import type { Target } from "../target/target.ts";
import type { LiveLines } from "./live-lines.ts";
import { endLine, FollowedLoops, loopLine, startLine } from "./run-lines.ts";

export interface FollowRunRequest {
  readonly perdure: Perdure;
  readonly run: RunHandle<unknown>;
  readonly lines: LiveLines;
  /** For the advice if no worker takes a step. */
  readonly at: Target["kind"];
  readonly signal: AbortSignal;
}

/** How often attempts of open steps are read. */
const POLL_MS = 500;
/** Steps whose attempts are printed at a time. */
const WATCHED = 50;
/** Jobs that are checked for a missing worker at a time. */
const CHECKED = 5;

export async function followRun(request: FollowRunRequest): Promise<void> {
  const follower = new RunFollower(request);
  const polling = follower.poll();
  try {
    await follower.follow();
  } finally {
    follower.stop();
    await polling.catch(() => {});
  }
}

class RunFollower {
  readonly #request: FollowRunRequest;
  readonly #loops = new FollowedLoops();
  /** By the index of the step. */
  readonly #names = new Map<number, string>();
  /** Rows that are open now, without items of loops. */
  readonly #open = new Map<number, StepInfo>();
  /** The last attempt of a job that was printed. */
  readonly #printed = new Map<string, number>();
  readonly #over = new AbortController();
  #checking = 0;

  constructor(request: FollowRunRequest) {
    this.#request = request;
    request.signal.addEventListener("abort", () => this.stop(), { once: true });
  }

  stop(): void {
    this.#over.abort();
  }

  async follow(): Promise<void> {
    const { perdure, run } = this.#request;
    const { signal } = this.#over;
    const job = await perdure.job(run.id);
    const { revision: before } = await job.get();
    const hasEnded = (await run.get()).state !== "running";
    for await (const event of run.events({ follow: !hasEnded, signal }) as AsyncIterable<JobEvent>) {
      if (event.name === "run.advanced") await this.#advanced(event.data.changes, run.created || event.n > before);
      else if (event.name === "run.ended" || event.name === "job.cancelled") {
        if ((await run.get()).state !== "running" && event.n >= (await job.get()).revision) return;
      }
    }
  }

  /** The attempts of open steps, until `stop`. */
  async poll(): Promise<void> {
    const { signal } = this.#over;
    while (!signal.aborted) {
      await sleep(systemClock, POLL_MS, { signal });
      if (signal.aborted) return;
      try {
        await this.#readAttempts();
      } catch {
        // The server may be restarting; the events report an outage that lasts.
      }
    }
  }

  async #readAttempts(): Promise<void> {
    const { run } = this.#request;
    const jobs = [...this.#open.values()].filter(({ job, type }) => job !== null && type !== "playbook");
    if (jobs.length === 0) return;
    for (const step of await run.steps({ states: ["open"], items: false, limit: WATCHED })) {
      if (this.#open.has(step.n)) await this.#attemptsOf(step);
    }
  }

  /** Whether a line of the last attempt shows its failure. */
  async #attemptsOf(step: StepInfo): Promise<boolean> {
    const { perdure, lines } = this.#request;
    const { job, attempt, jobState } = step;
    if (job === null || step.type === "playbook") return false;
    const seen = this.#printed.get(job) ?? 0;
    const ended = jobState === "running" ? attempt - 1 : attempt;
    const hasEnded = !isOpen(step.state);
    // A step that succeeded at once, or failed at once, has one line.
    if (hasEnded && attempt <= 1 && seen === 0) return false;
    if (ended <= seen) return seen > 0;
    let isLast = false;
    for (const each of (await perdure.explain(job)).attempts) {
      if (each.attempt <= seen) continue;
      const line = attemptLine(each);
      if (line === null) continue;
      const isSuccess = each.verdict === "succeed";
      if (!isSuccess) lines.note(`  ${stepName(step)}: ${line}`);
      isLast = !isSuccess;
      this.#printed.set(job, each.attempt);
    }
    return isLast;
  }

  async #advanced(changes: readonly RunChange[], isNew: boolean): Promise<void> {
    const { lines } = this.#request;
    const ofSteps: { readonly n: number; readonly change: RunChange }[] = [];
    for (const change of changes) {
      if (change.do === "remap") this.#names.clear();
      const loop = this.#loops.apply(change);
      if (change.do === "start" && (change.item ?? -1) < 0) ofSteps.push({ n: change.n, change });
      if (change.do === "end" && (change.item ?? -1) < 0) ofSteps.push({ n: change.n, change });
      if (loop === null || (change.do === "start" && change.items !== undefined)) continue;
      const name = this.#names.get("step" in change ? change.step : -1);
      if (isNew && name !== undefined) lines.update(`loop ${loop.n}`, `  ${name}: ${loopLine(loop)}`);
    }
    const rows = ofSteps.length === 0 ? new Map<number, StepInfo>() : await this.#rows(ofSteps.map(({ n }) => n));
    for (const { n, change } of ofSteps) {
      const row = rows.get(n);
      if (row === undefined || (change.do !== "start" && change.do !== "end")) continue;
      this.#names.set(change.step, row.step);
      if (change.do === "start") this.#started(row, change, isNew);
      else await this.#ended(row, change, isNew);
    }
    if (isNew) this.#checkItems(changes);
  }

  /** All items of a loop need the same worker. */
  #checkItems(changes: readonly RunChange[]): void {
    for (const change of changes) {
      if (change.do !== "start" || change.item !== 0 || change.job === undefined) continue;
      void this.#warn(this.#names.get(change.step) ?? "item", change.job).catch(() => {});
    }
  }

  #started(row: StepInfo, { step, visit }: Extract<RunChange, { do: "start" }>, isNew: boolean): void {
    const { lines } = this.#request;
    const loop = this.#loops.of(step, visit);
    if (isOpen(row.state)) this.#open.set(row.n, row);
    const line = startLine(stepName(row), row, loop?.n === row.n ? loop : null, systemClock.now());
    if (!isNew || line === null || row.state === "skipped") return;
    lines.note(line);
    if (row.job === null || row.type === "playbook") return;
    void this.#warn(stepName(row), row.job).catch(() => {});
  }

  /** Prints why its job does not start, if it waits for a worker. */
  async #warn(name: string, id: string): Promise<void> {
    const { perdure, lines, at } = this.#request;
    if (this.#checking >= CHECKED) return;
    this.#checking += 1;
    try {
      const job = await perdure.job(id);
      const advice = at === "store" ? localAdvice(await job.get()) : null;
      const note = (text: string) => {
        const why = text.replace(`${id}: `, "");
        lines.note(`  ${name}: ${advice === null ? why : why.replace(/; start .*$/, `; ${advice}`)}`);
      };
      await reportIfWaiting({ perdure, note, at }, job, this.#over.signal);
    } finally {
      this.#checking -= 1;
    }
  }

  async #ended(row: StepInfo, { step, visit }: Extract<RunChange, { do: "end" }>, isNew: boolean): Promise<void> {
    const { lines } = this.#request;
    this.#open.delete(row.n);
    const loop = this.#loops.of(step, visit);
    const own = loop?.n === row.n ? loop : null;
    if (own !== null) lines.finish(`loop ${own.n}`);
    if (!isNew) return;
    const isShown = await this.#attemptsOf(row);
    if (row.job !== null) this.#printed.delete(row.job);
    const line = endLine(stepName(row), row, own, isShown);
    if (line !== null) lines.note(line);
  }

  /** Rows by number, in as few calls as their distance allows. */
  async #rows(numbers: readonly number[]): Promise<ReadonlyMap<number, StepInfo>> {
    const { run } = this.#request;
    const wanted = new Set(numbers);
    const found = new Map<number, StepInfo>();
    const sorted = [...wanted].sort((a, b) => a - b);
    for (const n of sorted) {
      if (found.has(n)) continue;
      const last = sorted.findLast((each) => each < n + MAX_STEPS_PAGE) as number;
      const limit = Math.min(MAX_STEPS_PAGE, last - n + 1);
      for (const row of await run.steps({ after: n - 1, limit })) if (wanted.has(row.n)) found.set(row.n, row);
    }
    return found;
  }
}

/** What to set so that the worker in this process takes the job: no other worker takes its queue. */
export function localAdvice({ kind, labels }: Pick<JobInfo, "kind" | "labels">): string {
  const parts = Object.entries(labels).map(([name, value]) => {
    const [, type, rest = ""] = /^(connection|runtime)\/(.+)$/.exec(name) ?? [];
    if (type === "connection") return `set PERDURE_CONNECTION_${rest.toUpperCase()}`;
    if (type === "runtime" && rest === "python") return "install python3";
    return type === "runtime" ? `set PERDURE_RUNTIMES=${rest}` : `set PERDURE_LABELS=${name}=${value}`;
  });
  const isOwn = ["exec", "http", "postgres"].includes(kind);
  if (!isOwn) parts.unshift("set PERDURE_TASKS, or worker.tasks in perdure.yaml, to a module with this task");
  return `${parts.length === 0 ? "start a server with `perdure up`" : parts.join(", ")}, and run it again`;
}

/** As `perdure run -- COMMAND`: 0, 1, 124 after its timeout, 130 if it was cancelled. */
export function exitCodeOfRun({ state, reason }: Pick<RunInfo, "state" | "reason">): number {
  if (state === "succeeded") return 0;
  if (state === "cancelled") return 130;
  return reason === "timeout" ? 124 : 1;
}
